"""How patient the lifecycle is, in seconds."""

from appliance.core.record import record


@record
class Policy:
    """The longest time that each phase may last."""

    checking: float = 60.0
    loading: float = 1800.0
    """Between two lines of an engine that loads; a load itself may last for hours."""
    self_test: float = 300.0
    stopping: float = 20.0
    """Between asking and killing. vLLM on a CPU took 7 s to end a drained engine."""
    rollback: bool = True
