"""The promises of the lifecycle, held over every state that can be reached."""

import dataclasses

import pytest

from appliance.core.effect import Dismiss, Examine, Launch, Leave, Prepare, Report, Tell
from appliance.core.event import (
    AlarmRang,
    DriverChanged,
    EngineAnswered,
    EngineFell,
    EngineLeft,
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
from appliance.core.lifecycle import step
from appliance.core.phase import ExitStatus, Phase, Purpose, Result, Word
from tests.unit.world import (
    ENDED,
    FELL,
    GOOD_START,
    LEFT,
    NEW,
    OLD,
    RING,
    STUBBORN,
    WRONG,
    after,
    folded,
    last_alarm,
    play,
    reachable,
)

LOSSES = (EngineFell, EngineLeft, EngineStalled)

NO_VERDICT = (SelfTestPostponed, SelfTestFailed)
"""What tells, or may tell, that no question was answered."""

STEPS = reachable()


def test_the_walk_reaches_every_phase_and_holds_the_promises_on_the_way() -> None:
    """READY only for an engine that passed in full, one engine at a time, one restart: tests/unit/world.py."""
    assert {world.machine.phase for world, *_ in STEPS} == set(Phase)
    assert {world.machine.purpose for world, *_ in STEPS} == set(Purpose)
    assert len({folded(world) for _, _, world, _ in STEPS}) > 1000


def test_ready_is_said_only_when_this_engine_has_passed_or_never_stopped() -> None:
    for world, event, _, effects in STEPS:
        if Tell(word=Word.READY) not in effects:
            continue
        asked = world.machine.phase in (Phase.SELF_TEST, Phase.HOLDING)
        passed = event == SelfTestPassed(launch=world.machine.launch) and asked
        untouched = world.machine.phase is Phase.CHECKING and world.told is Word.RELOADING
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
            case Phase.PAUSING:
                assert not world.alive
                assert world.armed
                assert world.machine.goes_on
            case Phase.SELF_TEST:
                assert world.full
                assert world.armed
            case Phase.HOLDING:
                assert world.alive
                assert world.full or not world.machine.due
            case Phase.SERVING:
                assert world.alive
                assert world.armed or not (world.machine.due or world.machine.policy.repeat)


def test_the_machine_knows_whether_an_engine_is_up() -> None:
    for _, _, world, _ in STEPS:
        assert world.machine.up is world.alive or world.machine.phase in ENDED


def test_an_engine_that_was_ready_is_brought_back_until_too_many_were_lost() -> None:
    for world, event, following, effects in STEPS:
        machine = world.machine
        if not (machine.ready and isinstance(event, LOSSES) and event.launch == machine.launch):
            continue
        assert machine.plan is not None
        if machine.losses < machine.policy.losses:
            assert following.machine.following is machine.plan or Launch(launch=11, plan=machine.plan) in effects
            assert following.told is Word.RELOADING
        else:
            assert not following.machine.goes_on


def test_a_reload_always_ends_in_ready_or_in_a_held_engine_or_in_the_end_of_the_service() -> None:
    for _, _, world, _ in STEPS:
        if world.machine.phase in (Phase.SERVING, Phase.HOLDING):
            assert world.machine.purpose is Purpose.START
            assert world.machine.settled == world.machine.begun == world.machine.asked
        if world.machine.phase is Phase.SERVING:
            assert world.told is Word.READY


def test_a_held_engine_is_never_called_ready_and_no_alarm_ends_it() -> None:
    for world, event, following, effects in STEPS:
        if world.machine.phase is Phase.HOLDING:
            assert world.told is not Word.READY
            assert world.machine.policy.hold
            assert world.machine.wrong
            if isinstance(event, (AlarmRang, DriverChanged)):
                assert (following.machine, effects) == (world.machine, ())


def test_a_wrong_answer_is_held_only_where_nothing_else_follows() -> None:
    for world, event, following, _ in STEPS:
        machine = world.machine
        if (machine.phase, following.machine.phase) == (Phase.SELF_TEST, Phase.HOLDING):
            assert event == SelfTestFailed(launch=machine.launch, status=ExitStatus.GAVE_UP, why="wrong")
            assert machine.purpose in (Purpose.START, Purpose.RELOAD)
            assert not (machine.purpose is Purpose.RELOAD and machine.good and machine.policy.rollback)


def test_a_question_without_a_verdict_is_never_held_against_an_engine_that_is_up() -> None:
    for world, event, following, effects in STEPS:
        told = isinstance(event, SelfTestFailed) and event.status is ExitStatus.GAVE_UP
        if world.machine.phase in (Phase.SERVING, Phase.HOLDING) and isinstance(event, NO_VERDICT) and not told:
            same = dataclasses.replace(following.machine, alarm=world.machine.alarm, due=world.machine.due)
            assert same == world.machine
            assert not any(isinstance(effect, (Dismiss, Tell, Examine)) for effect in effects)


def test_an_engine_that_serves_is_stopped_for_its_answers_only_when_the_newest_were_wrong_too() -> None:
    for world, event, following, _ in STEPS:
        if world.machine.phase is Phase.SERVING and isinstance(event, (SelfTestFailed, *NO_VERDICT)):
            if following.machine.phase is Phase.STOPPING:
                assert world.machine.doubted
                assert event == SelfTestFailed(launch=world.machine.launch, status=ExitStatus.GAVE_UP, why="wrong")
                assert world.machine.policy.restart_wrong
            else:
                assert following.machine.phase is Phase.SERVING


def test_a_probe_or_another_driver_means_nothing_while_no_engine_is_up() -> None:
    for world, event, following, effects in STEPS:
        up = world.machine.phase in (Phase.SERVING, Phase.HOLDING)
        if isinstance(event, (ProbeAsked, DriverChanged)) and not up:
            assert not effects
            if world.machine.phase is not Phase.CHECKING or world.machine.plan is None:
                assert following.machine == world.machine


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


def test_a_stop_that_comes_while_the_service_gives_up_does_not_make_its_end_a_good_one() -> None:
    machine, effects = play(*GOOD_START[:3], WRONG, StopAsked(), LEFT)
    assert (machine.phase, machine.status, machine.why) == (Phase.FAILED, ExitStatus.GAVE_UP, "wrong answer")
    assert Tell(word=Word.STOPPING) not in effects
    machine, effects = play(*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=NEW), StopAsked(), LEFT)
    assert (machine.phase, machine.status, effects[-1]) == (Phase.STOPPED, ExitStatus.OK, Leave(status=ExitStatus.OK))


