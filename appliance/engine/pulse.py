"""Taking the pulse of an engine that serves: its /metrics, one short request, and what its processes do."""

import asyncio
from typing import Any

from appliance.core.activity import Activity, moved
from appliance.core.pulse import Canary, Patience, Reading
from appliance.core.reply import ReplyError, Trouble, shortened
from appliance.core.work import Work
from appliance.engine.client import EngineClient

INTERVAL = 2.0
"""Seconds between two readings; /metrics takes 5 ms of vLLM 0.32's API server, so that is 0.3 % of a core."""

SOON = 2.0
"""Seconds to wait for /metrics at one reading; one that comes later is taken at a later reading."""

ONE_TOKEN = {"max_tokens": 1, "temperature": 0}

CANARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "1"}], **ONE_TOKEN}),
    "completion": ("/v1/completions", {"prompt": "1", **ONE_TOKEN}),
    "embedding": ("/v1/embeddings", {"input": "1"}),
    "rerank": ("/v1/rerank", {"query": "1", "documents": ["1"]}),
    "classification": ("/classify", {"input": "1"}),
    "pooling": ("/pooling", {"input": "1"}),
}
"""The shortest request of each task of core/judge.py; a transcription has none, and /health is asked instead."""

TASKS = ("completion", "embedding", "rerank", "classification", "pooling", "transcription")
"""In the order in which they are tried on a model of which the task is not known; a chat model completes too."""

FATES = {
    Trouble.BUSY: Canary.BUSY,
    Trouble.LOCKED: Canary.REFUSED,
    Trouble.REFUSED: Canary.REFUSED,
    Trouble.BROKEN: Canary.FAILED,
    Trouble.GARBLED: Canary.FAILED,
}

Fate = tuple[Canary, str]


class PulseReader:
    """Takes readings of one engine, and sends its canaries, one at a time; nothing of it raises."""

    def __init__(self, client: EngineClient, model: str, task: str, patience: Patience) -> None:
        self._client = client
        self._model = model
        self._task = task
        self._longest = patience.stall
        self._metrics: asyncio.Task[tuple[Work, ...] | None] | None = None
        self._canary: asyncio.Task[Fate] | None = None
        self._asked = 0.0
        self._activity: Activity | None = None
        self._looked = 0.0

    async def read(self, activity: Activity) -> Reading:
        """Return what is seen now, within SOON; `activity` is that of all the engine's processes, just looked at."""
        loop = asyncio.get_running_loop()
        before, seconds, now = self._activity, loop.time() - self._looked, loop.time()
        self._activity, self._looked = activity, now
        work = await self._work()
        canary, said = self._fate()
        return Reading(
            now=now,
            metrics=work is not None,
            work=work or (),
            canary=canary,
            out=loop.time() - self._asked if canary is Canary.OUT else 0.0,
            said=said,
            computing=moved(before.computing, activity.computing, seconds) if before else None,
            serving=moved(before, activity, seconds) if before else None,
            stopped=activity.stopped,
        )

    def ask(self) -> None:
        """Send a canary, unless one is out."""
        if self._canary is None:
            self._asked = asyncio.get_running_loop().time()
            self._canary = asyncio.create_task(self._answer())

    def ask_otherwise(self) -> None:
        """Ask for another task from now on, for the server refuses this one; the last asks for no model at all."""
        place = TASKS.index(self._task) if self._task in TASKS else -1
        self._task = TASKS[min(place + 1, len(TASKS) - 1)]

    async def close(self) -> None:
        """Give up what is still out."""
        tasks = [task for task in (self._metrics, self._canary) if task]
        self._metrics = self._canary = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> tuple[Work, ...] | None:
        if self._metrics is None:
            self._metrics = asyncio.create_task(self._client.work(self._longest))
        await asyncio.wait({self._metrics}, timeout=SOON)
        if not self._metrics.done():
            return None
        work, self._metrics = self._metrics.result(), None
        return work

    def _fate(self) -> Fate:
        """Return what has become of the canary, once."""
        if self._canary is None:
            return Canary.NONE, ""
        if not self._canary.done():
            return Canary.OUT, ""
        fate, self._canary = self._canary.result(), None
        return fate

    async def _answer(self) -> Fate:
        """Ask for the least that shows that the engine works."""
        path, body = CANARIES.get(self._task, ("/health", None))
        try:
            if body is None:
                status = (await self._client.get(path, self._longest)).status
                return (Canary.ANSWERED, "") if status == 200 else (Canary.FAILED, f"HTTP {status} from {path}")
            reply = await self._client.post(path, {"model": self._model, **body}, self._longest)
            error = reply.table().get("error")
        except ReplyError as trouble:
            return FATES[trouble.trouble], str(trouble)
        return (Canary.FAILED, f"an error in a good reply: {shortened(str(error))}") if error else (Canary.ANSWERED, "")
