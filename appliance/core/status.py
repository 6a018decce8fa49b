"""What is shown of the service: the line of `systemctl status`, and status.json for programs."""

from appliance.core.machine import Machine
from appliance.core.phase import Phase, Purpose, Result
from appliance.core.record import record

LONGEST_LINE = 400
"""Characters of a status line; systemctl shows it on one."""

WAYS_OUT = (
    "; kept up for probing, not ready: `vllm-serve selftest --record` accepts answers that are only others "
    "than before, or mend the cause and `systemctl restart vllm-serve`"
)
"""What works while systemd waits for READY=1: a reload would wait for it too."""


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
    trouble: str = ""
    """Why the newest engine failed, until one is ready."""
    wrong: str = ""
    """What is wrong with the answers of the engine that is up; empty when nothing is known to be."""


def status_of(machine: Machine, supervisor: Identity, detail: str) -> Status:
    """Return the view of a machine. `detail` is what the shell knows of the work in hand, such as progress."""
    return Status(
        supervisor=supervisor,
        phase=machine.phase.value,
        text=status_line(machine, detail),
        model=machine.plan.served_model_name if machine.plan else None,
        base_url=machine.plan.base_url if machine.plan else None,
        engine=machine.engine,
        reloads_asked=machine.asked,
        reloads_settled=machine.settled,
        reload_result=machine.result.value if machine.result else None,
        reload_why=machine.why,
        trouble=machine.trouble,
        wrong=machine.wrong,
    )


def status_line(machine: Machine, detail: str) -> str:
    """Return one ASCII line: python3-sdnotify loses a whole message that latin-1 can't hold."""
    text = _text(machine, detail).replace("\n", "; ").encode("ascii", "backslashreplace").decode()
    text = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    end = WAYS_OUT if machine.phase is Phase.HOLDING else ""
    room = LONGEST_LINE - len(end)
    return (text if len(text) <= room else f"{text[: room - 3]}...") + end


def _text(machine: Machine, detail: str) -> str:
    doing = _DOING.get(machine.phase, machine.phase.value)
    if machine.phase is Phase.FAILED:
        return f"failed: {machine.why}"
    if machine.phase is Phase.PAUSING:
        return f"waiting {machine.pause:g} s before the next launch: {machine.trouble}"
    if machine.phase is Phase.HOLDING:
        return f"asking again after {machine.wrong}" if machine.due else machine.wrong
    if machine.phase is Phase.SERVING and machine.plan:
        serving = f"serving {machine.plan.served_model_name} on {machine.plan.base_url}"
        wrong = f", WRONGLY: {machine.wrong}" if machine.wrong else ""
        return f"{serving}{wrong}{_outcome(machine)}"
    named = machine.plan is not None and machine.phase is not Phase.CHECKING
    name = f" {machine.plan.served_model_name}" if machine.plan and named else ""
    purpose = {Purpose.RELOAD: "reloading: ", Purpose.ROLLBACK: "rolling back: ", Purpose.RESTART: "restarting: "}.get(
        machine.purpose, ""
    )
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
