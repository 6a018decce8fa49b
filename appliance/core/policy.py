"""How patient the lifecycle is, and what it does about a model that is wrong."""

from appliance.core.record import record


@record
class Policy:
    """The longest time that each phase may last, in seconds, and the choices of a person."""

    checking: float = 60.0
    loading: float = 1800.0
    """Between two lines of an engine that loads; a load itself may last for hours."""
    stall: float = 300.0
    """Without any sign of progress: a line, CPU time, bytes read; or, in an engine that is up, a token."""
    self_test: float = 300.0
    repeat: float = 3600.0
    """From a passed self-test to its light repetition; 0 for no repetition."""
    stopping: float = 20.0
    """Between asking and killing. vLLM on a CPU took 7 s to end a drained engine."""
    tries: int = 3
    """Launches in a row that may fail before one has become ready."""
    losses: int = 5
    """Engines in a row that may be lost after they were ready, and before they have served for long."""
    pause: float = 10.0
    """Before the second launch; each further pause is twice as long."""
    rollback: bool = True
    hold: bool = False
    """Whether an engine whose answers are wrong is kept up, not ready, for probing."""
    restart_wrong: bool = True
    """Whether an engine whose answers turned wrong while it served is restarted; else that is only told."""
