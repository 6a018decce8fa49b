"""What the service is to do."""

from appliance.core.phase import ExitStatus, Word
from appliance.core.plan import Plan
from appliance.core.record import record


@record
class Prepare:
    """Read the file, look at the machine, build the plan, run the checks."""

    attempt: int


@record
class Launch:
    """Start the engine, and wait until its /health says 200."""

    launch: int
    plan: Plan


@record
class Examine:
    """Ask the engine the questions of its self-test; an examination that still runs ends without a verdict."""

    launch: int
    plan: Plan
    light: bool = False
    """Only when the engine is idle, and only the part that costs its users nothing."""


@record
class Dismiss:
    """Ask the engine to end, or kill it."""

    force: bool
    stacks: bool = False
    """Whether its processes write down first what they were doing."""


@record
class SetAlarm:
    """Ring after a while; one alarm at a time, a new one replaces the old."""

    alarm: int
    seconds: float


@record
class Tell:
    """Say a word to systemd."""

    word: Word


@record
class Report:
    """Write a line to the journal."""

    error: bool
    text: str


@record
class Leave:
    """End the supervisor."""

    status: ExitStatus


Effect = Prepare | Launch | Examine | Dismiss | SetAlarm | Tell | Report | Leave
