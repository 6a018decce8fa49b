"""The shell around the lifecycle: signals and processes become events, effects become deeds."""

import asyncio
import fcntl
import os
import signal
import traceback
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from appliance.core.effect import Dismiss, Effect, Examine, Launch, Leave, Prepare, Report, SetAlarm, Tell
from appliance.core.event import (
    AlarmRang,
    DriverChanged,
    EngineProved,
    Event,
    ProbeAsked,
    Refused,
    ReloadAsked,
    Started,
    StopAsked,
)
from appliance.core.lifecycle import step
from appliance.core.machine import Machine
from appliance.core.phase import ExitStatus, Phase
from appliance.core.status import Identity, status_line, status_of
from appliance.host.driver import Driver, change_between, driver_in_use
from appliance.service.chronicle import Chronicle, state_folder
from appliance.service.journal import ERROR, INFO, NOTICE, say
from appliance.service.launch import EngineRun, Place
from appliance.service.notify import Notifier, watchdog_interval
from appliance.service.preparation import prepare
from appliance.service.release import Release, gpus_now
from appliance.service.statusfile import identity_of, write_status

HEARTBEAT = 1.0
"""Seconds between two signs of life while something is in progress."""

EXTENSION = 60.0
"""Seconds of patience that each sign of life asks systemd for."""

BLIND = 30.0
"""Seconds without a look at the engine that serves, after which the watchdog is not told that all is well."""

SETTLED = 600.0
"""Seconds after which an engine that serves has settled; one that loads for longer needs twice its time to load."""

SIGNALS: tuple[tuple[signal.Signals, Event], ...] = (
    (signal.SIGTERM, StopAsked()),
    (signal.SIGINT, StopAsked()),
    (signal.SIGHUP, ReloadAsked()),
    (signal.SIGUSR1, ProbeAsked()),
)

HARMLESS = (signal.SIGHUP, signal.SIGUSR1)
"""Signals that must not end the supervisor while its loop does not listen."""

DRIVER_INTERVAL = 60.0
"""Seconds between two looks at the driver while serving; a look reads three small files."""

ROOT = Path("/")


