"""An engine that is stopped, dies, or shows where it stands: the real vLLM and the fake one, held side by side."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from appliance.core.activity import Activity, Member, moved
from appliance.core.pulse import Canary, Patience, Reading
from appliance.core.work import Work
from appliance.engine.client import EngineClient
from appliance.engine.obituary import Obituaries
from appliance.engine.pulse import PulseReader
from appliance.engine.stack import VARIABLE, dump, stacks_in
from appliance.host.activity import activity_of
from tests.component.rig import FakeRig
from tests.contract.service import RealRig
from tests.contract.test_engine import Engine
from tests.rig import Rig

CORE = "VLLM::EngineCore"
LONG = {"max_tokens": 900, "ignore_eos": True, "messages": [{"role": "user", "content": "Count from 1 to 900."}]}
QUICK = Patience(stall=6.0)


class Watched(Engine):
    """An engine whose processes and counters are looked at."""

    def activity(self) -> Activity:
        own = psutil.Process(self.process.pid)
        return activity_of(Path("/"), [member.pid for member in (own, *own.children(recursive=True))])

    def client(self) -> EngineClient:
        return EngineClient(f"http://127.0.0.1:{self.port}")

    def work(self) -> Work:
        return (asyncio.run(self.client().work(10)) or ())[0]

    def readings(self, count: int, ask: bool) -> list[Reading]:
        """Take readings, one a second."""

        async def read() -> list[Reading]:
            reader = PulseReader(self.client(), "demo", "chat", QUICK)
            await reader.read(self.activity())
            if ask:
                reader.ask()
            found = []
            for _ in range(count):
                await asyncio.sleep(1)
                found.append(await reader.read(self.activity()))
            await reader.close()
            return found

        return asyncio.run(read())

    @contextlib.contextmanager
    def stopped(self, title: str) -> Iterator[None]:
        process = self.child(title)
        process.suspend()
        time.sleep(0.5)
        try:
            yield
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


@pytest.fixture(scope="module", params=["fake", "vllm"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("liveness")
    if request.param == "fake":
        rig: Rig = FakeRig(folder)
        rig.write(SPEED=100)  # type: ignore[call-arg]  # the fake's knob
    else:
        rig = RealRig(folder, request.getfixturevalue("engines"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*VARIABLE)
        engine = Watched(rig)
    engine.until_healthy()
    engine.chat(messages=[{"role": "user", "content": "1"}])
    yield engine
    engine.close()
    rig.close()


def test_an_idle_engine_answers_a_canary_and_takes_next_to_no_time(engine: Watched) -> None:
    time.sleep(2)
    before, work = engine.activity(), engine.work()
    time.sleep(4)
    assert not moved(before, engine.activity(), 4.0)
    assert engine.work() == work
    readings = engine.readings(2, ask=True)
    assert readings[0].canary is Canary.ANSWERED
    assert readings[0].work[0].moved_since(work)


@pytest.mark.parametrize("busy", [False, True])
def test_a_stopped_engine_core_shows_in_all_but_its_health(engine: Watched, busy: bool) -> None:
    client = threading.Thread(target=engine.chat, kwargs=LONG)
    if busy:
        client.start()
        engine.until(lambda: engine.work().running == 1, "the request to run")
        first = engine.work()
        engine.until(lambda: engine.work().moved_since(first), "the counters to move")
    with engine.stopped(CORE):
        work = engine.work()
        assert work.running == (1 if busy else 0)
        readings = engine.readings(4, ask=True)
        assert engine.get("/health")[0] == 200
        assert engine.get("/v1/models")[0] == 200
        for reading in readings:
            assert reading.metrics
            assert reading.work == (work,), "the frozen canary shows nowhere"
            assert reading.canary is Canary.OUT
            assert reading.computing is False
            assert [name.partition(" (")[0] for name in reading.stopped] == [CORE]
    if busy:
        client.join(60)
        assert not client.is_alive(), "it goes on when it is let go"
    assert engine.readings(2, ask=True)[0].canary is Canary.ANSWERED


def test_the_page_of_metrics_has_every_counter_of_progress(engine: Watched) -> None:
    work = engine.work()
    assert len(work.done) == 4
    assert all(value > 0 for _, value in work.done)
    assert not work.asleep


def test_the_processes_bear_the_names_that_are_watched(engine: Watched) -> None:
    names = [member.name for member in engine.activity().members]
    assert names[0] == "API server"
    assert CORE in names


def test_the_death_of_the_engine_core_is_told_within_a_second(engine: Watched) -> None:
    """Last of those that share an engine: it ends it."""
    told: list[tuple[float, Member]] = []

    async def watch() -> None:
        obituaries = Obituaries(lambda member: told.append((time.monotonic(), member)))
        obituaries.watch(engine.activity().members)
        await asyncio.sleep(0.5)
        assert told == []
        core = engine.child(CORE)
        killed = time.monotonic()
        core.send_signal(signal.SIGKILL)
        while not told:
            assert time.monotonic() - killed < 1
            await asyncio.sleep(0.01)
        assert (told[0][1].name, told[0][1].pid) == (CORE, core.pid)
        obituaries.close()

    asyncio.run(watch())
    assert engine.process.wait(60) == 0


@pytest.fixture(params=["fake", "vllm"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    """Yield an engine that starts without statistics."""
    statistics = "[vllm]\ndisable_log_stats = true\n"
    if request.param == "fake":
        rig: Rig = FakeRig(tmp_path)
        rig.write(statistics, LOAD_SECONDS=6)  # type: ignore[call-arg]  # the fake's knob
    else:
        rig = RealRig(tmp_path, request.getfixturevalue("engines"))
        rig.write(statistics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*VARIABLE)
        engine = Watched(rig)
    yield engine
    engine.close()
    rig.close()


def test_a_server_without_statistics_tells_nothing_of_its_engine_and_shows_its_stacks(fresh: Watched) -> None:
    fresh.until_healthy()
    reading = fresh.readings(2, ask=True)[0]
    assert (reading.metrics, reading.work, reading.canary) == (True, (), Canary.ANSWERED)
    with fresh.stopped(CORE):
        begun = time.monotonic()
        told = asyncio.run(dump(fresh.activity().members))
        assert time.monotonic() - begun < 3
    assert fresh.process.wait(10) == -signal.SIGABRT
    report = stacks_in(fresh.log.read_text().splitlines())
    named = [line.partition(" (")[0] for line in report if not line.startswith(" ")]
    assert named == [line.partition(" (")[0] for line in told]
    assert any(line.startswith(f"{CORE} (pid ") and line.endswith("stopped in do_signal_stop") for line in report)
    assert report[-1].endswith(" <module>")


def test_an_engine_that_loads_shows_its_stacks(fresh: Watched) -> None:
    fresh.until_printed("Initializing a V1 LLM engine")
    asyncio.run(dump(fresh.activity().members))
    assert fresh.process.wait(10) == -signal.SIGABRT
    report = stacks_in(fresh.log.read_text().splitlines())
    assert {"API server", CORE} & {line.partition(" (")[0] for line in report}
