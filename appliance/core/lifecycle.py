"""The life of the service as a pure function: from a machine and an event to the next machine and effects."""

import dataclasses
from collections.abc import Callable

from appliance.core.effect import Dismiss, Effect, Examine, Launch, Leave, Prepare, Report, SetAlarm, Tell
from appliance.core.event import (
    AlarmRang,
    EngineAnswered,
    EngineFell,
    EngineLeft,
    EngineSpoke,
    Event,
    Prepared,
    Refused,
    ReloadAsked,
    SelfTestFailed,
    SelfTestPassed,
    Started,
    StopAsked,
)
from appliance.core.phase import ExitStatus, Phase, Purpose, Result, Word
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

    @property
    def policy(self) -> Policy:
        """The patience of the plan at hand."""
        return self.plan.policy if self.plan else Policy()


Step = tuple[Machine, tuple[Effect, ...]]


def step(machine: Machine, event: Event) -> Step:
    """Return the next machine and what to do; an event that means nothing now changes nothing."""
    if isinstance(event, ReloadAsked):
        machine = dataclasses.replace(machine, asked=machine.asked + 1)
    return _PHASES[machine.phase](machine, event)


def _starting(machine: Machine, event: Event) -> Step:
    match event:
        case Started():
            return _prepare(machine)
        case StopAsked():
            return _end(machine, ExitStatus.OK, "")
        case _:
            return machine, ()


def _checking(machine: Machine, event: Event) -> Step:
    match event:
        case Prepared(attempt=machine.attempt) | Refused(attempt=machine.attempt) if machine.asked > machine.begun:
            return _prepare(dataclasses.replace(machine, begun=machine.asked))
        case Prepared(attempt=machine.attempt, plan=plan) if machine.plan is None:
            return _launch(machine, plan)
        case Prepared(attempt=machine.attempt, plan=plan):
            return _stop(dataclasses.replace(machine, following=plan))
        case Refused(attempt=machine.attempt, status=status, why=why):
            return _refused(machine, status, why)
        case AlarmRang(alarm=machine.alarm):
            return _refused(machine, ExitStatus.TRY_LATER, "the check of the machine did not end in time")
        case EngineFell(launch=machine.launch, status=status, why=why) if machine.plan is not None:
            return _give_up(machine, status, why)
        case EngineLeft(launch=machine.launch, status=status, why=why) if machine.plan is not None:
            return _end(machine, status, why)
        case StopAsked():
            return _stop_for_good(machine)
        case _:
            return machine, ()


def _loading(machine: Machine, event: Event) -> Step:
    match event:
        case EngineSpoke(launch=machine.launch):
            return _enter(machine, Phase.LOADING, machine.policy.loading)
        case EngineAnswered(launch=machine.launch):
            assert machine.plan is not None
            examine = Examine(launch=machine.launch, plan=machine.plan)
            return _enter(machine, Phase.SELF_TEST, machine.policy.self_test, examine)
        case AlarmRang(alarm=machine.alarm):
            why = f"the engine printed nothing for {machine.policy.loading:g} s while loading"
            return _abandon(machine, ExitStatus.TRY_LATER, why)
        case _:
            return _not_ready(machine, event)


def _self_test(machine: Machine, event: Event) -> Step:
    match event:
        case SelfTestPassed(launch=machine.launch):
            return _serve(machine)
        case SelfTestFailed(launch=machine.launch, status=status, why=why):
            return _abandon(machine, status, why)
        case AlarmRang(alarm=machine.alarm):
            why = f"the self-test did not end within {machine.policy.self_test:g} s"
            return _abandon(machine, ExitStatus.TRY_LATER, why)
        case _:
            return _not_ready(machine, event)


def _not_ready(machine: Machine, event: Event) -> Step:
    match event:
        case EngineFell(launch=machine.launch, status=status, why=why):
            return _abandon(machine, status, why)
        case EngineLeft(launch=machine.launch, status=status, why=why):
            return _lost(machine, status, why)
        case StopAsked():
            return _stop_for_good(machine)
        case _:
            return machine, ()


def _serving(machine: Machine, event: Event) -> Step:
    match event:
        case ReloadAsked():
            return _reload(machine)
        case EngineFell(launch=machine.launch, status=status, why=why):
            return _give_up(machine, status, why)
        case EngineLeft(launch=machine.launch, status=status, why=why):
            return _end(machine, status, why)
        case StopAsked():
            return _stop_for_good(machine)
        case _:
            return machine, ()


def _stopping(machine: Machine, event: Event) -> Step:
    match event:
        case EngineLeft(launch=machine.launch) if machine.following is not None:
            return _launch(machine, machine.following)
        case EngineLeft(launch=machine.launch):
            return _end(machine, machine.status, machine.why)
        case AlarmRang(alarm=machine.alarm) if not machine.forced:
            forced = dataclasses.replace(machine, forced=True)
            text = f"the engine did not stop within {machine.policy.stopping:g} s; killing it"
            effects = (Report(error=True, text=text), Dismiss(force=True))
            return _enter(forced, Phase.STOPPING, machine.policy.stopping, *effects)
        case AlarmRang(alarm=machine.alarm):
            return _end(machine, ExitStatus.TRY_LATER, "processes of the engine do not die")
        case StopAsked() if machine.following is not None:
            machine = dataclasses.replace(machine, following=None, status=ExitStatus.OK, why="")
            return machine, (Tell(word=Word.STOPPING),)
        case _:
            return machine, ()


