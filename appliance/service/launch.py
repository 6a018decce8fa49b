"""One life of the engine: launched, waited for, questioned, gone."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import psutil

from appliance.core.event import (
    EngineAnswered,
    EngineFell,
    EngineLeft,
    EngineSpoke,
    Event,
    SelfTestFailed,
    SelfTestPassed,
    SelfTestPostponed,
)
from appliance.core.phase import ExitStatus
from appliance.core.plan import Plan
from appliance.core.problem import RefusedError
from appliance.core.progress import cause_of, progress_of
from appliance.engine.client import EngineClient
from appliance.engine.folder import make_folders
from appliance.engine.journal import write_logging_config
from appliance.engine.leftover import names_in, remove_leftovers
from appliance.engine.line import Line
from appliance.engine.process import EngineProcess, environment_of
from appliance.selftest.examination import examined, outcome_of
from appliance.selftest.verdict import Outcome
from appliance.service.journal import ERROR, INFO, WARNING, EngineOutput, journal_answers, say
from appliance.service.selftest import examination_of

PROBE_INTERVAL = 0.5
"""Seconds between two looks at /health while loading."""

SECOND_REQUEST = 2.0
"""Seconds after which an engine is asked to stop again: vLLM swallows the first SIGTERM while it loads."""

LAST_WORDS = 1.0
"""Seconds to read what a dead API server printed, which its orphans may keep from ending."""

ROOT = Path("/")


class EngineRun:
    """One launch and what is known of it."""

    def __init__(self, launch: int, plan: Plan, runtime: Path, put: Callable[[Event], None]) -> None:
        self.detail = ""
        """How far the work in hand is, for the status line."""
        self._launch = launch
        self._plan = plan
        self._runtime = runtime
        self._put = put
        self._process: EngineProcess | None = None
        self._dismissed = False
        self._answered = False
        self._client = EngineClient(plan.base_url, plan.api_key)
        self._output = EngineOutput(journal_answers(), plan.log_file)
        self._spoke = 0.0

    async def live(self, spare: set[int]) -> None:
        """Run the engine from its start until its last process is gone, and tell so."""
        before = names_in(ROOT)
        try:
            make_folders(self._plan.folders)
        except OSError as error:
            why = f"the folder {error.filename} can't be made: {error.strerror}"
            self._put(EngineLeft(launch=self._launch, status=ExitStatus.CONFIGURATION, why=why))
            return
        try:
            self._process = await EngineProcess.launch(self._plan, self._environment(), spare)
        except OSError as error:
            why = f"the engine can't be executed: {self._plan.argv[0]}: {error.strerror}"
            self._put(EngineLeft(launch=self._launch, status=ExitStatus.CONFIGURATION, why=why))
            return
        if self._dismissed:
            self.dismiss(force=False)
        say(f"engine {self._launch} started as pid {self._process.pid}")
        reading = asyncio.create_task(self._process.read(self._take))
        probing = asyncio.create_task(self._probe())
        status = await self._process.wait()
        probing.cancel()
        await asyncio.wait({reading}, timeout=LAST_WORDS)
        self._put(EngineFell(launch=self._launch, status=self._exit_status(status), why=self._why(status)))
        await self._process.sweep()
        await reading
        self._output.close()
        for name in remove_leftovers(ROOT, self._process.segments - before):
            say(f"removed /dev/shm/{name}, which the engine left behind")
        say(f"engine {self._launch} is gone (exit status {status})")
        self._put(EngineLeft(launch=self._launch, status=self._exit_status(status), why=self._why(status)))

    def _environment(self) -> dict[str, str]:
        environment = environment_of(self._plan, os.environ.items())
        level = environment.get("VLLM_LOGGING_LEVEL", "INFO")
        logging = write_logging_config(self._runtime, journal_answers(), level)
        return {**environment, "VLLM_CONFIGURE_LOGGING": "1", "VLLM_LOGGING_CONFIG_PATH": str(logging)}

    def _exit_status(self, status: int) -> ExitStatus:
        """Return ours: argparse's 2 before it ever answered means that the command line itself is wrong."""
        usage = status == 2 and not self._answered
        return ExitStatus.CONFIGURATION if usage else ExitStatus.TRY_LATER

    def _why(self, status: int) -> str:
        """Tell an exit; vLLM says 0 when its engine core dies, so any exit that nobody asked for is a failure."""
        cause = cause_of(tuple(self._output.tail))
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"the engine ended by itself ({how})" + (f": {cause}" if cause else "")

    def _take(self, line: Line) -> None:
        self._output.take(line)
        progress, now = progress_of(line.text), asyncio.get_running_loop().time()
        if (progress and progress != self.detail) or now - self._spoke >= 1:
            self.detail, self._spoke = progress or self.detail, now
            self._put(EngineSpoke(launch=self._launch))

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

    def dismiss(self, force: bool) -> None:
        """Ask the engine to stop, or kill all of it."""
        self._dismissed = True
        if self._process is None:
            return
        if force:
            self._process.kill()
        else:
            self._process.ask_to_stop()
            asyncio.get_running_loop().call_later(SECOND_REQUEST, self._process.ask_to_stop)
