"""What is shown of the service: the line of `systemctl status`, and status.json for programs."""

from appliance.core.lifecycle import Machine
from appliance.core.phase import Phase, Purpose, Result
from appliance.core.record import record

LONGEST_LINE = 400
"""Characters of a status line; systemctl shows it on one."""


@record
class Identity:
    """Which process speaks; a pid alone may be another's by now."""

    pid: int
    started: int
    """Clock ticks from the start of the machine to the process's: unlike a time of day, no clock step moves it."""


@record
class Status:
    """status.json: one snapshot for readers of any kind."""

    supervisor: Identity
    phase: str
    text: str
    model: str | None
    base_url: str | None
    engine: str | None
    reloads_asked: int
    reloads_settled: int
    reload_result: str | None
    reload_why: str


def status_of(machine: Machine, supervisor: Identity, engine: str | None, detail: str) -> Status:
    """Return the view of a machine. `detail` is what the shell knows of the work in hand, such as progress."""
    return Status(
        supervisor=supervisor,
        phase=machine.phase.value,
        text=status_line(machine, detail),
        model=machine.plan.served_model_name if machine.plan else None,
        base_url=machine.plan.base_url if machine.plan else None,
        engine=engine,
        reloads_asked=machine.asked,
        reloads_settled=machine.settled,
        reload_result=machine.result.value if machine.result else None,
        reload_why=machine.why,
    )


def status_line(machine: Machine, detail: str) -> str:
    """Return one ASCII line: python3-sdnotify loses a whole message that latin-1 can't hold."""
    text = _text(machine, detail).encode("ascii", "backslashreplace").decode().replace("\n", "; ")
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 3]}..."


def _text(machine: Machine, detail: str) -> str:
    doing = _DOING.get(machine.phase, machine.phase.value)
    if machine.phase is Phase.FAILED:
        return f"failed: {machine.why}"
    if machine.phase is Phase.SERVING and machine.plan:
        return f"serving {machine.plan.served_model_name} on {machine.plan.base_url}{_outcome(machine)}"
    named = machine.plan is not None and machine.phase is not Phase.CHECKING
    name = f" {machine.plan.served_model_name}" if machine.plan and named else ""
    purpose = {Purpose.RELOAD: "reloading: ", Purpose.ROLLBACK: "rolling back: "}.get(machine.purpose, "")
    return f"{purpose}{doing}{name}" + (f": {detail}" if detail else "")


def _outcome(machine: Machine) -> str:
    if machine.result in (Result.REFUSED, Result.ROLLED_BACK):
        return f"; last reload {machine.result.value}: {machine.why}"
    return ""


_DOING = {
    Phase.STARTING: "starting",
    Phase.CHECKING: "checking the machine",
    Phase.LOADING: "loading",
    Phase.SELF_TEST: "asking the self-test of",
    Phase.STOPPING: "stopping",
    Phase.STOPPED: "stopped",
}