def _ended(machine: Machine, _event: Event) -> Step:
    return machine, ()


_PHASES: dict[Phase, Callable[[Machine, Event], Step]] = {
    Phase.STARTING: _starting,
    Phase.CHECKING: _checking,
    Phase.LOADING: _loading,
    Phase.SELF_TEST: _self_test,
    Phase.SERVING: _serving,
    Phase.STOPPING: _stopping,
    Phase.FAILED: _ended,
    Phase.STOPPED: _ended,
}


def _enter(machine: Machine, phase: Phase, seconds: float, *effects: Effect) -> Step:
    machine = dataclasses.replace(machine, phase=phase, alarm=machine.alarm + 1)
    return machine, (SetAlarm(alarm=machine.alarm, seconds=seconds), *effects)


def _prepare(machine: Machine, *before: Effect) -> Step:
    machine = dataclasses.replace(machine, attempt=machine.attempt + 1)
    return _enter(machine, Phase.CHECKING, machine.policy.checking, *before, Prepare(attempt=machine.attempt))


def _launch(machine: Machine, plan: Plan) -> Step:
    machine = dataclasses.replace(machine, plan=plan, following=None, forced=False, launch=machine.launch + 1)
    return _enter(machine, Phase.LOADING, plan.policy.loading, Launch(launch=machine.launch, plan=plan))


def _serve(machine: Machine) -> Step:
    result = Result.ROLLED_BACK if machine.purpose is Purpose.ROLLBACK else Result.APPLIED
    machine = dataclasses.replace(machine, good=machine.plan)
    return _settle(machine, result, machine.why)


def _settle(machine: Machine, result: Result, why: str) -> Step:
    """Serve, tell the outcome of a reload, and begin the next one when it was asked meanwhile."""
    if machine.settled < machine.begun:
        machine = dataclasses.replace(machine, settled=machine.begun, result=result, why=why)
    machine = dataclasses.replace(machine, phase=Phase.SERVING, purpose=Purpose.START, alarm=machine.alarm + 1)
    ready = Tell(word=Word.READY)
    if machine.asked > machine.begun:
        machine, effects = _reload(machine)
        return machine, (ready, *effects)
    return machine, (ready,)


def _reload(machine: Machine) -> Step:
    machine = dataclasses.replace(machine, purpose=Purpose.RELOAD, begun=machine.asked, why="")
    return _prepare(machine, Tell(word=Word.RELOADING))


def _refused(machine: Machine, status: ExitStatus, why: str) -> Step:
    if machine.plan is None:
        return _end(machine, status, why)
    report = Report(error=True, text=f"reload refused, the engine goes on as before: {why}")
    machine, effects = _settle(machine, Result.REFUSED, why)
    return machine, (report, *effects)


def _stop(machine: Machine, *before: Effect) -> Step:
    machine = dataclasses.replace(machine, forced=False)
    return _enter(machine, Phase.STOPPING, machine.policy.stopping, *before, Dismiss(force=False))


def _stop_for_good(machine: Machine) -> Step:
    if machine.plan is None:
        return _end(machine, ExitStatus.OK, "")
    machine = dataclasses.replace(machine, purpose=Purpose.START, following=None, status=ExitStatus.OK, why="")
    return _stop(machine, Tell(word=Word.STOPPING))


def _abandon(machine: Machine, status: ExitStatus, why: str) -> Step:
    """Stop an engine that must not serve; the last good settings follow it when this was a reload."""
    why = _whole_story(machine, why)
    if rolling := _rolled_back(machine, why):
        return _stop(dataclasses.replace(rolling, following=machine.good), Report(error=True, text=why))
    return _give_up(machine, status, why)


def _give_up(machine: Machine, status: ExitStatus, why: str) -> Step:
    """Stop the engine, or what is left of it, and end."""
    report = Report(error=True, text=why)
    machine = dataclasses.replace(machine, purpose=Purpose.START, following=None, status=status, why=why)
    return _stop(machine, report)


def _lost(machine: Machine, status: ExitStatus, why: str) -> Step:
    """Go on after an engine that left before it was ready."""
    why = _whole_story(machine, why)
    if (rolling := _rolled_back(machine, why)) and machine.good:
        rolling, effects = _launch(rolling, machine.good)
        return rolling, (Report(error=True, text=why), *effects)
    return _end(machine, status, why)


def _rolled_back(machine: Machine, why: str) -> Machine | None:
    if machine.purpose is not Purpose.RELOAD or machine.good is None or not machine.policy.rollback:
        return None
    return dataclasses.replace(machine, purpose=Purpose.ROLLBACK, why=why)


def _whole_story(machine: Machine, why: str) -> str:
    if machine.purpose is not Purpose.ROLLBACK:
        return why
    return f"{machine.why}; the last good settings do not serve any more either: {why}"


def _end(machine: Machine, status: ExitStatus, why: str) -> Step:
    phase = Phase.STOPPED if status is ExitStatus.OK else Phase.FAILED
    result = Result.FAILED if machine.settled < machine.asked else machine.result
    machine = dataclasses.replace(
        machine, phase=phase, status=status, why=why, settled=machine.asked, result=result, following=None
    )
    return machine, (Leave(status=status),)
