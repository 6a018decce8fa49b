"""The death of processes that the engine can't live without is told at once."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.activity import Member
from appliance.engine.obituary import Obituaries
from appliance.host.activity import activity_of
from tests.rig import ROOT

CHILD = ROOT / "tests/fakes/child.py"
TITLES = ("VLLM::EngineCore", "VLLM::Worker_TP0", "VLLM::APIServer_1", "something else")


class Engine:
    """Processes with titles, and the news of them."""

    def __init__(self) -> None:
        self.processes = {
            title: subprocess.Popen([sys.executable, str(CHILD), title], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for title in TITLES
        }
        for process in self.processes.values():
            assert process.stdout
            process.stdout.readline()
        self.told: list[tuple[str, int]] = []

    def take(self, member: Member) -> None:
        self.told.append((member.name, member.pid))

    def members(self) -> tuple[Member, ...]:
        return activity_of(Path("/"), [process.pid for process in self.processes.values()]).members

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()

    async def until_told(self, count: int, seconds: float = 1.0) -> None:
        deadline = time.monotonic() + seconds
        while len(self.told) < count:
            assert time.monotonic() < deadline, self.told
            await asyncio.sleep(0.01)


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_each_death_is_told_once_and_within_a_second(engine: Engine) -> None:
    async def watch() -> None:
        before = descriptors()
        obituaries = Obituaries(engine.take)
        obituaries.watch(engine.members())
        obituaries.watch(engine.members())
        assert descriptors() == before + 3, "those with a title of vLLM, each once"
        await asyncio.sleep(0.1)
        assert engine.told == []
        for count, title in enumerate(TITLES[:3], 1):
            engine.processes[title].kill()
            await engine.until_told(count)
            assert engine.told[-1] == (title, engine.processes[title].pid)
            obituaries.watch(engine.members())
        engine.processes[TITLES[3]].kill()
        await asyncio.sleep(0.1)
        assert len(engine.told) == 3
        assert descriptors() == before
        obituaries.close()

    asyncio.run(watch())


def test_a_process_that_takes_its_title_later_is_watched_from_then_on(engine: Engine) -> None:
    async def watch() -> None:
        obituaries = Obituaries(engine.take)
        obituaries.watch([])
        obituaries.watch(engine.members()[:1])
        engine.processes[TITLES[1]].kill()
        await asyncio.sleep(0.1)
        assert engine.told == []
        engine.processes[TITLES[0]].kill()
        await engine.until_told(1)
        obituaries.close()

    asyncio.run(watch())


def test_one_that_died_between_the_look_and_the_watch_is_told_too(engine: Engine) -> None:
    async def watch() -> None:
        obituaries, members = Obituaries(engine.take), engine.members()
        first, second = engine.processes[TITLES[0]], engine.processes[TITLES[1]]
        first.kill()
        second.kill()
        second.wait()  # its pid is free: no pidfd can be had of it
        obituaries.watch(members)
        await engine.until_told(1)
        assert engine.told == [(TITLES[0], first.pid)], "a dead process that nobody has waited for"
        obituaries.watch(engine.members())
        await engine.until_told(2)
        assert engine.told[1] == (TITLES[1], second.pid)
        obituaries.watch(engine.members())
        await asyncio.sleep(0.05)
        assert len(engine.told) == 2
        obituaries.close()

    asyncio.run(watch())


def test_nothing_is_told_and_nothing_stays_open_after_the_end(engine: Engine) -> None:
    async def watch() -> None:
        before = descriptors()
        obituaries = Obituaries(engine.take)
        obituaries.watch(engine.members())
        obituaries.close()
        obituaries.close()
        assert descriptors() == before
        for process in engine.processes.values():
            process.kill()
        await asyncio.sleep(0.1)
        assert engine.told == []

    asyncio.run(watch())


def test_the_news_may_end_the_watch(engine: Engine) -> None:
    async def watch() -> None:
        def take(member: Member) -> None:
            engine.take(member)
            obituaries.close()

        obituaries = Obituaries(take)
        obituaries.watch(engine.members())
        for title in TITLES[:3]:
            engine.processes[title].kill()
        await asyncio.sleep(0.3)
        assert len(engine.told) == 1
        obituaries.close()

    asyncio.run(watch())
