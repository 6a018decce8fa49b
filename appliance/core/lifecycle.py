"""The life of the service as a pure function: from a machine and an event to the next machine and effects."""

import dataclasses
from collections.abc import Callable

from appliance.core.effect import Dismiss, Effect, Examine, Launch, Leave, Prepare, Report, SetAlarm, Tell
from appliance.core.event import (
    AlarmRang,
    DriverChanged,
    EngineAnswered,
    EngineFell,
    EngineLeft,
    EngineSpoke,
    Event,
    Prepared,
    ProbeAsked,
    Refused,
    ReloadAsked,
    SelfTestFailed,
    SelfTestPassed,
    SelfTestPostponed,
    Started,
    StopAsked,
)
from appliance.core.machine import Machine
from appliance.core.phase import ExitStatus, Phase, Purpose, Result, Word
from appliance.core.plan import Plan

BUSY = 60.0
"""Seconds until an engine that was busy is asked again: one look at its counters a minute costs nothing."""


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
        case ProbeAsked() | DriverChanged() if machine.plan is not None:
            return dataclasses.replace(machine, due=True), ()
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
        case SelfTestFailed(launch=machine.launch, status=ExitStatus.GAVE_UP, why=why) if _holds(machine):
            return _hold(machine, why)
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
        case AlarmRang(alarm=machine.alarm) | ProbeAsked() | DriverChanged():
            return _examine(machine)
        case SelfTestPassed(launch=machine.launch):
            return _rest(dataclasses.replace(machine, due=False, doubted=False, wrong="", restarted=None))
        case SelfTestFailed(launch=machine.launch, status=ExitStatus.GAVE_UP, why=why) if machine.doubted:
            return _wrong(machine, why)
        case SelfTestFailed(launch=machine.launch, status=ExitStatus.GAVE_UP, why=why):
            report = Report(error=True, text=f"the model that serves answers wrongly, asking it again: {why}")
            return _examine(dataclasses.replace(machine, doubted=True), report)
        case SelfTestFailed(launch=machine.launch) | SelfTestPostponed(launch=machine.launch):
            return _enter(machine, Phase.SERVING, min(BUSY, machine.policy.repeat or BUSY))
        case _:
            return _up(machine, event)


def _holding(machine: Machine, event: Event) -> Step:
    match event:
        case ProbeAsked():
            return _examine(machine)
        case SelfTestPassed(launch=machine.launch):
            return _serve(machine)
        case SelfTestFailed(launch=machine.launch, status=status, why=why):
            wrong = why if status is ExitStatus.GAVE_UP else machine.wrong
            return dataclasses.replace(machine, due=False, wrong=wrong), (Report(error=True, text=why),)
        case _:
            return _up(machine, event)


def _up(machine: Machine, event: Event) -> Step:
    """Do what is the same for an engine that serves and one that is held."""
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
    Phase.HOLDING: _holding,
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
    unproven = machine.purpose in (Purpose.RESTART, Purpose.ROLLBACK)
    restarted = machine.restarted if unproven else None
    machine = dataclasses.replace(machine, good=machine.plan, ready=True, due=False, wrong="", restarted=restarted)
    return _go_on(machine, result, machine.why)


def _go_on(machine: Machine, result: Result, why: str) -> Step:
    """Serve, or hold, tell the outcome of a reload, and begin the next one when it was asked meanwhile."""
    if machine.settled < machine.begun:
        machine = dataclasses.replace(machine, settled=machine.begun, result=result, why=why)
    phase = Phase.SERVING if machine.ready else Phase.HOLDING
    machine = dataclasses.replace(machine, phase=phase, purpose=Purpose.START)
    said = (Tell(word=Word.READY),) if machine.ready else ()
    if machine.asked > machine.begun:
        machine, effects = _reload(machine)
    elif machine.due:
        machine, effects = _examine(machine)
    else:
        machine, effects = _rest(machine)
    return machine, (*said, *effects)


def _rest(machine: Machine) -> Step:
    """Leave the engine in peace until the next repetition; nothing ends one that is held."""
    if machine.ready and machine.policy.repeat > 0:
        return _enter(machine, machine.phase, machine.policy.repeat)
    return dataclasses.replace(machine, alarm=machine.alarm + 1), ()


def _examine(machine: Machine, *before: Effect) -> Step:
    """Ask the engine that is up: lightly while it serves, where the alarm asks anew when no verdict comes."""
    machine = dataclasses.replace(machine, due=True)
    assert machine.plan is not None
    examine = Examine(launch=machine.launch, plan=machine.plan, light=machine.ready)
    if machine.ready:
        return _enter(machine, machine.phase, machine.policy.self_test, *before, examine)
    return machine, (*before, examine)


def _wrong(machine: Machine, why: str) -> Step:
    """Act on an engine whose answers turned wrong, and were wrong again: one restart, then the end."""
    if not machine.policy.restart_wrong:
        report = Report(error=True, text=f"the model answers wrongly and goes on serving, as configured: {why}")
        machine, effects = _rest(dataclasses.replace(machine, due=False, doubted=False, wrong=why))
        return machine, (report, *effects)
    if machine.restarted is not None:
        return _give_up(machine, ExitStatus.GAVE_UP, _after_restart(machine, why))
    report = Report(error=True, text=f"the model answers wrongly, restarting its engine once: {why}")
    machine = dataclasses.replace(machine, purpose=Purpose.RESTART, following=machine.plan, restarted=why)
    return _stop(machine, report, Tell(word=Word.RELOADING))


def _holds(machine: Machine) -> bool:
    """Tell whether an engine whose answers are wrong is kept: nothing else follows it, and a person wants that."""
    first = machine.purpose in (Purpose.START, Purpose.RELOAD)
    return machine.policy.hold and first and _rolled_back(machine, "") is None


def _hold(machine: Machine, why: str) -> Step:
    machine, effects = _go_on(dataclasses.replace(machine, wrong=why), Result.FAILED, why)
    return machine, (Report(error=True, text=f"the engine is kept up for probing, not ready: {why}"), *effects)


def _reload(machine: Machine) -> Step:
    """Begin a reload; of an engine that is held systemd is still waiting to hear that it is ready."""
    said = (Tell(word=Word.RELOADING),) if machine.ready else ()
    machine = dataclasses.replace(machine, purpose=Purpose.RELOAD, begun=machine.asked, why="")
    return _prepare(machine, *said)


def _refused(machine: Machine, status: ExitStatus, why: str) -> Step:
    if machine.plan is None:
        return _end(machine, status, why)
    report = Report(error=True, text=f"reload refused, the engine goes on as before: {why}")
    machine, effects = _go_on(machine, Result.REFUSED, why)
    return machine, (report, *effects)


def _stop(machine: Machine, *before: Effect) -> Step:
    machine = dataclasses.replace(machine, forced=False, ready=False, due=False, doubted=False, wrong="")
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
    if machine.purpose is Purpose.RESTART:
        return _after_restart(machine, why)
    if machine.purpose is not Purpose.ROLLBACK:
        return why
    return f"{machine.why}; the last good settings do not serve any more either: {why}"


def _after_restart(machine: Machine, why: str) -> str:
    return f"{why}; the engine was restarted before, for its answers were wrong: {machine.restarted}"


def _end(machine: Machine, status: ExitStatus, why: str) -> Step:
    phase = Phase.STOPPED if status is ExitStatus.OK else Phase.FAILED
    result = Result.FAILED if machine.settled < machine.asked else machine.result
    machine = dataclasses.replace(
        machine, phase=phase, status=status, why=why, settled=machine.asked, result=result, following=None
    )
    return machine, (Leave(status=status),)
