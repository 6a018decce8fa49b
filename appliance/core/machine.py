"""Where the service stands: what the lifecycle remembers."""

import posixpath

from appliance.core.phase import ExitStatus, Phase, Purpose, Result
from appliance.core.plan import Plan
from appliance.core.policy import Policy
from appliance.core.record import record


@record
class Machine:
    """Where the service stands."""

    phase: Phase = Phase.STARTING
    purpose: Purpose = Purpose.START
    attempt: int = 0
    """The number of the newest check of file and machine."""
    launch: int = 0
    """The number of the newest engine."""
    alarm: int = 0
    plan: Plan | None = None
    """What the engine runs with, or is being launched with."""
    following: Plan | None = None
    """What to launch when the engine has stopped; None to end instead."""
    again: bool = False
    """Whether file and machine are looked at anew when the engine has stopped, and an engine launched then."""
    pause: float = 0.0
    """Seconds to wait before what follows is launched."""
    up: bool = False
    """Whether processes of the newest engine exist."""
    failures: int = 0
    """Launches in a row that did not become ready."""
    losses: int = 0
    """Engines in a row that were lost after they were ready, and before they had served for long."""
    trouble: str = ""
    """Why the newest engine failed, until one is ready."""
    good: Plan | None = None
    """The last plan whose engine passed its self-test."""
    forced: bool = False
    """Whether the engine was told to die, and not only asked to stop."""
    status: ExitStatus = ExitStatus.OK
    why: str = ""
    """Why the service ends, or why the last reload did not apply."""
    asked: int = 0
    """Reloads asked for so far."""
    begun: int = 0
    """The newest reload that the work in progress answers."""
    settled: int = 0
    """The newest reload whose outcome is known."""
    result: Result | None = None
    ready: bool = False
    """Whether this engine has passed a full self-test."""
    due: bool = False
    """Whether an examination of this engine is asked for that has no verdict yet, beside that of the start."""
    doubted: bool = False
    """Whether the newest repetition was wrong, so that the next wrong one counts."""
    wrong: str = ""
    """What is wrong with the answers of this engine, though it is up; empty when nothing is known to be."""
    restarted: str | None = None
    """Why the engine was restarted for wrong answers, until a repetition has passed."""

    @property
    def goes_on(self) -> bool:
        """Whether something follows an engine that is gone."""
        return self.again or self.following is not None

    @property
    def engine(self) -> str | None:
        """The id of the installed engine that runs, or ran last."""
        return posixpath.basename(posixpath.dirname(posixpath.dirname(self.plan.argv[0]))) if self.plan else None

    @property
    def policy(self) -> Policy:
        """The patience of the plan at hand."""
        return self.plan.policy if self.plan else Policy()