class Supervisor:
    """One service: a machine, its engine, and the queue between them."""

    def __init__(self, config_file: Path, runtime: Path) -> None:
        self._config_file = config_file
        self._runtime = runtime
        self._machine = Machine()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._notifier = Notifier()
        self._watchdog = watchdog_interval(dict(os.environ), os.getpid())
        self._engine: EngineRun | None = None
        self._examination: asyncio.Task[None] | None = None
        self._driver = Driver()
        self._tasks: set[asyncio.Task[None]] = set()
        self._spare: set[int] = set()
        self._place = Place(runtime, self._spare, Release(partial(gpus_now, self._spare)), self._failed)
        self._alarm: asyncio.TimerHandle | None = None
        self._shown = ""
        self._self = identity_of(os.getpid()) or Identity(pid=os.getpid(), started=0)
        self._status = 0
        self._bug: BaseException | None = None
        self._over = asyncio.Event()
        self._chronicle = Chronicle(state_folder(runtime))

    async def run(self) -> int:
        """Serve until asked to stop; return the exit status."""
        loop = asyncio.get_running_loop()
        for number, event in SIGNALS:
            loop.add_signal_handler(number, self._events.put_nowait, event)
        self._start(self._beat())
        self._start(self._watch_driver())
        self._start(self._obey())
        await self._over.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # systemd would take a death by it for a clean end
        signal.pthread_sigmask(signal.SIG_BLOCK, HARMLESS)
        if self._bug is None:
            return self._status
        traceback.print_exception(self._bug)
        if self._engine:
            self._engine.dismiss(force=True)
        return int(ExitStatus.BUG)

    async def _obey(self) -> None:
        """Take one event after the other until the service has ended."""
        self._take(Started())
        while self._machine.phase not in (Phase.FAILED, Phase.STOPPED):
            self._take(await self._events.get())
        self._over.set()

    def _take(self, event: Event) -> None:
        before = self._machine
        self._machine, effects = step(self._machine, event)
        if self._machine.phase is not before.phase and self._engine:
            self._engine.detail = ""
        self._remember(before, event)
        for effect in effects:
            if isinstance(effect, Report):
                say(effect.text, ERROR if effect.error else INFO)
        self._show()
        for effect in effects:
            self._act(effect)

    def _remember(self, before: Machine, event: Event) -> None:
        """Keep why something failed; count the time of an engine that has become ready."""
        machine = self._machine
        self._chronicle.take(before, machine, event, self._engine)
        if machine.ready and not before.ready:
            settled = max(SETTLED, 2 * self._chronicle.elapsed)
            proved = EngineProved(launch=machine.launch)
            asyncio.get_running_loop().call_later(settled, self._events.put_nowait, proved)

    def _act(self, effect: Effect) -> None:
        match effect:
            case Prepare(attempt=attempt):
                self._start(self._prepare(attempt))
            case Launch(launch=launch, plan=plan):
                self._end_examination()
                self._driver = driver_in_use(ROOT)
                self._chronicle.launched()
                self._engine = EngineRun(launch, plan, self._place, self._events.put_nowait)
                self._start(self._engine.live())
            case Examine(light=light) if self._engine:
                self._end_examination()
                self._examination = self._start(self._engine.examine(light))
            case Dismiss(force=force, stacks=stacks) if self._engine:
                self._end_examination()
                self._engine.dismiss(force, stacks)
            case SetAlarm(alarm=alarm, seconds=seconds):
                self._set_alarm(alarm, seconds)
            case Tell(word=word):
                self._notifier.tell(word)
            case Leave(status=status):
                self._status = int(status)

    async def _prepare(self, attempt: int) -> None:
        """Prepare an attempt; a bug on the way refuses it, and does not cost a running engine."""
        plan = self._machine.plan
        held = plan.port if plan else None
        preparing = asyncio.create_task(prepare(self._config_file, attempt, held, self._spare))
        try:
            await asyncio.wait({preparing})
        finally:
            preparing.cancel()
        if error := preparing.exception():
            traceback.print_exception(error)
            why = f"a bug in vllm-serve, please report the lines before: {error!r}"
            self._events.put_nowait(Refused(attempt=attempt, status=ExitStatus.BUG, why=why))
        else:
            self._events.put_nowait(preparing.result())

    def _set_alarm(self, alarm: int, seconds: float) -> None:
        if self._alarm:
            self._alarm.cancel()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(seconds, self._events.put_nowait, AlarmRang(alarm=alarm))

    def _end_examination(self) -> None:
        """One examination at a time, and none of an engine that is to go."""
        if self._examination:
            self._examination.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """End with a bug."""
        self._bug = error
        self._over.set()

    def _show(self) -> None:
        detail = self._engine.detail if self._engine else ""
        line = status_line(self._machine, detail)
        if line != self._shown:
            self._notifier.status(line)
            self._shown = line
            say(line, ERROR if self._machine.phase is Phase.FAILED or self._machine.wrong else INFO)
        try:
            write_status(self._runtime, status_of(self._machine, self._self, detail))
        except OSError as error:
            say(f"{self._runtime}/status.json can't be written: {error.strerror}", ERROR)

    async def _beat(self) -> None:
        """Tell systemd that we live: more time while something is in progress, the watchdog while all is well."""
        loop = asyncio.get_running_loop()
        last = 0.0
        while True:
            await asyncio.sleep(HEARTBEAT)
            if self._machine.phase is not Phase.SERVING:
                self._extend(loop.time())
                self._show()
            due = self._watchdog is not None and loop.time() - last >= min(self._watchdog, 10 * HEARTBEAT)
            if due and self._is_watched(loop.time()):
                self._notifier.alive()
                last = loop.time()

    def _extend(self, now: float) -> None:
        """Ask systemd for more time; a load must show progress, and every other phase has its alarm."""
        watch = self._engine.watch if self._engine else None
        if self._machine.phase is not Phase.LOADING or watch is None:
            self._notifier.extend(EXTENSION)
        elif now - watch.moved < self._machine.policy.stall:
            # As long as it may stand still, and time for its end.
            self._notifier.extend(self._machine.policy.stall + EXTENSION)

    def _is_watched(self, now: float) -> bool:
        """Tell whether somebody looks after the engine that serves: nothing else may be called alive."""
        watch = self._engine.watch if self._engine else None
        return self._machine.phase is not Phase.SERVING or (watch is not None and now - watch.looked < BLIND)

    async def _watch_driver(self) -> None:
        """Tell of another driver than the engine was launched with, once for each."""
        while True:
            await asyncio.sleep(DRIVER_INTERVAL)
            if self._machine.phase is not Phase.SERVING:
                continue
            found = driver_in_use(ROOT)
            if change := change_between(self._driver, found):
                say(f"the driver of the GPUs changed: {change}", NOTICE)
                self._driver = found
                self._events.put_nowait(DriverChanged())


def supervise(config_file: Path, runtime: Path) -> int:
    """Run the service in the foreground; return its exit status. Raises BlockingIOError where another one runs."""
    for number in HARMLESS:
        signal.signal(number, signal.SIG_IGN)  # until the loop listens
    folder = os.open(runtime, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return asyncio.run(Supervisor(config_file, runtime).run())
    finally:
        os.close(folder)
