"""What the service keeps of its failures, for the one who looks later."""

import dataclasses
import os
import time
from datetime import datetime
from pathlib import Path

from appliance.core.diagnosis import Diagnosis
from appliance.core.event import EngineLeft, Event
from appliance.core.failure import Failure, kept
from appliance.core.machine import Machine
from appliance.core.phase import ExitStatus, Phase
from appliance.service.failure import keep_failure
from appliance.service.journal import ERROR, say
from appliance.service.launch import EngineRun


def state_folder(runtime: Path) -> Path:
    """Return where the unit keeps its state; systemd names the folder, by hand it is that of status.json."""
    return Path(os.environ.get("STATE_DIRECTORY", str(runtime)).partition(":")[0])


class Chronicle:
    """Writes down why something failed, and once more when the engine has left and more is known of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._newest: Failure | None = None
        self._launched = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the newest launch."""
        return time.monotonic() - self._launched

    def launched(self) -> None:
        """Begin the story of another engine."""
        self._newest = None
        self._launched = time.monotonic()

    def take(self, before: Machine, machine: Machine, event: Event, engine: EngineRun | None) -> None:
        """Take note of what an event made of the machine."""
        if failed_by(before, machine):
            self._keep(self._failure(before.phase, machine, engine))
        elif isinstance(event, EngineLeft) and engine and engine.diagnosis and self._newest:
            known = dataclasses.replace(self._newest, status=engine.status, diagnosis=engine.diagnosis)
            self._keep(dataclasses.replace(known, lines=kept(engine.lines)))

    def _failure(self, phase: Phase, machine: Machine, engine: EngineRun | None) -> Failure:
        plain = Diagnosis(
            id=f"service.{phase.value}",
            summary=machine.trouble or machine.why,
            permanent=machine.status in (ExitStatus.CONFIGURATION, ExitStatus.GAVE_UP),
        )
        return Failure(
            time=datetime.now().astimezone().isoformat(timespec="seconds"),
            launch=machine.launch,
            phase=phase.value,
            status=engine.status if engine else None,
            elapsed=self.elapsed,
            engine=machine.engine,
            model=machine.plan.model_folder if machine.plan else None,
            diagnosis=(engine.diagnosis if engine else None) or plain,
            lines=kept(engine.lines if engine else ()),
        )

    def _keep(self, failure: Failure) -> None:
        self._newest = failure
        if wrong := keep_failure(self._folder, failure):
            say(wrong, ERROR)


def failed_by(before: Machine, machine: Machine) -> bool:
    """Tell whether something has just failed: an engine, or the service without one."""
    if machine.trouble:
        counts = (machine.trouble, machine.failures, machine.losses)
        return counts != (before.trouble, before.failures, before.losses)
    return machine.phase is Phase.FAILED and before.phase is not Phase.FAILED
