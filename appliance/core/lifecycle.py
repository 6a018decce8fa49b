"""The life of the service as a pure function: from a machine and an event to the next machine and effects."""

import dataclasses
from collections.abc import Callable

from appliance.core.effect import Dismiss, Examine, Report, Tell
from appliance.core.event import (
    AlarmRang,
    DriverChanged,
    EngineAnswered,
    EngineFell,
    EngineLeft,
    EngineProved,
    EngineSpoke,
    EngineStalled,
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
from appliance.core.phase import ExitStatus, Phase, Word
from appliance.core.transition import (
    Step,
    abandon,
    busy,
    end,
    enter,
    examine,
    gone,
    hold,
    holds,
    launch,
    lose,
    prepare,
    refuse,
    reload,
    rest,
    resume,
    serve,
    stop,
    stop_for_good,
    turn_wrong,
)


def step(machine: Machine, event: Event) -> Step:
    """Return the next machine and what to do; an event that means nothing now changes nothing."""
    if isinstance(event, ReloadAsked):
        machine = dataclasses.replace(machine, asked=machine.asked + 1)
    return _PHASES[machine.phase](machine, event)


def _starting(machine: Machine, event: Event) -> Step:
    match event:
        case Started():
            return prepare(machine)
        case StopAsked():
            return end(machine, ExitStatus.OK, "")
        case _:
            return machine, ()


def _checking(machine: Machine, event: Event) -> Step:
    match event:
        case Prepared(attempt=machine.attempt) | Refused(attempt=machine.attempt) if machine.asked > machine.begun:
            return prepare(dataclasses.replace(machine, begun=machine.asked))
        case Prepared(attempt=machine.attempt, plan=plan) if machine.up:
            return stop(dataclasses.replace(machine, following=plan))
        case Prepared(attempt=machine.attempt, plan=plan):
            return launch(machine, plan)
        case Refused(attempt=machine.attempt, status=status, why=why):
            return refuse(machine, status, why)
        case AlarmRang(alarm=machine.alarm):
            return refuse(machine, ExitStatus.TRY_LATER, "the check of the machine did not end in time")
        case EngineFell() | EngineLeft() | EngineStalled() if machine.up:
            return _felled(machine, event)
        case StopAsked():
            return stop_for_good(machine)
        case ProbeAsked() | DriverChanged() if machine.up:
            return dataclasses.replace(machine, due=True), ()
        case EngineProved(launch=machine.launch):
            return dataclasses.replace(machine, losses=0), ()
        case _:
            return machine, ()


def _loading(machine: Machine, event: Event) -> Step:
    match event:
        case EngineSpoke(launch=machine.launch):
            return enter(machine, Phase.LOADING, machine.policy.loading)
        case EngineAnswered(launch=machine.launch):
            assert machine.plan is not None
            examination = Examine(launch=machine.launch, plan=machine.plan)
            return enter(machine, Phase.SELF_TEST, machine.policy.self_test, examination)
        case AlarmRang(alarm=machine.alarm):
            why = f"the engine printed nothing for {machine.policy.loading:g} s while loading"
            return abandon(machine, ExitStatus.TRY_LATER, why, stalled=True)
        case _:
            return _not_ready(machine, event)


def _self_test(machine: Machine, event: Event) -> Step:
    match event:
        case SelfTestPassed(launch=machine.launch):
            return serve(machine)
        case SelfTestFailed(launch=machine.launch, status=ExitStatus.GAVE_UP, why=why) if holds(machine):
            return hold(machine, why)
        case SelfTestFailed(launch=machine.launch, status=status, why=why):
            return abandon(machine, status, why)
        case AlarmRang(alarm=machine.alarm):
            why = f"the self-test did not end within {machine.policy.self_test:g} s"
            return abandon(machine, ExitStatus.TRY_LATER, why, stalled=True)
        case _:
            return _not_ready(machine, event)


def _not_ready(machine: Machine, event: Event) -> Step:
    match event:
        case EngineFell() | EngineLeft() | EngineStalled():
            return _felled(machine, event)
        case StopAsked():
            return stop_for_good(machine)
        case _:
            return machine, ()


def _felled(machine: Machine, event: EngineFell | EngineLeft | EngineStalled) -> Step:
    """Go on without an engine that ended by itself or got stuck: one that was ready is missed."""
    if event.launch != machine.launch:
        return machine, ()
    go_on = lose if machine.ready else abandon
    match event:
        case EngineStalled(why=why):
            return go_on(machine, ExitStatus.TRY_LATER, why, stalled=True)
        case EngineLeft(status=status, why=why):
            return go_on(dataclasses.replace(machine, up=False), status, why)
        case EngineFell(status=status, why=why):
            return go_on(machine, status, why)


def _serving(machine: Machine, event: Event) -> Step:
    match event:
        case AlarmRang(alarm=machine.alarm) | ProbeAsked() | DriverChanged():
            return examine(machine)
        case SelfTestPassed(launch=machine.launch):
            return rest(dataclasses.replace(machine, due=False, doubted=False, wrong="", restarted=None))
        case SelfTestFailed(launch=machine.launch, status=ExitStatus.GAVE_UP, why=why) if machine.doubted:
            return turn_wrong(machine, why)
        case SelfTestFailed(launch=machine.launch, status=ExitStatus.GAVE_UP, why=why):
            report = Report(error=True, text=f"the model that serves answers wrongly, asking it again: {why}")
            return examine(dataclasses.replace(machine, doubted=True), report)
        case SelfTestFailed(launch=machine.launch) | SelfTestPostponed(launch=machine.launch):
            return busy(machine)
        case EngineProved(launch=machine.launch):
            return dataclasses.replace(machine, losses=0), ()
        case _:
            return _up(machine, event)


def _holding(machine: Machine, event: Event) -> Step:
    match event:
        case ProbeAsked():
            return examine(machine)
        case EngineStalled(launch=machine.launch, why=why):
            # A person who probes it may have stopped it, as a debugger does.
            return machine, (Report(error=True, text=f"the engine that is kept for probing stands still: {why}"),)
        case SelfTestPassed(launch=machine.launch):
            return serve(machine)
        case SelfTestFailed(launch=machine.launch, status=status, why=why):
            wrong = why if status is ExitStatus.GAVE_UP else machine.wrong
            return dataclasses.replace(machine, due=False, wrong=wrong), (Report(error=True, text=why),)
        case _:
            return _up(machine, event)


def _up(machine: Machine, event: Event) -> Step:
    """Do what is the same for an engine that serves and one that is held."""
    match event:
        case ReloadAsked():
            return reload(machine)
        case EngineFell() | EngineLeft() | EngineStalled():
            return _felled(machine, event)
        case StopAsked():
            return stop_for_good(machine)
        case _:
            return machine, ()


def _stopping(machine: Machine, event: Event) -> Step:
    match event:
        case EngineLeft(launch=machine.launch):
            return gone(dataclasses.replace(machine, up=False))
        case AlarmRang(alarm=machine.alarm) if not machine.forced:
            forced = dataclasses.replace(machine, forced=True)
            text = f"the engine did not stop within {machine.policy.stopping:g} s; killing it"
            effects = (Report(error=True, text=text), Dismiss(force=True))
            return enter(forced, Phase.STOPPING, machine.policy.stopping, *effects)
        case AlarmRang(alarm=machine.alarm):
            return end(machine, ExitStatus.TRY_LATER, "processes of the engine do not die")
        case StopAsked() if machine.goes_on:
            machine = dataclasses.replace(machine, following=None, again=False, status=ExitStatus.OK, why="")
            return machine, (Tell(word=Word.STOPPING),)
        case _:
            return machine, ()


def _pausing(machine: Machine, event: Event) -> Step:
    match event:
        case AlarmRang(alarm=machine.alarm):
            return resume(machine)
        case ReloadAsked():
            return reload(machine)
        case StopAsked():
            return stop_for_good(machine)
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
    Phase.PAUSING: _pausing,
    Phase.FAILED: _ended,
    Phase.STOPPED: _ended,
}
