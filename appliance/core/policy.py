"""How patient the lifecycle is, and what it does about a model that is wrong."""

from appliance.core.record import record


@record
class Policy:
    """The longest time that each phase may last, in seconds, and the choices of a person."""

    checking: float = 60.0
    loading: float = 1800.0
    """Between two lines of an engine that loads; a load itself may last for hours."""
    self_test: float = 300.0
    repeat: float = 3600.0
    """From a passed self-test to its light repetition; 0 for no repetition."""
    stopping: float = 20.0
    """Between asking and killing. vLLM on a CPU took 7 s to end a drained engine."""
    rollback: bool = True
    hold: bool = False
    """Whether an engine whose answers are wrong is kept up, not ready, for probing."""
    restart_wrong: bool = True
    """Whether an engine whose answers turned wrong while it served is restarted; else that is only told."""
