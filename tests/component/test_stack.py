"""Stacks of real processes: every one that can write its own does, and none writes into another's."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.activity import Activity
from appliance.engine.line import line_of, split_lines
from appliance.engine.stack import MARK, dump, stacks_in
from appliance.host.activity import activity_of

PROGRAM = """
import sys, threading, time

def wait_for_ever():
    time.sleep(600)

def spin_for_ever():
    while True:
        pass

def deep(count):
    deep(count - 1) if count else wait_for_ever()

for number in range(5):
    threading.Thread(target=wait_for_ever, daemon=True).start()
print("up", flush=True)
exec(sys.argv[1])
"""
MUTE = "import time; print('up', flush=True); time.sleep(600)"


class Family:
    """Processes that share one output, which somebody reads."""

    def __init__(self) -> None:
        ours, self._theirs = os.pipe()
        self.output = b""
        self.processes: list[subprocess.Popen[bytes]] = []
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, ours: int) -> None:
        while chunk := os.read(ours, 65536):
            self.output += chunk
        os.close(ours)

    def start(self, program: str, *words: str, handler: str = "1") -> subprocess.Popen[bytes]:
        """Start a process, and wait until it is where its program leaves it."""
        up = self.output.count(b"up\n")
        process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            env={**os.environ, "PYTHONFAULTHANDLER": handler},
            stdout=self._theirs,
            stderr=self._theirs,
        )
        self.processes.append(process)
        deadline = time.monotonic() + 20
        while self.output.count(b"up\n") == up:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.1)
        return process

    def activity(self) -> Activity:
        return activity_of(Path("/"), [process.pid for process in self.processes])

    def lines(self) -> list[str]:
        """Return what they wrote, as the supervisor reads it; all of them have ended, or are killed now."""
        for process in self.processes:
            process.kill()
            process.wait()
        os.close(self._theirs)
        self._reader.join(10)
        lines, _ = split_lines(self.output + b"\n")
        return [line_of(line).text for line in lines]


@pytest.fixture
def family() -> Iterator[Family]:
    family = Family()
    yield family
    for process in family.processes:
        process.kill()
        process.wait()


def test_every_process_writes_where_it_stands_and_ends(family: Family) -> None:
    sleeps = family.start(PROGRAM, "wait_for_ever()")
    spins = family.start(PROGRAM, "spin_for_ever()")
    held = family.start(PROGRAM, "deep(3)")
    held.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    begun = time.monotonic()
    told = asyncio.run(dump(family.activity().members))
    assert time.monotonic() - begun < 3
    assert [process.wait(5) for process in (sleeps, spins, held)] == [-signal.SIGABRT] * 3
    assert [line.partition(",")[0] for line in told] == [
        f"python (pid {process.pid})" for process in (held, spins, sleeps)
    ]
    assert "stopped" in told[0]
    assert "running" in told[1]
    assert "sleeping" in told[2]
    lines = family.lines()
    report = stacks_in(lines)
    assert [line for line in report if not line.startswith(" ")] == list(told)
    places = [report[report.index(line) + 1] for line in told]
    assert [place.rpartition(" ")[2] for place in places] == ["wait_for_ever", "spin_for_ever", "wait_for_ever"]
    assert sum("deep" in line for line in report) == 4
    assert sum(line.startswith(MARK) for line in lines) == 3


def test_what_one_process_writes_stands_together(family: Family) -> None:
    """Many processes with deep stacks: had they written at once, their lines would be mixed."""
    for _ in range(6):
        family.start(PROGRAM, "deep(80)")
    asyncio.run(dump(family.activity().members))
    lines = family.lines()
    blocks = [place for place, line in enumerate(lines) if line.startswith(MARK)]
    assert len(blocks) == 6
    sizes = {end - begin for begin, end in zip(blocks, [*blocks[1:], len(lines)], strict=True)}
    assert len(sizes) == 1, sizes
    report = stacks_in(lines)
    assert len([line for line in report if "python (pid" in line]) == 6
    assert len(report) < 30, "one stack for all six"


def test_a_process_without_the_handler_is_told_of_and_left_alive(family: Family) -> None:
    mute = family.start(MUTE, handler="")
    told = asyncio.run(dump(family.activity().members))
    assert len(told) == 1
    assert f"(pid {mute.pid}), sleeping" in told[0]
    assert mute.poll() is None
    assert activity_of(Path("/"), [mute.pid]).members[0].state == "S", "it is not left stopped"
    assert stacks_in(family.lines()) == ()


def test_a_process_that_is_gone_is_no_trouble(family: Family) -> None:
    family.start(PROGRAM, "wait_for_ever()")
    members = family.activity().members
    family.processes[0].kill()
    family.processes[0].wait()
    assert len(asyncio.run(dump(members))) == 1
    assert asyncio.run(dump([])) == ()


def test_a_dump_that_is_given_up_leaves_nobody_stopped(family: Family) -> None:
    for _ in range(3):
        family.start(PROGRAM, "wait_for_ever()")

    async def give_up() -> None:
        dumping = asyncio.create_task(dump(family.activity().members))
        await asyncio.sleep(0)
        dumping.cancel()
        await asyncio.gather(dumping, return_exceptions=True)

    asyncio.run(give_up())
    time.sleep(0.3)
    left = [member.state for member in family.activity().members if member.state != "Z"]
    assert len(left) >= 2
    assert "T" not in left
