"""The promises of the lifecycle, held over every state that can be reached."""

import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

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
from appliance.core.lifecycle import Machine, step
from appliance.core.phase import ExitStatus, Phase, Result, Word
from tests.unit.example import plan

OLD, NEW = plan("old"), plan("new")
STUBBORN = plan("stubborn", rollback=False)

ENDED = (Phase.FAILED, Phase.STOPPED)


@dataclasses.dataclass(frozen=True)
class World:
    """A machine and what its effects have made of the world."""

    machine: Machine
    alive: bool = False
    """An engine's processes exist."""
    preparing: bool = False
    examining: bool = False
    told: Word | None = None
    """The last of READY and RELOADING that systemd heard."""
    armed: bool = False
    """An alarm with the newest number is set."""


def events_in(world: World) -> Iterator[Event]:
    """Yield what can happen next, and late answers to questions of the past."""
    machine = world.machine
    yield from (StopAsked(), AlarmRang(alarm=machine.alarm - 1))
    if machine.asked - machine.settled < 3:
        yield ReloadAsked()
    if machine.phase is Phase.STARTING:
        yield Started()
    if world.armed:
        yield AlarmRang(alarm=machine.alarm)
    for attempt in (machine.attempt - 1, *((machine.attempt,) if world.preparing else ())):
        yield from (Prepared(attempt=attempt, plan=new) for new in (OLD, NEW, STUBBORN))
        yield Refused(attempt=attempt, status=ExitStatus.CONFIGURATION, why="refused")
    for launch in (machine.launch - 1, *((machine.launch,) if world.alive else ())):
        yield from (EngineSpoke(launch=launch), EngineAnswered(launch=launch))
        yield EngineFell(launch=launch, status=ExitStatus.TRY_LATER, why="fell")
        yield EngineLeft(launch=launch, status=ExitStatus.TRY_LATER, why="left")
    for launch in (machine.launch - 1, *((machine.launch,) if world.examining else ())):
        yield SelfTestPassed(launch=launch)
        yield SelfTestFailed(launch=launch, status=ExitStatus.GAVE_UP, why="wrong")


def happened(world: World, event: Event) -> World:
    """Return the world after an event itself, before the machine answers."""
    match event:
        case EngineLeft(launch=world.machine.launch):
            return dataclasses.replace(world, alive=False, examining=False)
        case Prepared(attempt=world.machine.attempt) | Refused(attempt=world.machine.attempt):
            return dataclasses.replace(world, preparing=False)
        case SelfTestPassed(launch=world.machine.launch) | SelfTestFailed(launch=world.machine.launch):
            return dataclasses.replace(world, examining=False)
        case _:
            return world


def done(world: World, effect: Effect) -> World:
    """Return the world after an effect; hold the promises on the way."""
    match effect:
        case Launch():
            assert not world.alive, "two engines on the same GPUs"
            return dataclasses.replace(world, alive=True)
        case Prepare():
            return dataclasses.replace(world, preparing=True)
        case Examine():
            assert world.alive
            return dataclasses.replace(world, examining=True)
        case Tell(word=Word.READY):
            assert world.alive, "READY without an engine"
            assert world.told is not Word.READY, "READY said twice"
            return dataclasses.replace(world, told=Word.READY)
        case Tell(word=Word.RELOADING):
            assert world.told is Word.READY
            return dataclasses.replace(world, told=Word.RELOADING)
        case SetAlarm(alarm=alarm):
            assert alarm == world.machine.alarm
            return dataclasses.replace(world, armed=True)
        case _:
            return world


def after(world: World, event: Event) -> tuple[World, tuple[Effect, ...]]:
    machine, effects = step(world.machine, event)
    world = dataclasses.replace(
        happened(world, event), machine=machine, armed=world.armed and machine.alarm == world.machine.alarm
    )
    for effect in effects:
        world = done(world, effect)
    return world, effects