def test_a_stop_is_told_and_forgets_why_a_reload_was_refused() -> None:
    refused = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="no")
    machine, effects = play(*GOOD_START, ReloadAsked(), refused, StopAsked())
    assert effects[-2:] == [Tell(word=Word.STOPPING), Dismiss(force=False)]
    assert (machine.status, machine.why) == (ExitStatus.OK, "")


@pytest.mark.parametrize("before", [(), GOOD_START[:1]])
def test_a_stop_before_there_is_an_engine_is_a_good_end_at_once(before: tuple[Event, ...]) -> None:
    machine, effects = play(*before, StopAsked())
    assert (machine.phase, machine.status, machine.result) == (Phase.STOPPED, ExitStatus.OK, None)
    assert effects[-1] == Leave(status=ExitStatus.OK)


def test_a_stop_ends_a_reload_and_a_rollback_without_their_reasons() -> None:
    loading = (*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT)
    machine, _ = play(*loading, StopAsked())
    assert (machine.phase, machine.purpose) == (Phase.STOPPING, Purpose.START)
    rolling = (*loading, EngineAnswered(launch=0), WRONG)
    _, effects = play(*rolling, StopAsked())
    assert effects[-3:] == [Report(error=True, text="wrong answer"), Dismiss(force=False), Tell(word=Word.STOPPING)]
    machine, _ = play(*rolling, StopAsked(), LEFT)
    assert (machine.phase, machine.status, machine.why) == (Phase.STOPPED, ExitStatus.OK, "")


def test_an_engine_that_does_not_stop_in_its_time_is_killed() -> None:
    _, effects = play(*GOOD_START, StopAsked(), AlarmRang(alarm=0))
    report = Report(error=True, text="the engine did not stop within 20 s; killing it")
    assert effects[-2:] == [report, Dismiss(force=True)]


def test_each_phase_gets_its_own_time() -> None:
    policy = OLD.policy
    assert last_alarm(Started()) == policy.checking
    assert last_alarm(*GOOD_START[:2]) == policy.loading
    assert last_alarm(*GOOD_START[:2], EngineSpoke(launch=0)) == policy.loading
    assert last_alarm(*GOOD_START[:3]) == policy.self_test
    assert last_alarm(*GOOD_START, StopAsked()) == policy.stopping
    assert last_alarm(*GOOD_START, StopAsked(), AlarmRang(alarm=0)) == policy.stopping


def test_a_refused_reload_leaves_the_engine_alone() -> None:
    refused = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="x.toml:1: no")
    machine, effects = play(*GOOD_START, ReloadAsked(), refused)
    assert (machine.phase, machine.result, machine.why) == (Phase.SERVING, Result.REFUSED, "x.toml:1: no")
    report = Report(error=True, text="reload refused, the engine goes on as before: x.toml:1: no")
    assert effects[4:] == [Tell(word=Word.RELOADING), Prepare(attempt=2), report, Tell(word=Word.READY)]


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


