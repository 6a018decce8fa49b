"""Values that tests start from."""

from appliance.core.judge import KnownAnswer
from appliance.core.plan import Plan
from appliance.core.policy import Policy
from appliance.core.question import Question


def plan(name: str = "demo", *, rollback: bool = True) -> Plan:
    """Return a plan that differs from others by the name it serves."""
    return Plan(
        argv=("/engines/e/bin/python", "/engines/e/bin/vllm", "serve", "/models/m"),
        env=(),
        unset=("NOTIFY_SOCKET",),
        prefix=(),
        settings=(),
        model_folder="/models/m",
        served_model_name=name,
        host="127.0.0.1",
        port=8000,
        questions=(
            Question(name="sum", judge=KnownAnswer(ask="What is 3 + 4?", equals="3 + 4 = 7."), origin="demo.toml:1"),
        ),
        log_file=None,
        policy=Policy(rollback=rollback),
    )