def folded(world: World) -> World:
    """Return the same world with small numbers, so that finitely many are reached."""
    machine = world.machine
    small = dataclasses.replace(
        machine,
        attempt=10,
        launch=10,
        alarm=10,
        asked=machine.asked - machine.settled,
        begun=machine.begun - machine.settled,
        settled=0,
        why=machine.why[:0],
    )
    return dataclasses.replace(world, machine=small)


def reachable() -> tuple[tuple[World, Event, World, tuple[Effect, ...]], ...]:
    start = folded(World(Machine()))
    seen, queue, steps = {start}, deque([start]), []
    while queue:
        world = queue.popleft()
        for event in events_in(world):
            following, effects = after(world, event)
            steps.append((world, event, following, effects))
            if (small := folded(following)) not in seen:
                seen.add(small)
                queue.append(small)
    return tuple(steps)


STEPS = reachable()


def test_the_walk_reaches_every_phase() -> None:
    assert {world.machine.phase for world, *_ in STEPS} == set(Phase)
    assert len({world for world, *_ in STEPS}) > 100


def test_ready_is_said_only_when_this_engine_has_passed_or_never_stopped() -> None:
    for world, event, _, effects in STEPS:
        if Tell(word=Word.READY) not in effects:
            continue
        passed = event == SelfTestPassed(launch=world.machine.launch) and world.machine.phase is Phase.SELF_TEST
        untouched = world.machine.phase is Phase.CHECKING and world.machine.plan is world.machine.good
        assert passed or untouched, f"{event} made {world.machine.phase} ready"


def test_every_launch_passes_its_self_test_before_it_is_good() -> None:
    for world, event, following, _ in STEPS:
        if following.machine.good is not world.machine.good:
            assert event == SelfTestPassed(launch=world.machine.launch)


def test_late_answers_change_nothing() -> None:
    for world, event, following, effects in STEPS:
        number = getattr(event, "launch", None) or getattr(event, "attempt", None) or getattr(event, "alarm", None)
        if number == 9:
            assert (following.machine, effects) == (world.machine, ())


def test_the_supervisor_leaves_no_engine_behind_save_one_that_does_not_die() -> None:
    for world, event, following, effects in STEPS:
        if any(isinstance(effect, Leave) for effect in effects):
            assert following.machine.phase in ENDED
            undying = world.machine.forced and isinstance(event, AlarmRang)
            assert not following.alive or undying


def test_something_is_always_waited_for() -> None:
    for _, _, world, _ in STEPS:
        match world.machine.phase:
            case Phase.CHECKING:
                assert world.preparing
                assert world.armed
            case Phase.LOADING | Phase.STOPPING:
                assert world.alive
                assert world.armed
            case Phase.SELF_TEST:
                assert world.examining
                assert world.armed
            case Phase.SERVING:
                assert world.alive


def test_a_reload_always_ends_in_ready_or_in_the_end_of_the_service() -> None:
    for _, _, world, _ in STEPS:
        if world.machine.phase is Phase.SERVING:
            assert world.told is Word.READY
            assert world.machine.settled == world.machine.begun == world.machine.asked


def test_a_stop_always_ends() -> None:
    """From everywhere, SIGTERM and patience alone lead to the end, with status 0 when the engine obeys."""
    for start in {folded(world) for _, _, world, _ in STEPS if world.machine.phase not in ENDED}:
        world, _ = after(start, StopAsked())
        if world.machine.phase not in ENDED:
            obeyed, _ = after(world, EngineLeft(launch=world.machine.launch, status=ExitStatus.TRY_LATER, why=""))
            assert obeyed.machine.phase in ENDED
        rings = 0
        while world.machine.phase not in ENDED:
            world, _ = after(world, AlarmRang(alarm=world.machine.alarm))
            rings += 1
            assert rings <= 3


def test_an_engine_is_killed_only_after_it_was_asked() -> None:
    for world, _, _, effects in STEPS:
        if Dismiss(force=True) in effects:
            assert world.machine.phase is Phase.STOPPING


