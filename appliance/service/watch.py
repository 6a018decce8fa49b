"""The eye on a running engine: whether it moves while it loads, and whether it lives while it serves."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from appliance.core.activity import Activity, Member, moved
from appliance.core.plan import Plan
from appliance.core.pulse import Ask, Canary, Patience, Pulse, Stalled, Strike, felt
from appliance.engine.client import EngineClient
from appliance.engine.obituary import Obituaries
from appliance.engine.pulse import INTERVAL, TASKS, PulseReader
from appliance.host.activity import activity_of
from appliance.service.journal import WARNING, say

ROOT = Path("/")


class Watch:
    """Looks at the processes of one engine every few seconds, from its launch to its end."""

    def __init__(
        self,
        plan: Plan,
        pids: Callable[[], Iterable[int]],
        stalled: Callable[[str], None],
        died: Callable[[Member], None],
    ) -> None:
        self._plan = plan
        self._pids = pids
        self._stalled = stalled
        self._obituaries = Obituaries(died)
        now = asyncio.get_running_loop().time()
        self.moved = now
        """When the engine last printed a line, computed or read, by the loop's clock."""
        self.looked = now
        """When it was last looked at."""
        self.read = 0
        """Bytes that its processes have fetched from storage."""

    def spoke(self) -> None:
        """Take note of a line."""
        self.moved = asyncio.get_running_loop().time()

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
        reader = PulseReader(client, self._plan.served_model_name, TASKS[0], patience)
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

    def _activity(self) -> Activity:
        activity = activity_of(ROOT, self._pids())
        self.looked = asyncio.get_running_loop().time()
        self.read = max(self.read, sum(member.read or 0 for member in activity.members))
        return activity
