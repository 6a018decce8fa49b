"""What the phases of the lifecycle lead to: each function takes a machine and returns the next one and what to do."""

import dataclasses

from appliance.core.effect import Dismiss, Effect, Examine, Launch, Leave, Prepare, Report, SetAlarm, Tell
from appliance.core.machine import Machine
from appliance.core.phase import ExitStatus, Phase, Purpose, Result, Word
from appliance.core.plan import Plan

BUSY = 60.0
"""Seconds until an engine that was busy is asked again: one look at its counters a minute costs nothing."""

LONGEST_PAUSE = 300.0
"""Seconds."""

Step = tuple[Machine, tuple[Effect, ...]]


def enter(machine: Machine, phase: Phase, seconds: float, *effects: Effect) -> Step:
    """Enter a phase that may last some seconds, or begin its time anew."""
    machine = dataclasses.replace(machine, phase=phase, alarm=machine.alarm + 1)
    return machine, (SetAlarm(alarm=machine.alarm, seconds=seconds), *effects)


def prepare(machine: Machine, *before: Effect) -> Step:
    """Read the file and look at the machine."""
    machine = dataclasses.replace(machine, attempt=machine.attempt + 1, again=False)
    return enter(machine, Phase.CHECKING, machine.policy.checking, *before, Prepare(attempt=machine.attempt))


def launch(machine: Machine, plan: Plan) -> Step:
    """Start an engine."""
    machine = dataclasses.replace(machine, plan=plan, following=None, forced=False, up=True, launch=machine.launch + 1)
    return enter(machine, Phase.LOADING, plan.policy.loading, Launch(launch=machine.launch, plan=plan))


def serve(machine: Machine) -> Step:
    """Call an engine ready that has passed its self-test."""
    result = Result.ROLLED_BACK if machine.purpose is Purpose.ROLLBACK else Result.APPLIED
    unproven = machine.purpose in (Purpose.RESTART, Purpose.ROLLBACK)
    restarted = machine.restarted if unproven else None
    machine = dataclasses.replace(
        machine, good=machine.plan, ready=True, due=False, wrong="", restarted=restarted, failures=0, trouble=""
    )
    return _go_on(machine, result, machine.why)


def _go_on(machine: Machine, result: Result, why: str) -> Step:
    """Serve, or hold, tell the outcome of a reload, and begin the next one when it was asked meanwhile."""
    if machine.settled < machine.begun:
        machine = dataclasses.replace(machine, settled=machine.begun, result=result, why=why)
    phase = Phase.SERVING if machine.ready else Phase.HOLDING
    machine = dataclasses.replace(machine, phase=phase, purpose=Purpose.START)
    said = (Tell(word=Word.READY),) if machine.ready else ()
    if machine.asked > machine.begun:
        machine, effects = reload(machine)
    elif machine.due:
        machine, effects = examine(machine)
    else:
        machine, effects = rest(machine)
    return machine, (*said, *effects)


def rest(machine: Machine) -> Step:
    """Leave the engine in peace until the next repetition; nothing ends one that is held."""
    if machine.ready and machine.policy.repeat > 0:
        return enter(machine, machine.phase, machine.policy.repeat)
    return dataclasses.replace(machine, alarm=machine.alarm + 1), ()


def busy(machine: Machine) -> Step:
    """Ask an engine that serves later."""
    return enter(machine, Phase.SERVING, min(BUSY, machine.policy.repeat or BUSY))


def examine(machine: Machine, *before: Effect) -> Step:
    """Ask the engine that is up: lightly while it serves, where the alarm asks anew when no verdict comes."""
    machine = dataclasses.replace(machine, due=True)
    assert machine.plan is not None
    effect = Examine(launch=machine.launch, plan=machine.plan, light=machine.ready)
    if machine.ready:
        return enter(machine, machine.phase, machine.policy.self_test, *before, effect)
    return machine, (*before, effect)