def _numbered(event: Event, machine: Machine) -> Event:
    numbers: dict[str, Any] = {"attempt": machine.attempt, "launch": machine.launch, "alarm": machine.alarm}
    own = {name: value for name, value in numbers.items() if hasattr(event, name)}
    return dataclasses.replace(event, **own)


def play(*events: Event) -> tuple[Machine, list[Effect]]:
    """Run events in turn; an answer with number 0 gets the number that is awaited."""
    machine = Machine()
    effects: list[Effect] = []
    for event in events:
        machine, more = step(machine, _numbered(event, machine))
        effects += [effect for effect in more if not isinstance(effect, SetAlarm)]
    return machine, effects


GOOD_START = (
    Started(),
    Prepared(attempt=0, plan=OLD),
    EngineAnswered(launch=0),
    SelfTestPassed(launch=0),
)
LEFT = EngineLeft(launch=0, status=ExitStatus.TRY_LATER, why="it died")
WRONG = SelfTestFailed(launch=0, status=ExitStatus.GAVE_UP, why="wrong answer")


def test_a_start_becomes_ready_after_the_self_test() -> None:
    machine, effects = play(*GOOD_START)
    assert machine.phase is Phase.SERVING
    assert effects == [
        Prepare(attempt=1),
        Launch(launch=1, plan=OLD),
        Examine(launch=1, plan=OLD),
        Tell(word=Word.READY),
    ]


def test_a_wrong_model_is_stopped_and_the_service_gives_up() -> None:
    machine, effects = play(*GOOD_START[:3], WRONG, LEFT)
    assert (machine.phase, machine.status, machine.why) == (Phase.FAILED, ExitStatus.GAVE_UP, "wrong answer")
    assert effects[3:] == [
        Report(error=True, text="wrong answer"),
        Dismiss(force=False),
        Leave(status=ExitStatus.GAVE_UP),
    ]


def test_a_refused_reload_leaves_the_engine_alone() -> None:
    refused = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="x.toml:1: no")
    machine, effects = play(*GOOD_START, ReloadAsked(), refused)
    assert (machine.phase, machine.result, machine.why) == (Phase.SERVING, Result.REFUSED, "x.toml:1: no")
    assert [type(effect) for effect in effects[4:]] == [Tell, Prepare, Report, Tell]


def test_a_reload_stops_the_old_engine_before_it_starts_the_new_one() -> None:
    reload = (ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT, EngineAnswered(launch=0), SelfTestPassed(launch=0))
    machine, effects = play(*GOOD_START, *reload)
    assert (machine.phase, machine.plan, machine.result) == (Phase.SERVING, NEW, Result.APPLIED)
    assert effects[4:] == [
        Tell(word=Word.RELOADING),
        Prepare(attempt=2),
        Dismiss(force=False),
        Launch(launch=2, plan=NEW),
        Examine(launch=2, plan=NEW),
        Tell(word=Word.READY),
    ]


@pytest.mark.parametrize("failure", [(EngineAnswered(launch=0), WRONG, LEFT), (LEFT,)])
def test_settings_that_do_not_serve_are_rolled_back(failure: tuple[Event, ...]) -> None:
    again = (EngineAnswered(launch=0), SelfTestPassed(launch=0))
    machine, effects = play(*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT, *failure, *again)
    assert (machine.phase, machine.plan, machine.result) == (Phase.SERVING, OLD, Result.ROLLED_BACK)
    assert machine.why in ("wrong answer", "it died")
    assert effects[-1] == Tell(word=Word.READY)


def test_without_rollback_a_reload_that_does_not_serve_ends_the_service() -> None:
    machine, _ = play(*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=STUBBORN), LEFT, LEFT)
    assert (machine.phase, machine.status, machine.result) == (Phase.FAILED, ExitStatus.TRY_LATER, Result.FAILED)


