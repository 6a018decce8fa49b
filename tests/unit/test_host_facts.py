"""`vllm-serve facts`: one snapshot, for people and as JSON."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.cli.facts import command
from appliance.core.codec import record_of
from appliance.core.facts import Facts
from appliance.core.problem import RefusedError

REPOSITORY = Path(__file__).parents[2]
ROOTS = REPOSITORY / "tests/roots"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def snapshot(*arguments: str) -> Facts:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.output
    return record_of(Facts, result.output)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a copy of a root to change."""
    root = shutil.copytree(ROOTS / "gx10-two", tmp_path / "root")
    (root / "etc").mkdir(exist_ok=True)
    return root


def test_every_reading_has_a_line() -> None:
    lines = run("--root", str(ROOTS / "gx10-two")).output.splitlines()
    gid = "0000:0000:0000:0000:0000:ffff:0a0a:010b"
    for line in (
        "gpu 0       NVIDIA GB10: unknown of unknown free, compute capability 12.1",
        "cuda        driver unknown, nvcc unknown",
        "memory      114.4 GiB of 121.6 GiB available",
        "address     enP7s7 192.168.7.11/24 global",
        f"rdma        rocep1s0f0 port 1: ACTIVE, LinkUp, 200 Gb/s, at 0000:01:00.0; gid 5 RoCE v2 {gid} enp1s0f0np0",
        "files       3 found",
        "unknown     port: only the machine itself can tell",
    ):
        assert line in lines


def test_a_machine_with_more_to_tell_has_more_lines() -> None:
    lines = run("--root", str(ROOTS / "h200x2")).output.splitlines()
    for line in (
        "gpu 1       NVIDIA H200: 139.8 GiB of 140.4 GiB free, compute capability 9.0, at 0000:00:07.0",
        "cuda        driver 13.0, nvcc unknown",
        "numa 0      cpus 0-31, 4.6 GiB",
        "rdma        none",
        "disk        / (ext4): 128.0 GiB of 252.0 GiB free",
        "unknown     addresses: there is no commands/ip-j-addr.json",
    ):
        assert line in lines


def test_without_a_configuration_nothing_is_asked_for_by_name(machine: Path) -> None:
    facts = snapshot("--root", str(machine))
    assert (facts.checkpoint, facts.engine) == (None, None)
    assert len(facts.checkpoints) == 2


def test_the_configuration_below_the_root_is_used(machine: Path) -> None:
    (machine / "etc/vllm-serve.toml").write_text('recipe = "demo"\n[model]\nsource = "/models/glm-5.3-flash-nvfp4"\n')
    facts = snapshot("--root", str(machine))
    assert facts.checkpoint is not None
    assert facts.checkpoint.folder == "/models/glm-5.3-flash-nvfp4"
    assert [entry.folder for entry in facts.checkpoints] == ["/models/glm-5.3-flash-dflash2"]


def test_no_path_of_this_machine_is_told_of_another(machine: Path) -> None:
    (machine / "etc/vllm-serve.toml").write_text('recipe = "demo"\n')
    printed = run("--json", "--root", str(machine)).output
    assert str(REPOSITORY) not in printed
    assert "there is no folder /usr/share/vllm-serve/" in printed


def test_a_bad_configuration_is_refused(machine: Path) -> None:
    (machine / "etc/vllm-serve.toml").write_text("recipe = 7\n")
    below = run("--root", str(machine))
    given = run("--config", str(machine / "nowhere.toml"))
    for result, told in ((below, "vllm-serve.toml:1: recipe"), (given, "nowhere.toml: can't be read: No such file")):
        assert isinstance(result.exception, RefusedError)
        assert told in str(result.exception)


def test_a_configuration_that_is_a_circle_of_links_is_refused(machine: Path) -> None:
    (machine / "etc/vllm-serve.toml").symlink_to("vllm-serve.toml")
    result = run("--root", str(machine))
    assert isinstance(result.exception, RefusedError)
    assert "leads through more than 40 links" in str(result.exception)


def test_a_given_configuration_is_that_of_this_machine(machine: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text('recipe = "demo"\n[model]\nsource = "/models/none"\n')
    facts = snapshot("--root", str(machine), "--config", str(config))
    assert facts.why_unread("checkpoint") == "there is no folder /models/none"


@pytest.mark.parametrize("arguments", [("--root", "/nowhere"), ("--inquiry", "{}"), ("--inquiry", "nonsense")])
def test_what_can_not_be_asked_is_a_mistake_of_the_caller(arguments: tuple[str, str]) -> None:
    assert run(*arguments).exit_code == 2


def test_the_inquiry_of_the_supervisor_is_taken_as_it_is(machine: Path) -> None:
    inquiry = {"engines": "/e", "engine": "x", "model": None, "host": "::1", "port": 1, "held": True}
    facts = snapshot("--root", str(machine), "--inquiry", json.dumps(inquiry))
    assert facts.why_unread("engine") == "engine x is not installed"
    assert (facts.port, facts.why_unread("port")) == (None, "")


def test_redacted_facts_hold_no_address(machine: Path) -> None:
    plain, shown = run("--root", str(machine)).output, run("--root", str(machine), "--redact").output
    assert "192.168.7.11" in plain
    assert "192.168.7.11" not in shown
    assert "enP7s7 10.0.0.11/24 global" in shown


def test_missing_files_are_named(machine: Path) -> None:
    inquiry = {"engines": "/e", "engine": None, "model": None, "host": "::1", "port": 1, "held": True}
    asked = json.dumps({**inquiry, "files": ["/etc/resolv.conf", "/opt/scales.json"]})
    lines = run("--root", str(machine), "--inquiry", asked).output.splitlines()
    assert "no file     /opt/scales.json" in lines
    assert "files       3 found" in lines


def test_this_machine_is_one_line_of_json_whatever_the_language(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.safetensors")).touch()
    inquiry = {"engines": str(tmp_path), "engine": None, "model": str(tmp_path), "host": "127.0.0.1", "port": 0}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "appliance.cli.main",
            "facts",
            "--json",
            "--inquiry",
            json.dumps({**inquiry, "held": False}),
        ],
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=True,
    )
    text = done.stdout.decode()
    facts = record_of(Facts, text)
    assert text.count("\n") == 1
    assert facts.checkpoint is not None
    assert [file.name for file in facts.checkpoint.weights] == ["caf\\udce9.safetensors"]
    assert facts.addresses
    assert facts.file_systems
