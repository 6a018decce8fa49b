"""Watching a fake engine as the supervisor does."""

import asyncio
import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from appliance.core.activity import Activity
from appliance.core.pulse import Ask, Canary, Patience, Pulse, Reading, Stalled, Strike, Verdict, felt
from appliance.engine.client import EngineClient
from appliance.engine.pulse import PulseReader
from appliance.host.activity import activity_of
from tests.component.asking import FakeServer

QUICK = Patience(canary=0.4, answer=0.4, stopped=0.4, quiet=0.6, stall=3.0)
Gpus = Callable[[], Awaitable[bool | None]]

PACE = 0.2
"""Seconds between two readings."""


class Vigil:
    """The loop that a supervisor runs: take a reading, judge it, send a canary when that is due."""

    def __init__(self, server: FakeServer, task: str, patience: Patience = QUICK, gpus: Gpus | None = None) -> None:
        self.server = server
        self._patience = patience
        self._pulse = Pulse()
        self.reader = PulseReader(EngineClient(server.base), server.name, task, patience, gpus)
        self.readings: list[Reading] = []
        self.verdicts: list[Verdict] = []

    def activity(self) -> Activity:
        return activity_of(Path("/"), [process.pid for process in self.server.processes()])

    async def look(self) -> Verdict:
        await asyncio.sleep(PACE)
        reading = await self.reader.read(self.activity())
        self._pulse, verdict = felt(self._pulse, reading, self._patience)
        self.readings.append(reading)
        self.verdicts.append(verdict)
        if isinstance(verdict, Ask):
            self.reader.ask()
        return verdict

    async def watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await self.look()

    async def until_stalled(self, seconds: float) -> Stalled:
        deadline = time.monotonic() + seconds
        while not isinstance(verdict := await self.look(), Stalled):
            assert time.monotonic() < deadline, (self.verdicts, self.readings[-3:])
        return verdict

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Vigil"]:
        try:
            yield self
        finally:
            await self.reader.close()

    @property
    def struck(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if isinstance(verdict, (Strike, Stalled))]

    @property
    def fates(self) -> set[Canary]:
        return {reading.canary for reading in self.readings}


def vigil(
    server: FakeServer,
    task: str,
    act: Callable[[Vigil], Awaitable[Any]],
    patience: Patience = QUICK,
    gpus: Gpus | None = None,
) -> Vigil:
    """Keep watch over a server while something is done; return what was seen."""
    kept = Vigil(server, task, patience, gpus)

    async def keep() -> None:
        async with kept.open():
            await act(kept)

    asyncio.run(keep())
    return kept


def metric(server: FakeServer, name: str) -> float:
    with urllib.request.urlopen(f"{server.base}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"vllm:{name}{{"))


@contextlib.contextmanager
def traffic(server: FakeServer, tokens: int) -> Iterator[None]:
    """Have one request after the other, until the end."""
    over = threading.Event()

    def ask() -> None:
        body = {"model": server.name, "prompt": "1", "max_tokens": tokens, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(f"{server.base}/v1/completions", json.dumps(body).encode())
        while not over.is_set():
            with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=30) as reply:
                while not over.is_set() and reply.readline():
                    pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not metric(server, "num_requests_running"):
        assert time.monotonic() < deadline
    try:
        yield
    finally:
        over.set()
        server.processes("VLLM::EngineCore")[0].resume()
        thread.join(30)