def test_a_reload_asked_for_during_a_start_is_done_afterwards() -> None:
    machine, effects = play(*GOOD_START[:2], ReloadAsked(), *GOOD_START[2:])
    assert (machine.phase, machine.asked, machine.begun) == (Phase.CHECKING, 1, 1)
    assert effects[-3:] == [Tell(word=Word.READY), Tell(word=Word.RELOADING), Prepare(attempt=2)]


def test_an_engine_that_dies_while_serving_ends_the_service_so_that_systemd_restarts_it() -> None:
    machine, effects = play(*GOOD_START, LEFT)
    assert (machine.status, machine.why) == (ExitStatus.TRY_LATER, "it died")
    assert effects[-1] == Leave(status=ExitStatus.TRY_LATER)


FELL = EngineFell(launch=0, status=ExitStatus.TRY_LATER, why="it fell")


def test_an_engine_that_falls_while_serving_is_swept_and_ends_the_service_with_its_reason() -> None:
    machine, effects = play(*GOOD_START, FELL)
    assert (machine.phase, effects[-1]) == (Phase.STOPPING, Dismiss(force=False))
    machine, effects = play(*GOOD_START, FELL, LEFT)
    assert (machine.phase, machine.status, machine.why) == (Phase.FAILED, ExitStatus.TRY_LATER, "it fell")


def test_what_does_not_die_of_a_fallen_engine_does_not_keep_the_service() -> None:
    machine, _ = play(*GOOD_START, FELL, AlarmRang(alarm=0), AlarmRang(alarm=0))
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.TRY_LATER)
    assert machine.why == "processes of the engine do not die"


def test_settings_with_which_the_engine_falls_are_rolled_back() -> None:
    again = (EngineAnswered(launch=0), SelfTestPassed(launch=0))
    machine, _ = play(*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT, FELL, LEFT, *again)
    assert (machine.phase, machine.plan, machine.result) == (Phase.SERVING, OLD, Result.ROLLED_BACK)


def test_an_engine_that_speaks_gets_its_time_anew() -> None:
    quiet, _ = play(*GOOD_START[:2])
    spoke, _ = step(quiet, EngineSpoke(launch=quiet.launch))
    assert spoke.alarm > quiet.alarm
    assert step(spoke, AlarmRang(alarm=quiet.alarm)) == (spoke, ())


def test_a_check_that_does_not_end_is_given_up_at_a_start_and_refused_at_a_reload() -> None:
    machine, _ = play(Started(), AlarmRang(alarm=0))
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.TRY_LATER)
    machine, _ = play(*GOOD_START, ReloadAsked(), AlarmRang(alarm=0))
    assert (machine.phase, machine.result) == (Phase.SERVING, Result.REFUSED)


def test_while_serving_no_alarm_is_pending() -> None:
    machine, _ = play(*GOOD_START[:3])
    serving, _ = step(machine, SelfTestPassed(launch=machine.launch))
    assert step(serving, AlarmRang(alarm=machine.alarm)) == (serving, ())


def test_a_good_reload_forgets_why_the_last_one_failed() -> None:
    refused = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="no")
    reload = (ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT, EngineAnswered(launch=0), SelfTestPassed(launch=0))
    machine, _ = play(*GOOD_START, ReloadAsked(), refused, *reload)
    assert (machine.result, machine.why) == (Result.APPLIED, "")


def test_a_refusal_of_a_file_that_was_edited_again_meanwhile_does_not_count() -> None:
    refused = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="no")
    machine, effects = play(*GOOD_START, ReloadAsked(), ReloadAsked(), refused)
    assert (machine.phase, effects[-1]) == (Phase.CHECKING, Prepare(attempt=3))


def test_the_end_settles_every_reload_that_was_asked_for() -> None:
    machine, _ = play(*GOOD_START, ReloadAsked(), ReloadAsked(), StopAsked(), LEFT)
    assert (machine.settled, machine.asked, machine.result) == (2, 2, Result.FAILED)


def test_a_failed_rollback_tells_both_reasons() -> None:
    machine, _ = play(*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT, LEFT, LEFT)
    assert machine.why == "it died; the last good settings do not serve any more either: it died"
