"""Why pip failed, from its output in real failures (host names replaced)."""

from pathlib import Path

import pytest

from appliance.engine.pip import progress_of_pip, why_failed

OUTPUTS = Path(__file__).parents[1] / "fixtures/pip"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "offline",
            "the package index can't be reached: Failed to establish a new connection: [Errno -3] Temporary failure in",
        ),
        ("proxy", "the package index can't be reached: ProxyError('Cannot connect to proxy.; connect this machine"),
        ("torch", "torch==2.13.0+cpu is not on the plain package index; add PyTorch's index of CPU builds"),
        ("hash", "six==1.17.0 is not the file that the lock names; the mirror serves another build"),
        ("space", "the disk is full; make room"),
        ("wheelhouse", "torch==2.13.0+cpu is not on the plain package index; add PyTorch's"),
    ],
)
def test_a_failure_is_told_with_its_reason_and_what_to_do(name: str, told: str) -> None:
    assert why_failed((OUTPUTS / f"{name}.txt").read_text().splitlines()).startswith(told)


def test_silence_is_told_as_such() -> None:
    assert why_failed([]) == "pip says: nothing"


def test_each_package_is_counted() -> None:
    lines = ["Collecting a==1", "  Downloading a", "Collecting b==2"]
    assert progress_of_pip(lines, 9) == "fetching package 2 of 9: b==2"
    assert progress_of_pip(lines[:2], 9) is None
    assert progress_of_pip(["Installing collected packages: a, b"], 9) == "unpacking 9 packages"
