"""An engine that is lost or stands still, in the sandbox of the unit, with the real vLLM."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.appliance_machine import appliance_machine
from tests.system.machine import Machine
from tests.system.package import built_package

SECONDS_TO_START = 600.0


@pytest.fixture(scope="module")
def machine(debian: Path, cache: Path) -> Iterator[Machine]:
    """Yield a machine whose service serves; the engine is that of the cache."""
    if not (cache / "engines/current").exists():
        pytest.fail("the engine is not in the cache: run test_appliance.py first")
    with appliance_machine(debian, built_package(cache / "packages"), cache, "private") as machine:
        machine.run("systemctl start vllm-serve", timeout=SECONDS_TO_START)
        yield machine


def show(machine: Machine, name: str) -> str:
    return machine.run(["systemctl", "show", "--value", f"--property={name}", "vllm-serve"]).stdout.strip()


def journal(machine: Machine) -> str:
    return machine.run("journalctl --no-pager --output=cat --unit=vllm-serve").stdout


def until_served_again(machine: Machine, launch: int) -> None:
    """Wait until the engine of a launch serves, under the same supervisor and without systemd's help."""
    deadline = time.monotonic() + SECONDS_TO_START
    while f"engine {launch} started as pid" not in journal(machine) or show(machine, "ActiveState") != "active":
        assert time.monotonic() < deadline, journal(machine)
        assert show(machine, "ActiveState") in ("active", "reloading"), journal(machine)
        time.sleep(0.5)
    machine.run("vllm-serve selftest")
    assert show(machine, "NRestarts") == "0"


def test_a_killed_engine_core_is_missed_at_once_and_comes_back(machine: Machine) -> None:
    supervisor = show(machine, "MainPID")
    machine.run(["pkill", "-KILL", "-f", "^VLLM::EngineCore"])
    time.sleep(1.5)
    assert "the engine is lost, starting it again: VLLM::EngineCore (pid " in journal(machine)
    until_served_again(machine, 2)
    assert show(machine, "MainPID") == supervisor
    told = machine.run("vllm-serve explain").stdout
    assert "engine 1 failed while serving" in told


def test_a_stopped_engine_core_is_found_and_writes_down_where_it_stood(machine: Machine) -> None:
    machine.run(["pkill", "-STOP", "-f", "^VLLM::EngineCore"])
    began = time.monotonic()
    while "the engine stands still: " not in journal(machine):
        assert time.monotonic() - began < 40
        time.sleep(0.5)
    until_served_again(machine, 3)
    stacks = [line for line in journal(machine).splitlines() if line.startswith("stack: ")]
    assert any("VLLM::EngineCore" in line for line in stacks)
    assert any(".py:" in line for line in stacks)


def test_the_engine_dies_before_the_supervisor_when_memory_runs_out(machine: Machine) -> None:
    assert show(machine, "OOMScoreAdjust") == "-250"  # a container may not be allowed to lower it
    assert int(machine.run(f"cat /proc/{show(machine, 'MainPID')}/oom_score_adj").stdout) <= 0
    pids = machine.run(["pgrep", "-f", "^VLLM::"]).stdout.split()
    assert {machine.run(f"cat /proc/{pid}/oom_score_adj").stdout.strip() for pid in pids} == {"500"}


def test_a_killed_supervisor_takes_its_engine_along_and_systemd_starts_both_anew(machine: Machine) -> None:
    before = machine.run(["pgrep", "-f", "^VLLM::"]).stdout.split()
    machine.run(f"kill -KILL {show(machine, 'MainPID')}")
    deadline = time.monotonic() + SECONDS_TO_START
    while show(machine, "NRestarts") != "1" or show(machine, "ActiveState") != "active":
        assert time.monotonic() < deadline, journal(machine)
        time.sleep(0.5)
    after = machine.run(["pgrep", "-f", "^VLLM::"]).stdout.split()
    assert not set(before) & set(after)
    machine.run("systemctl stop vllm-serve")
    assert machine.run(["pgrep", "-f", "^VLLM::"], check=False).stdout == ""
    assert machine.run("ls /dev/shm").stdout == ""