def turn_wrong(machine: Machine, why: str) -> Step:
    """Act on an engine whose answers turned wrong, and were wrong again: one restart, then the end."""
    if not machine.policy.restart_wrong:
        report = Report(error=True, text=f"the model answers wrongly and goes on serving, as configured: {why}")
        machine, effects = rest(dataclasses.replace(machine, due=False, doubted=False, wrong=why))
        return machine, (report, *effects)
    if machine.restarted is not None:
        return _give_up(machine, ExitStatus.GAVE_UP, _after_restart(machine, why))
    report = Report(error=True, text=f"the model answers wrongly, restarting its engine once: {why}")
    machine = dataclasses.replace(machine, purpose=Purpose.RESTART, following=machine.plan, restarted=why)
    return stop(machine, report, Tell(word=Word.RELOADING))


def holds(machine: Machine) -> bool:
    """Tell whether an engine whose answers are wrong is kept: nothing else follows it, and a person wants that."""
    first = machine.purpose in (Purpose.START, Purpose.RELOAD)
    return machine.policy.hold and first and _rolled_back(machine, "") is None


def hold(machine: Machine, why: str) -> Step:
    """Keep an engine that is wrong for a person to probe."""
    machine, effects = _go_on(dataclasses.replace(machine, wrong=why), Result.FAILED, why)
    return machine, (Report(error=True, text=f"the engine is kept up for probing, not ready: {why}"), *effects)


def reload(machine: Machine) -> Step:
    """Begin a reload; unless the engine was ready, systemd is still waiting to hear that it is."""
    said = (Tell(word=Word.RELOADING),) if machine.ready else ()
    machine = dataclasses.replace(
        machine, purpose=Purpose.RELOAD, begun=machine.asked, why="", following=None, again=False, pause=0.0
    )
    machine = dataclasses.replace(machine, failures=0, losses=0)  # a person means to begin anew
    return prepare(machine, *said)


def refuse(machine: Machine, status: ExitStatus, why: str) -> Step:
    """Go on as before a check that failed: with the engine that is up, else with the last good settings."""
    if not machine.up and machine.good is None:
        return end(machine, status, why)
    report = Report(error=True, text=f"reload refused, the engine goes on as before: {why}")
    if machine.up:
        machine, effects = _go_on(machine, Result.REFUSED, why)
        return machine, (report, *effects)
    assert machine.good is not None
    refused = dataclasses.replace(
        machine, purpose=Purpose.RESTART, settled=machine.begun, result=Result.REFUSED, why=why
    )
    machine, effects = launch(refused, machine.good)
    return machine, (report, *effects)


def stop(machine: Machine, *before: Effect, stalled: bool = False) -> Step:
    """Ask the engine to end, at once where it got stuck: then its stacks are worth more than its manners."""
    machine = dataclasses.replace(machine, forced=False, ready=False, due=False, doubted=False, wrong="")
    if not machine.up:
        machine, effects = gone(machine)
        return machine, (*before, *effects)
    dismiss = Dismiss(force=stalled, stacks=stalled)
    return enter(machine, Phase.STOPPING, machine.policy.stopping, *before, dismiss)


def gone(machine: Machine) -> Step:
    """Go on where no engine is up any more."""
    if not machine.goes_on:
        return end(machine, machine.status, machine.why)
    if machine.pause > 0:
        return enter(machine, Phase.PAUSING, machine.pause)
    return resume(machine)


def resume(machine: Machine) -> Step:
    """Bring up what was decided to follow."""
    machine = dataclasses.replace(machine, pause=0.0)
    return launch(machine, machine.following) if machine.following else prepare(machine)


def stop_for_good(machine: Machine) -> Step:
    """Obey a person, or systemd."""
    if machine.plan is None:
        return end(machine, ExitStatus.OK, "")
    machine = dataclasses.replace(
        machine, purpose=Purpose.START, following=None, again=False, status=ExitStatus.OK, why=""
    )
    return stop(machine, Tell(word=Word.STOPPING))


