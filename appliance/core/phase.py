"""The words of the lifecycle: phases, purposes, outcomes and exit statuses."""

import enum


class Phase(enum.StrEnum):
    """What the service is doing; people see these words."""

    STARTING = "starting"
    CHECKING = "checking"
    LOADING = "loading"
    SELF_TEST = "self-test"
    HOLDING = "self-test-failed"
    """The answers were wrong; the engine is kept up for probing and is not ready."""
    SERVING = "serving"
    STOPPING = "stopping"
    PAUSING = "waiting"
    """An engine failed and is gone; the next one is launched after a while."""
    FAILED = "failed"
    STOPPED = "stopped"


class Purpose(enum.StrEnum):
    """Why an engine is being brought up."""

    START = "start"
    RELOAD = "reload"
    ROLLBACK = "rollback"
    RESTART = "restart"
    """An engine that served was lost, or its answers turned wrong."""


class ExitStatus(enum.IntEnum):
    """How the supervisor ends; systemd does not restart after GAVE_UP and CONFIGURATION."""

    OK = 0
    USAGE = 2
    GAVE_UP = 69
    BUG = 70
    TRY_LATER = 75
    CONFIGURATION = 78


class Result(enum.StrEnum):
    """How a reload ended."""

    APPLIED = "applied"
    REFUSED = "refused"
    ROLLED_BACK = "rolled-back"
    FAILED = "failed"


class Word(enum.StrEnum):
    """What is said to systemd."""

    READY = "READY=1"
    RELOADING = "RELOADING=1"
    STOPPING = "STOPPING=1"
