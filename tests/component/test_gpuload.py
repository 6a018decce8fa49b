"""Whether GPUs compute, by a nvidia-smi that says what a test wants."""

import asyncio
import time
from pathlib import Path

import pytest

from appliance.host.gpuload import gpus_compute


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, devices: tuple[str, ...] = ()) -> bool | None:
    """Ask a nvidia-smi that is this script; no child of it is left."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    spare: set[int] = set()

    async def ask() -> bool | None:
        found = await gpus_compute(devices, spare, 0.5)
        assert spare == set()
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("script", "computes"),
    [
        ("echo 0; echo 100", True),
        ("echo 1", True),
        ("echo 0; echo 0", False),
        ("echo '[N/A]'; echo 0", None),
        ("echo '[N/A]'; echo 5", True),
        ("true", None),
        ("echo No devices were found", None),
        ("echo 0; exit 9", None),
        ("echo Unable to determine the device handle; exit 15", None),
        ("echo -5", None),
    ],
)
def test_what_nvidia_smi_says_is_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, computes: bool | None
) -> None:
    assert asked(tmp_path, monkeypatch, script) is computes


def test_only_the_gpus_of_the_engine_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "--query-gpu=utilization.gpu --format=csv,noheader,nounits -i 0,GPU-7"
    assert asked(tmp_path, monkeypatch, f'[ "$*" = "{line}" ] && echo 7', ("0", "GPU-7")) is True


def test_one_that_does_not_answer_is_ended_and_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.monotonic()
    assert asked(tmp_path, monkeypatch, "exec sleep 60") is None
    assert time.monotonic() - begun < 5


def test_without_nvidia_smi_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(gpus_compute((), set())) is None
