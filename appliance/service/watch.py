"""The eye on a running engine: whether it moves while it loads, and whether it lives while it serves."""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from appliance.core.activity import Activity, Member, moved
from appliance.core.plan import Plan
from appliance.core.pulse import Ask, Canary, Patience, Pulse, Stalled, Strike, felt
from appliance.engine.client import EngineClient
from appliance.engine.obituary import Obituaries
from appliance.engine.pulse import INTERVAL, TASKS, PulseReader
from appliance.host.activity import activity_of
from appliance.host.gpuload import gpus_compute
from appliance.service.journal import WARNING, say

ROOT = Path("/")

WHEN = re.compile(r"\b\d\d-\d\d \d\d:\d\d:\d\d\b|\bpid=\d+")
"""What differs in lines that say the same."""

NEWEST = 16
"""Different lines that are remembered; several processes that wait print theirs in turn."""


class Watch:
    """Looks at the processes of one engine every few seconds, from its launch to its end."""

    def __init__(
        self,
        plan: Plan,
        pids: Callable[[], Iterable[int]],
        spare: set[int],
        stalled: Callable[[str], None],
        died: Callable[[Member], None],
    ) -> None:
        self._plan = plan
        self._pids = pids
        self._spare = spare
        self._said: deque[str] = deque(maxlen=NEWEST)
        self._stalled = stalled
        self._obituaries = Obituaries(died)
        now = asyncio.get_running_loop().time()
        self.moved = now
        """When the engine last printed a line, computed or read, by the loop's clock."""
        self.looked = now
        """When it was last looked at."""
        self.read = 0
        """Bytes that its processes have fetched from storage."""

    def spoke(self, text: str) -> None:
        """Take note of a line; one that is printed over and over tells of no progress."""
        said = WHEN.sub("", text)
        if said not in self._said:
            self.moved = asyncio.get_running_loop().time()
            self._said.append(said)

    async def while_loading(self) -> None:
        """Tell of an engine that neither prints nor computes nor reads; ends when it has told."""
        loop = asyncio.get_running_loop()
        before, then = self._activity(), loop.time()
        while True:
            await asyncio.sleep(INTERVAL)
            activity, now = self._activity(), loop.time()
            if moved(before, activity, now - then):
                self.moved = now
            before, then = activity, now
            if now - self.moved >= self._plan.policy.stall:
                stall = self._plan.policy.stall
                self._stalled(f"the engine printed nothing, computed nothing and read nothing for {stall:g} s")
                return

    async def while_up(self) -> None:
        """Tell of an engine that stands still, or of which a process died; ends when it stands still."""
        patience = Patience(stall=self._plan.policy.stall)
        client = EngineClient(self._plan.base_url, self._plan.api_key)
        reader = PulseReader(client, self._plan.served_model_name, TASKS[0], patience, self._gpus())
        pulse = Pulse()
        try:
            while True:
                activity = self._activity()
                self._obituaries.watch(activity.members)
                reading = await reader.read(activity)
                pulse, verdict = felt(pulse, reading, patience)
                if reading.canary is Canary.REFUSED:
                    reader.ask_otherwise()
                match verdict:
                    case Ask():
                        reader.ask()
                    case Strike(number=number, why=why):
                        say(f"the engine may stand still, sign {number} of 3: {why}", WARNING)
                    case Stalled(why=why):
                        self._stalled(f"the engine stands still: {why}")
                        return
                await asyncio.sleep(INTERVAL)
        finally:
            await reader.close()
            self._obituaries.close()

    def _gpus(self) -> Callable[[], Awaitable[bool | None]] | None:
        """Return what tells whether the engine's GPUs compute: meanwhile its processes wait without CPU time."""
        if self._plan.identity is not None and self._plan.identity.hardware == "cpu":
            return None
        visible = next((one.value for one in self._plan.env if one.name == "CUDA_VISIBLE_DEVICES"), "")
        return partial(gpus_compute, tuple(filter(None, visible.split(","))), self._spare)

    def _activity(self) -> Activity:
        activity = activity_of(ROOT, self._pids())
        self.looked = asyncio.get_running_loop().time()
        self.read = max(self.read, sum(member.read or 0 for member in activity.members))
        return activity
