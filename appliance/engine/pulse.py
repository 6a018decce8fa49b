"""Taking the pulse of an engine that serves: its /metrics, one short request, and what its processes do."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from appliance.core.activity import Activity, moved
from appliance.core.pulse import Canary, Patience, Reading
from appliance.core.reply import ReplyError, Trouble, shortened
from appliance.core.work import Work
from appliance.engine.client import EngineClient

INTERVAL = 2.0
"""Seconds between two readings; /metrics takes 5 ms of vLLM 0.32's API server, so that is 0.3 % of a core."""

SOON = 1.5
"""Seconds to wait for /metrics, and then for the GPUs, at one reading; what comes later is taken at a later reading."""

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
Told = TypeVar("Told")


class Errand(Generic[Told]):
    """One question at a time, whose answer is taken when it has come."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, Told]]) -> None:
        self._ask = ask
        self._task: asyncio.Task[Told] | None = None

    def begin(self) -> None:
        """Ask, unless an answer is still waited for."""
        if self._task is None:
            self._task = asyncio.create_task(self._ask())

    @property
    def out(self) -> bool:
        """Tell whether an answer is waited for."""
        return self._task is not None and not self._task.done()

    def taken(self) -> Told | None:
        """Return the answer, once; None where there is none yet."""
        if self._task is None or not self._task.done():
            return None
        answer, self._task = self._task.result(), None
        return answer

    async def soon(self) -> Told | None:
        """Ask, and return the answer if it comes soon; None where it does not."""
        self.begin()
        if self._task:
            await asyncio.wait({self._task}, timeout=SOON)
        return self.taken()

    async def close(self) -> None:
        """Wait for no answer any more."""
        task, self._task = self._task, None
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class PulseReader:
    """Takes readings of one engine, and sends its canaries, one at a time; nothing of it raises."""

    def __init__(
        self,
        client: EngineClient,
        model: str,
        task: str,
        patience: Patience,
        gpus: Callable[[], Awaitable[bool | None]] | None = None,
    ) -> None:
        """`gpus` tells whether the engine's GPUs compute, None where it has none.

        While a GPU makes a step, vLLM waits for it without CPU time: 0.001 of a core on an H200.
        """
        self._client = client
        self._model = model
        self._kind = task
        self._longest = patience.stall
        self._gpus = gpus
        self._load = Errand(self._loaded)
        self._metrics = Errand(self._work)
        self._canary = Errand(self._answer)
        self._asked = 0.0
        self._activity: Activity | None = None
        self._looked = 0.0

    async def read(self, activity: Activity) -> Reading:
        """Return what is seen now, within 2 * SOON; `activity` is that of all processes of the engine, just seen."""
        loop = asyncio.get_running_loop()
        before, seconds, now = self._activity, loop.time() - self._looked, loop.time()
        self._activity, self._looked = activity, now
        work = await self._metrics.soon()
        canary, said = self._canary.taken() or (Canary.OUT if self._canary.out else Canary.NONE, "")
        awaited = canary is Canary.OUT or any(engine.busy for engine in work or ())
        return Reading(
            now=now,
            metrics=work is not None,
            work=work or (),
            canary=canary,
            out=loop.time() - self._asked if canary is Canary.OUT else 0.0,
            said=said,
            computing=await self._computing(before, activity, seconds, awaited),
            serving=moved(before, activity, seconds) if before else None,
            stopped=activity.stopped,
        )

    def ask(self) -> None:
        """Send a canary, unless one is out."""
        if not self._canary.out:
            self._asked = asyncio.get_running_loop().time()
            self._canary.begin()

    def ask_otherwise(self) -> None:
        """Ask for another task from now on, for the server refuses this one; the last asks for no model at all."""
        place = TASKS.index(self._kind) if self._kind in TASKS else -1
        self._kind = TASKS[min(place + 1, len(TASKS) - 1)]

    async def close(self) -> None:
        """Give up what is still out."""
        for errand in (self._metrics, self._canary, self._load):
            await errand.close()

    async def _computing(self, before: Activity | None, after: Activity, seconds: float, awaited: bool) -> bool | None:
        """Tell whether CPUs or GPUs computed; the GPUs are looked at only where something is waited for."""
        if before is None or moved(before.computing, after.computing, seconds):
            return None if before is None else True
        if self._gpus is None:
            return False
        return await self._load.soon() if awaited else None

    async def _loaded(self) -> bool | None:
        return await self._gpus() if self._gpus else False

    async def _work(self) -> tuple[Work, ...] | None:
        return await self._client.work(self._longest)

    async def _answer(self) -> Fate:
        """Ask for the least that shows that the engine works."""
        path, body = CANARIES.get(self._kind, ("/health", None))
        try:
            if body is None:
                status = (await self._client.get(path, self._longest)).status
                return (Canary.ANSWERED, "") if status == 200 else (Canary.FAILED, f"HTTP {status} from {path}")
            reply = await self._client.post(path, {"model": self._model, **body}, self._longest)
            error = reply.table().get("error")
        except ReplyError as trouble:
            return FATES[trouble.trouble], str(trouble)
        return (Canary.FAILED, f"an error in a good reply: {shortened(str(error))}") if error else (Canary.ANSWERED, "")
