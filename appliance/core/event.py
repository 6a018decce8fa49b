"""What happens to the service.

`attempt` and `launch` number the check and the engine that an answer belongs to, so that a late answer of a dead
engine can't make the next one ready.
"""

from appliance.core.phase import ExitStatus
from appliance.core.plan import Plan
from appliance.core.record import record


@record
class Started:
    """The supervisor runs."""


@record
class Prepared:
    """The file was read, the machine looked at, and the checks passed."""

    attempt: int
    plan: Plan


@record
class Refused:
    """The file, the machine or a check stands against the start."""

    attempt: int
    status: ExitStatus
    why: str


@record
class EngineSpoke:
    """The engine printed something, so it is not stuck."""

    launch: int


@record
class EngineAnswered:
    """The engine's /health said 200."""

    launch: int


@record
class EngineFell:
    """The engine's API server ended; what is left of its processes is being killed."""

    launch: int
    status: ExitStatus
    why: str


@record
class EngineLeft:
    """Every process of the engine is gone."""

    launch: int
    status: ExitStatus
    why: str


@record
class EngineStalled:
    """The engine lives, and does nothing any more."""

    launch: int
    why: str


@record
class EngineProved:
    """The engine has served for so long that its loss would be a story of its own."""

    launch: int


@record
class SelfTestPassed:
    """Every question got its answer."""

    launch: int


@record
class SelfTestFailed:
    """A question got a wrong answer, or none."""

    launch: int
    status: ExitStatus
    why: str


@record
class SelfTestPostponed:
    """No verdict: the engine was busy, or did not answer."""

    launch: int


@record
class ProbeAsked:
    """SIGUSR1 came: somebody wants the self-test asked again."""


@record
class DriverChanged:
    """The driver of the GPUs is another than the one with which the engine was launched."""


@record
class StopAsked:
    """SIGTERM or SIGINT came."""


@record
class ReloadAsked:
    """SIGHUP came."""


@record
class AlarmRang:
    """The time for a phase is over."""

    alarm: int


Event = (
    Started
    | Prepared
    | Refused
    | EngineSpoke
    | EngineAnswered
    | EngineFell
    | EngineLeft
    | EngineStalled
    | EngineProved
    | SelfTestPassed
    | SelfTestFailed
    | SelfTestPostponed
    | ProbeAsked
    | DriverChanged
    | StopAsked
    | ReloadAsked
    | AlarmRang
)
