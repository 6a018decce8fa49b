"""One life of the engine: launched, waited for, questioned, gone."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil

from appliance.core.activity import Member
from appliance.core.cause.derivation import how_it_ended
from appliance.core.diagnosis import UNKNOWN, Diagnosis, Evidence, diagnosed, evidence_of
from appliance.core.event import (
    EngineAnswered,
    EngineFell,
    EngineLeft,
    EngineSpoke,
    EngineStalled,
    Event,
    SelfTestFailed,
    SelfTestPassed,
    SelfTestPostponed,
)
from appliance.core.phase import ExitStatus
from appliance.core.plan import Plan
from appliance.core.problem import RefusedError
from appliance.core.progress import progress_of
from appliance.engine.client import EngineClient
from appliance.engine.folder import make_folders
from appliance.engine.journal import write_logging_config
from appliance.engine.leftover import names_in, remove_leftovers
from appliance.engine.line import Line
from appliance.engine.oomscore import offer
from appliance.engine.process import EngineProcess, environment_of
from appliance.engine.stack import VARIABLE, dump, stacks_in
from appliance.host.activity import activity_of
from appliance.host.kernel import oom_kills
from appliance.selftest.examination import examined, outcome_of
from appliance.selftest.verdict import Outcome
from appliance.service.journal import ERROR, INFO, WARNING, EngineOutput, journal_answers, say
from appliance.service.kernel import kernel_messages_since
from appliance.service.release import Release
from appliance.service.selftest import examination_of
from appliance.service.watch import Watch

PROBE_INTERVAL = 0.5
"""Seconds between two looks at /health while loading."""

SECOND_REQUEST = 2.0
"""Seconds after which an engine is asked to stop again: vLLM swallows the first SIGTERM while it loads."""

DYING_WORDS = 0.3
"""Seconds to read what the engine says of the death of one of its processes."""

LAST_WORDS = 1.0
"""Seconds to read what a dead API server printed, which its orphans may keep from ending."""

ROOT = Path("/")


class Place:
    """What all engines of one supervisor have in common."""

    def __init__(
        self, runtime: Path, spare: set[int], release: Release, failed: Callable[[BaseException], None]
    ) -> None:
        self.runtime = runtime
        self.spare = spare
        """Pids of our children that are no members of an engine."""
        self.release = release
        self.failed = failed
        """Takes note of a bug."""


class EngineRun:
    """One launch and what is known of it."""

    def __init__(self, launch: int, plan: Plan, place: Place, put: Callable[[Event], None]) -> None:
        self.detail = ""
        """How far the work in hand is, for the status line."""
        self.diagnosis: Diagnosis | None = None
        """Why it failed, once it did."""
        self.status: int | None = None
        """How its API server ended, once it did."""
        self.watch: Watch | None = None
        self._launch = launch
        self._plan = plan
        self._place = place
        self._put = put
        self._process: EngineProcess | None = None
        self._dismissed = False
        self._stalled = False
        self._answered = False
        self._client = EngineClient(plan.base_url, plan.api_key)
        self._output = EngineOutput(journal_answers(), plan.log_file)
        self._spoke = 0.0
        self._begun, self._killed = time.time(), oom_kills()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The newest lines that it printed."""
        return tuple(self._output.tail)

    async def live(self) -> None:
        """Run the engine from its start until its last process is gone, and tell so."""
        before = names_in(ROOT)
        process = await self._launched()
        if process is None:
            return
        self._process = process
        if self._dismissed:
            self.dismiss(force=False)
        if wrong := offer(process.pid):
            say(wrong, WARNING)
        say(f"engine {self._launch} started as pid {process.pid}")
        self.watch = Watch(self._plan, self._pids, self._place.spare, self._stood_still, self._died)
        reading = asyncio.create_task(process.read(self._take))
        loading = self._start(self.watch.while_loading())
        self._start(self._serve(loading))
        self.status = await process.wait()
        self._end_tasks()
        if self._ending:
            await self._ending
        await asyncio.wait({reading}, timeout=LAST_WORDS)
        await self._diagnose()
        self._put(EngineFell(launch=self._launch, status=self._exit_status(), why=self._why()))
        await process.sweep()
        await reading
        self._output.close()
        for name in remove_leftovers(ROOT, process.segments - before):
            say(f"removed /dev/shm/{name}, which the engine left behind")
        say(f"engine {self._launch} is gone ({how_it_ended(self.status)})")
        self._put(EngineLeft(launch=self._launch, status=self._exit_status(), why=self._why()))

    async def _launched(self) -> EngineProcess | None:
        """Start its processes when the GPUs are free of the one before; tell where that can't be."""
        await self._wait_for_memory()
        try:
            make_folders(self._plan.folders)
        except OSError as error:
            self._never_was(f"the folder {error.filename} can't be made: {error.strerror}")
            return None
        try:
            return await EngineProcess.launch(self._plan, self._environment(), self._place.spare)
        except OSError as error:
            self._never_was(f"the engine can't be executed: {self._plan.argv[0]}: {error.strerror}")
            return None

    async def _wait_for_memory(self) -> None:
        release = self._place.release
        waiting = asyncio.create_task(release.wait())
        while not (await asyncio.wait({waiting}, timeout=1.0))[0]:
            self._detail(f"waiting for the memory of the GPUs, {release.held}" if release.held else "")
        if missing := waiting.result():
            say(f"memory of the GPUs that the engine before had is still not free, starting anyway: {missing}", ERROR)
        await release.note()
        self._detail("")

    def _never_was(self, why: str) -> None:
        self._put(EngineLeft(launch=self._launch, status=ExitStatus.CONFIGURATION, why=why))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Forget work that is done; a bug in it must not go unnoticed."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._place.failed(error)

    def _end_tasks(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    def _pids(self) -> list[int]:
        return [member.pid for member in self._process.members()] if self._process else []

    def _stood_still(self, why: str) -> None:
        self._put(EngineStalled(launch=self._launch, why=why))

    def _died(self, member: Member) -> None:
        """Tell of a process that the engine can't live without; the API server itself takes seconds to give up."""
        if not self._dismissed:
            self._start(self._tell_death(member))

    async def _tell_death(self, member: Member) -> None:
        await asyncio.sleep(DYING_WORDS)
        await self._diagnose()
        why = f"{member.name} (pid {member.pid}) died{self._cause()}"
        self._put(EngineFell(launch=self._launch, status=self._exit_status(), why=why))

    def _environment(self) -> dict[str, str]:
        environment = environment_of(self._plan, (*os.environ.items(), VARIABLE))
        level = environment.get("VLLM_LOGGING_LEVEL", "INFO")
        logging = write_logging_config(self._place.runtime, journal_answers(), level)
        return {**environment, "VLLM_CONFIGURE_LOGGING": "1", "VLLM_LOGGING_CONFIG_PATH": str(logging)}

    async def _diagnose(self) -> None:
        """Find out why it failed, from its own words and the kernel's."""
        if self._dismissed and not self._stalled:
            return
        killed = oom_kills()
        seen = Evidence(
            status=self.status,
            ready=self._answered,
            stalled=self._stalled,
            oom_kills=None if killed is None or self._killed is None else killed - self._killed,
            kernel=await kernel_messages_since(self._begun, self._place.spare),
        )
        self.diagnosis = diagnosed(self.lines, evidence_of(self._plan, seen))

    def _exit_status(self) -> ExitStatus:
        """Return ours: argparse's 2 before it ever answered means that the command line itself is wrong."""
        usage = self.status == 2 and not self._answered
        permanent = self.diagnosis is not None and self.diagnosis.permanent
        return ExitStatus.CONFIGURATION if usage or permanent else ExitStatus.TRY_LATER

    def _why(self) -> str:
        """Tell an exit; vLLM says 0 when its engine core dies, so any exit that nobody asked for is a failure."""
        how = how_it_ended(self.status) if self.status is not None else "it hung"
        return f"the engine ended by itself ({how}){self._cause()}"

    def _cause(self) -> str:
        if self.diagnosis is None or (self.diagnosis.id == UNKNOWN and not self.diagnosis.line):
            return ""
        return f": {self.diagnosis}"

    def _take(self, line: Line) -> None:
        self._output.take(line)
        if self.watch:
            self.watch.spoke(line.text)
        progress, now = progress_of(line.text), asyncio.get_running_loop().time()
        if (progress and progress != self.detail) or now - self._spoke >= 1:
            self.detail, self._spoke = progress or self.detail, now
            self._put(EngineSpoke(launch=self._launch))

    async def _serve(self, loading: asyncio.Task[None]) -> None:
        """Wait until the engine answers; from then on it may rest, and must answer."""
        assert self.watch is not None
        await self._probe()
        loading.cancel()
        await self.watch.while_up()

    async def _probe(self) -> None:
        """Wait until /health says 200, and it is this engine that says so."""
        assert self._process is not None
        warned = False
        while True:
            if await self._client.healthy():
                if self._is_ours():
                    break
                if not warned:
                    say(f"something else than this engine answers on {self._plan.base_url}", ERROR)
                    warned = True
            await asyncio.sleep(PROBE_INTERVAL)
        self._answered = True
        self._put(EngineAnswered(launch=self._launch))

    def _is_ours(self) -> bool:
        """Tell whether the port is the engine's; note its shared memory while all of it lives."""
        assert self._process is not None
        try:
            self._process.note_segments()
            return self._process.listens(self._plan.port)
        except (psutil.Error, OSError) as error:
            say(f"looking who listens on port {self._plan.port}: {error}", ERROR)
            return False

    async def examine(self, light: bool) -> None:
        """Ask the questions of the self-test and tell the outcome; lightly only where nobody else is asking."""
        if light and await self._client.busy():
            self._put(SelfTestPostponed(launch=self._launch))
            return
        outcome = await self._examined(light)
        if light and isinstance(outcome, SelfTestFailed):
            # Beside other requests a GPU takes other kernels: what was wrong then is asked again when nobody else asks.
            told = outcome.status is ExitStatus.GAVE_UP and not await self._client.busy()
            outcome = outcome if told else SelfTestPostponed(launch=self._launch)
        self._put(outcome)

    async def _examined(self, light: bool) -> Event:
        """Ask the questions and return the verdict: TRY_LATER where there is none."""
        try:
            examination = examination_of(self._plan, light=light)
        except RefusedError as refused:
            say(f"self-test: {refused}", ERROR)
            return SelfTestFailed(launch=self._launch, status=ExitStatus.CONFIGURATION, why=f"self-test: {refused}")
        verdicts = []
        async for verdict in examined(examination, self._client):
            against = verdict.stands_against
            level = ERROR if against else WARNING if verdict.outcome is Outcome.WRONG else INFO
            say(f"self-test: {verdict}", level)
            verdicts.append(verdict)
        outcome = outcome_of(verdicts)
        if outcome is Outcome.RIGHT:
            return SelfTestPassed(launch=self._launch)
        decisive = next(
            (verdict for verdict in verdicts if verdict.stands_against and verdict.outcome is outcome), None
        )
        why = str(decisive) if decisive else "no question could be asked of this model"
        status = ExitStatus.GAVE_UP if outcome is Outcome.WRONG else ExitStatus.TRY_LATER
        return SelfTestFailed(launch=self._launch, status=status, why=f"self-test: {why}")

    def dismiss(self, force: bool, stacks: bool = False) -> None:
        """Ask the engine to stop, or kill all of it; with `stacks` it first writes down what it was doing."""
        self._dismissed = True
        self._stalled = self._stalled or stacks
        self._end_tasks()
        if self._process is None:
            return
        if stacks:
            self._ending = asyncio.create_task(self._ended_with_stacks(self._process))
        elif force:
            self._process.kill()
        else:
            self._process.ask_to_stop()
            asyncio.get_running_loop().call_later(SECOND_REQUEST, self._process.ask_to_stop)

    async def _ended_with_stacks(self, process: EngineProcess) -> None:
        standing = await dump(activity_of(ROOT, self._pids()).members)
        await asyncio.sleep(DYING_WORDS)
        for line in stacks_in(self.lines) or standing:
            say(f"stack: {line}", WARNING)
        process.kill()

    def _detail(self, text: str) -> None:
        """Show how far the work in hand is."""
        if text != self.detail:
            self.detail = text
            self._put(EngineSpoke(launch=self._launch))
