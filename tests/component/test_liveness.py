"""The pulse of a fake engine: sound, busy, stopped, lost."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.activity import Activity
from appliance.core.pulse import Canary, Patience, Reading, Strike
from appliance.engine.client import EngineClient
from appliance.engine.pulse import TASKS, PulseReader
from tests.component.asking import Servers
from tests.component.vigil import QUICK, Vigil, metric, traffic, vigil


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with Servers.below(tmp_path) as servers:
        yield servers


CANARIES = (
    ("demo", "chat", "/v1/chat/completions"),
    ("base", "completion", "/v1/completions"),
    ("embedding", "embedding", "/v1/embeddings"),
    ("rerank", "rerank", "/v1/rerank"),
    ("transcription", "transcription", "/health"),
    ("demo", "something new", "/health"),
)


@pytest.mark.parametrize(("model", "task", "path"), CANARIES)
def test_an_engine_without_requests_answers_a_canary_of_its_task(
    servers: Servers, model: str, task: str, path: str
) -> None:
    server = servers.of(model)
    seen = vigil(server, task, lambda kept: kept.watch(2.5))
    assert seen.fates <= {Canary.NONE, Canary.OUT, Canary.ANSWERED}
    assert Canary.ANSWERED in seen.fates
    assert not seen.struck
    assert f"{path} HTTP/1.1" in server.log
    assert (metric(server, "request_success_total") > 0) == (path != "/health")


@pytest.mark.parametrize("busy", [False, True])
def test_a_stopped_engine_core_is_found_though_health_and_metrics_are_well(servers: Servers, busy: bool) -> None:
    server = servers.of("demo", SPEED=50)
    core = server.processes("VLLM::EngineCore")[0]

    async def stop(kept: Vigil) -> None:
        await kept.watch(1.5)
        assert not kept.struck
        core.suspend()
        before = metric(server, "generation_tokens_total")
        stalled = await kept.until_stalled(5.0)
        assert f"VLLM::EngineCore (pid {core.pid}) is stopped" in stalled.why
        assert metric(server, "generation_tokens_total") - before <= 1
        assert await EngineClient(server.base).healthy()
        assert kept.readings[-1].metrics

    with traffic(server, 5000) if busy else contextlib.nullcontext():
        seen = vigil(server, "chat", stop)
        assert [verdict.number for verdict in seen.struck if isinstance(verdict, Strike)] == [1, 2]
        core.resume()


def test_a_stopped_worker_is_found(servers: Servers) -> None:
    server = servers.of("demo")
    worker = server.processes("VLLM::Worker")[0]

    async def stop(kept: Vigil) -> None:
        await kept.watch(0.5)
        worker.suspend()
        assert "VLLM::Worker" in (await kept.until_stalled(5.0)).why

    vigil(server, "chat", stop)
    worker.resume()


def test_a_stopped_api_server_is_found(servers: Servers) -> None:
    server = servers.of("demo")

    async def stop(kept: Vigil) -> None:
        await kept.watch(0.5)
        server.processes("serve")[0].suspend()
        assert "API server" in (await kept.until_stalled(8.0)).why
        assert not kept.readings[-1].metrics

    try:
        vigil(server, "chat", stop)
    finally:
        server.processes("serve")[0].resume()


def test_a_step_that_computes_is_not_struck_though_all_counters_stand_still(servers: Servers) -> None:
    server = servers.of("demo", GRIND=2)
    server.turn("grind")
    patient = Patience(canary=0.3, answer=0.1, stopped=0.3, quiet=0.3, stall=60.0)

    async def until_answered(kept: Vigil) -> None:
        while Canary.ANSWERED not in kept.fates:
            await kept.look()
            assert len(kept.readings) < 100

    seen = vigil(server, "chat", until_answered, patient)
    held = [reading for reading in seen.readings if reading.canary is Canary.OUT]
    assert len(held) >= 5
    assert all(reading.computing for reading in held[1:-1])
    assert len({reading.work for reading in held[:-1]}) == 1, "counters moved in the middle of a step"
    assert not seen.struck


def test_a_step_that_computes_for_ever_is_given_up_after_the_stall_timeout(servers: Servers) -> None:
    server = servers.of("demo", GRIND=60)
    server.turn("grind")

    async def wait(kept: Vigil) -> None:
        begun = time.monotonic()
        stalled = await kept.until_stalled(10.0)
        assert time.monotonic() - begun > QUICK.stall
        assert "takes no" not in stalled.why

    assert not [verdict for verdict in vigil(server, "chat", wait).struck if isinstance(verdict, Strike)]


def test_an_engine_that_hangs_without_computing_is_struck(servers: Servers) -> None:
    server = servers.of("demo")
    server.turn("hang")
    seen = vigil(server, "chat", lambda kept: kept.until_stalled(8.0))
    assert [verdict.number for verdict in seen.struck if isinstance(verdict, Strike)] == [1, 2]
    assert "take no CPU time" in str(seen.verdicts[-1])


@pytest.mark.parametrize(("computes", "strikes"), [(True, 0), (None, 0), (False, 2)])
def test_an_engine_that_waits_for_its_gpus_is_not_struck_while_they_compute(
    servers: Servers, computes: bool | None, strikes: int
) -> None:
    server, asked = servers.of("demo"), []
    server.turn("hang")

    async def gpus() -> bool | None:
        asked.append(1)
        return computes

    patience = Patience(canary=0.4, answer=0.4, stopped=0.4, quiet=0.6, stall=5.0)
    seen = vigil(server, "chat", lambda kept: kept.until_stalled(12.0), patience, gpus)
    assert len([verdict for verdict in seen.struck if isinstance(verdict, Strike)]) == strikes
    assert len(asked) > 2


def test_gpus_are_not_looked_at_while_nothing_is_waited_for(servers: Servers) -> None:
    asked = []

    async def gpus() -> bool | None:
        asked.append(1)
        return False

    seen = vigil(servers.of("demo"), "transcription", lambda kept: kept.watch(1.0), gpus=gpus)
    assert not seen.struck
    assert asked == []


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("demo", "/v1/completions"),
        ("embedding", "/v1/embeddings"),
        ("rerank", "/v1/rerank"),
        ("transcription", "/health"),
    ],
)
def test_a_model_of_an_unknown_task_is_asked_for_one_after_the_other(servers: Servers, model: str, path: str) -> None:
    server = servers.of(model)

    async def until_answered(kept: Vigil) -> None:
        while Canary.ANSWERED not in kept.fates:
            await kept.look()
            if kept.readings[-1].canary is Canary.REFUSED:
                kept.reader.ask_otherwise()
            assert len(kept.readings) < 100

    seen = vigil(server, TASKS[0], until_answered)
    assert not seen.struck
    assert f"{path} HTTP/1.1" in server.log


def test_a_canary_is_sent_once_however_often_it_is_asked_for(servers: Servers) -> None:
    server = servers.of("demo")
    server.turn("hang")

    async def ask() -> None:
        reader = PulseReader(EngineClient(server.base), "demo", "chat", QUICK)
        for _ in range(5):
            reader.ask()
            await asyncio.sleep(0.05)
        reading = await reader.read(Activity())
        assert (reading.canary, reading.work[0].running) == (Canary.OUT, 1.0)
        assert 0.2 < reading.out < 2
        await reader.close()

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("fault", "fate", "said"),
    [
        ("error", Canary.FAILED, "HTTP 500"),
        ("lost", Canary.FAILED, "EngineCore encountered an issue"),
        ("html", Canary.FAILED, "not JSON"),
        ("redirect", Canary.FAILED, "HTTP 302"),
        ("refuse", Canary.REFUSED, "HTTP 400"),
        ("names", Canary.REFUSED, "HTTP 404"),
        ("busy", Canary.BUSY, "HTTP 503"),
        ("drop", Canary.BUSY, "no reply"),
    ],
)
def test_what_comes_in_place_of_an_answer_is_told(servers: Servers, fault: str, fate: Canary, said: str) -> None:
    server = servers.of("demo", BUSY=1000)
    server.turn(fault)

    async def once(kept: Vigil) -> None:
        while not {fate} & kept.fates:
            await kept.look()
            assert len(kept.readings) < 40, kept.readings

    seen = vigil(server, "chat", once)
    assert said in seen.readings[-1].said
    assert seen.readings[-1].metrics


def test_a_lost_engine_core_fails_the_canary_or_ends_the_server(servers: Servers) -> None:
    """Between its death and the end of the API server every request gets HTTP 500."""
    server = servers.of("demo")

    async def kill(kept: Vigil) -> None:
        await kept.watch(0.5)
        server.processes("VLLM::EngineCore")[0].kill()
        await kept.until_stalled(8.0)

    assert vigil(server, "chat", kill).fates & {Canary.FAILED, Canary.BUSY}


def test_metrics_that_come_late_are_taken_when_they_come(servers: Servers) -> None:
    server = servers.of("demo", SCRAPE="2.6")
    server.turn("scrape")

    async def read() -> list[bool]:
        reader = PulseReader(EngineClient(server.base), "demo", "chat", Patience())
        answered = []
        for _ in range(4):
            reading = await reader.read(Activity())
            answered.append(reading.metrics)
            assert bool(reading.work) is reading.metrics
        await reader.close()
        return answered

    assert asyncio.run(read()) == [False, True, False, True]


def test_a_server_without_statistics_is_asked_its_canary(servers: Servers) -> None:
    server = servers.of("demo", "--disable-log-stats")
    seen = vigil(server, "chat", lambda kept: kept.watch(2.0))
    assert all(reading.metrics and reading.work == () for reading in seen.readings)
    assert Canary.ANSWERED in seen.fates
    assert not seen.struck


def test_a_server_that_is_gone_is_read_without_complaint(tmp_path: Path) -> None:
    with Servers.below(tmp_path) as servers:
        server = servers.of("demo")
        gone = EngineClient(server.base)

    async def read() -> Reading:
        reader = PulseReader(gone, "demo", "chat", QUICK)
        reader.ask()
        await asyncio.sleep(0.2)
        reading = await reader.read(Activity())
        await reader.close()
        return reading

    reading = asyncio.run(read())
    assert (reading.metrics, reading.canary, reading.work) == (False, Canary.BUSY, ())


def test_real_traffic_saves_the_canary(servers: Servers) -> None:
    server = servers.of("demo", SPEED=50)
    with traffic(server, 5000):
        seen = vigil(server, "chat", lambda kept: kept.watch(1.5))
    assert seen.fates == {Canary.NONE}
    assert all(reading.work[0].busy for reading in seen.readings)


def test_the_processes_of_the_fake_bear_the_titles_of_the_real_ones(servers: Servers) -> None:
    server = servers.of("demo")
    names = [member.name for member in Vigil(server, "chat").activity().members]
    assert names == ["API server", "VLLM::EngineCore", "VLLM::Worker"]