def test_without_rollback_a_reload_that_does_not_serve_is_tried_again_and_ends_the_service() -> None:
    reload = (*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=STUBBORN), LEFT)
    machine, effects = play(*reload, LEFT, AlarmRang(alarm=0))
    assert effects[-1] == Launch(launch=3, plan=STUBBORN)
    machine, _ = play(*reload, LEFT, AlarmRang(alarm=0), LEFT)
    assert (machine.phase, machine.status, machine.result) == (Phase.FAILED, ExitStatus.GAVE_UP, Result.FAILED)


def test_a_reload_asked_for_during_a_start_is_done_afterwards() -> None:
    machine, effects = play(*GOOD_START[:2], ReloadAsked(), *GOOD_START[2:])
    assert (machine.phase, machine.asked, machine.begun) == (Phase.CHECKING, 1, 1)
    assert effects[-3:] == [Tell(word=Word.READY), Tell(word=Word.RELOADING), Prepare(attempt=2)]


def test_what_does_not_die_of_a_fallen_engine_does_not_keep_the_service() -> None:
    machine, _ = play(*GOOD_START, FELL, AlarmRang(alarm=0), AlarmRang(alarm=0))
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.TRY_LATER)
    assert machine.why == "processes of the engine do not die"


def test_settings_with_which_the_engine_falls_are_rolled_back() -> None:
    again = (EngineAnswered(launch=0), SelfTestPassed(launch=0))
    machine, _ = play(*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT, FELL, LEFT, *again)
    assert (machine.phase, machine.plan, machine.result) == (Phase.SERVING, OLD, Result.ROLLED_BACK)


@pytest.mark.parametrize("before", [GOOD_START[:2], GOOD_START[:3], GOOD_START, (*GOOD_START, ReloadAsked())])
def test_what_is_left_of_a_fallen_engine_is_ended_in_every_phase(before: tuple[Event, ...]) -> None:
    machine, effects = play(*before, FELL)
    assert (machine.phase, machine.trouble) == (Phase.STOPPING, "it fell")
    assert effects[-1] == Dismiss(force=False)


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (GOOD_START[:2], "the engine printed nothing for 1800 s while loading"),
        (GOOD_START[:3], "the self-test did not end within 300 s"),
    ],
)
def test_a_phase_that_does_not_end_in_its_time_ends_the_engine(before: tuple[Event, ...], why: str) -> None:
    machine, effects = play(*before, RING)
    assert (machine.phase, machine.trouble) == (Phase.STOPPING, why)
    assert effects[-2:] == [Report(error=True, text=f"{why}; trying again"), Dismiss(force=True, stacks=True)]


def test_an_engine_that_speaks_gets_its_time_anew() -> None:
    quiet, _ = play(*GOOD_START[:2])
    spoke, _ = step(quiet, EngineSpoke(launch=quiet.launch))
    assert spoke.alarm > quiet.alarm
    assert spoke.phase is Phase.LOADING
    assert step(spoke, AlarmRang(alarm=quiet.alarm)) == (spoke, ())


def test_a_check_that_does_not_end_is_given_up_at_a_start_and_refused_at_a_reload() -> None:
    machine, _ = play(Started(), AlarmRang(alarm=0))
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.TRY_LATER)
    machine, _ = play(*GOOD_START, ReloadAsked(), AlarmRang(alarm=0))
    assert (machine.phase, machine.result) == (Phase.SERVING, Result.REFUSED)


def test_the_alarm_of_the_self_test_means_nothing_to_an_engine_that_has_passed_it() -> None:
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
    assert effects[4:] == [Tell(word=Word.RELOADING), Prepare(attempt=2), Prepare(attempt=3)]
    prepared = Prepared(attempt=0, plan=NEW)
    machine, effects = play(*GOOD_START, ReloadAsked(), ReloadAsked(), prepared)
    assert (machine.phase, effects[-1]) == (Phase.CHECKING, Prepare(attempt=3))
    machine, _ = play(*GOOD_START, ReloadAsked(), ReloadAsked(), prepared, refused)
    assert (machine.phase, machine.settled) == (Phase.SERVING, 2)


def test_the_end_settles_every_reload_that_was_asked_for() -> None:
    machine, _ = play(*GOOD_START, ReloadAsked(), ReloadAsked(), StopAsked(), LEFT)
    assert (machine.settled, machine.asked, machine.result) == (2, 2, Result.FAILED)