def lose(machine: Machine, status: ExitStatus, why: str, *, stalled: bool = False) -> Step:
    """Bring an engine back that was ready and is lost; a reload that was in preparation begins anew after it."""
    del status  # what was ready once may be again
    machine = dataclasses.replace(machine, losses=machine.losses + 1, trouble=why, begun=machine.settled)
    told = () if machine.phase is Phase.CHECKING else (Tell(word=Word.RELOADING),)
    if machine.losses > machine.policy.losses:
        story = f"{why}; {machine.losses} engines in a row were ready and got lost"
        return _give_up(machine, ExitStatus.GAVE_UP, story, stalled=stalled)
    report = Report(error=True, text=f"the engine is lost, starting it again: {why}")
    pause = _pause(machine, machine.losses - 1)
    machine = dataclasses.replace(machine, purpose=Purpose.RESTART, following=machine.plan, pause=pause)
    return stop(machine, report, *told, stalled=stalled)


def _pause(machine: Machine, before: int) -> float:
    """Return the seconds to the next launch: none the first time, then twice as long each time."""
    return min(machine.policy.pause * 2 ** (before - 1), LONGEST_PAUSE) if before else 0.0


def abandon(machine: Machine, status: ExitStatus, why: str, *, stalled: bool = False) -> Step:
    """Stop an engine that must not serve. Its last good settings follow a reload; else it is tried again, at times."""
    story = _whole_story(machine, why)
    if rolling := _rolled_back(machine, story):
        rolling = dataclasses.replace(rolling, following=machine.good, failures=0, trouble=story)
        return stop(rolling, Report(error=True, text=story), stalled=stalled)
    machine = dataclasses.replace(machine, failures=machine.failures + 1, trouble=story)
    if status is not ExitStatus.TRY_LATER:
        return _give_up(machine, status, story, stalled=stalled)
    if machine.failures >= machine.policy.tries:
        told = f"{story}; none of {machine.failures} launches became ready" if machine.failures > 1 else story
        return _give_up(machine, ExitStatus.GAVE_UP, told, stalled=stalled)
    anew = machine.good is None
    machine = dataclasses.replace(
        machine, again=anew, following=None if anew else machine.plan, pause=_pause(machine, machine.failures)
    )
    return stop(machine, Report(error=True, text=f"{story}; trying again"), stalled=stalled)


def _give_up(machine: Machine, status: ExitStatus, why: str, *, stalled: bool = False) -> Step:
    """Stop the engine, or what is left of it, and end."""
    report = Report(error=True, text=why)
    machine = dataclasses.replace(machine, purpose=Purpose.START, following=None, again=False, status=status, why=why)
    return stop(machine, report, stalled=stalled)


def _rolled_back(machine: Machine, why: str) -> Machine | None:
    if machine.purpose is not Purpose.RELOAD or machine.good is None or not machine.policy.rollback:
        return None
    return dataclasses.replace(machine, purpose=Purpose.ROLLBACK, why=why)


def _whole_story(machine: Machine, why: str) -> str:
    if machine.purpose is Purpose.RESTART and machine.restarted is not None:
        return _after_restart(machine, why)
    if machine.purpose is not Purpose.ROLLBACK:
        return why
    return f"{machine.why}; the last good settings do not serve any more either: {why}"


def _after_restart(machine: Machine, why: str) -> str:
    return f"{why}; the engine was restarted before, for its answers were wrong: {machine.restarted}"


def end(machine: Machine, status: ExitStatus, why: str) -> Step:
    """End the service."""
    phase = Phase.STOPPED if status is ExitStatus.OK else Phase.FAILED
    result = Result.FAILED if machine.settled < machine.asked else machine.result
    machine = dataclasses.replace(
        machine, phase=phase, status=status, why=why, settled=machine.asked, result=result, following=None, again=False
    )
    return machine, (Leave(status=status),)
