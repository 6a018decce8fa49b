"""What becomes of a model that is wrong: held for probing, asked again while it serves, restarted once."""

import dataclasses
from typing import Any

import pytest

from appliance.core.effect import Dismiss, Effect, Examine, Launch, Leave, Prepare, Report, Tell
from appliance.core.event import (
    AlarmRang,
    DriverChanged,
    EngineAnswered,
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
from appliance.core.machine import Machine
from appliance.core.phase import ExitStatus, Phase, Result, Word
from appliance.core.plan import Plan
from appliance.core.transition import BUSY
from tests.unit.world import LEFT, NEW, OLD, STUBBORN, WRONG, last_alarm, planned, play

HOLD = planned("hold", hold=True)
WARN = planned("warn", restart_wrong=False)
RING = AlarmRang(alarm=0)
ANSWERED = EngineAnswered(launch=0)
PASSED = SelfTestPassed(launch=0)
POSTPONED = SelfTestPostponed(launch=0)
UNTOLD = SelfTestFailed(launch=0, status=ExitStatus.TRY_LATER, why="no reply")
REFUSED = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="x.toml:1: no")
SIGUSR1 = ProbeAsked()


def started(plan: Plan) -> tuple[Event, ...]:
    return (Started(), Prepared(attempt=0, plan=plan), ANSWERED)


def reloaded(plan: Plan) -> tuple[Event, ...]:
    return (ReloadAsked(), Prepared(attempt=0, plan=plan), LEFT, ANSWERED)


def kinds(effects: list[Effect]) -> list[type[Any]]:
    return [type(effect) for effect in effects]


HELD = (*started(HOLD), WRONG)


def test_a_wrong_model_is_held_where_a_person_wants_that() -> None:
    machine, effects = play(*HELD)
    assert (machine.phase, machine.wrong, machine.why) == (Phase.HOLDING, "wrong answer", "")
    assert effects[3:] == [Report(error=True, text="the engine is kept up for probing, not ready: wrong answer")]
    assert last_alarm(*HELD) is None


def test_a_self_test_without_a_verdict_is_not_held() -> None:
    machine, _ = play(*started(HOLD), UNTOLD, LEFT)
    assert (machine.phase, machine.trouble) == (Phase.PAUSING, "no reply")


def test_a_held_engine_becomes_ready_by_a_full_self_test_that_it_passes() -> None:
    machine, effects = play(*HELD, SIGUSR1)
    assert effects[-1] == Examine(launch=1, plan=HOLD, light=False)
    assert machine.due
    machine, effects = play(*HELD, SIGUSR1, PASSED)
    assert (machine.phase, machine.wrong, machine.good, machine.due) == (Phase.SERVING, "", HOLD, False)
    assert effects[-1] == Tell(word=Word.READY)
    assert last_alarm(*HELD, SIGUSR1, PASSED) == HOLD.policy.repeat


def test_a_held_engine_that_is_wrong_again_is_held_on_with_the_newest_reason() -> None:
    worse = dataclasses.replace(WRONG, why="worse")
    machine, effects = play(*HELD, SIGUSR1, worse)
    assert (machine.phase, machine.wrong, machine.due) == (Phase.HOLDING, "worse", False)
    assert effects[-1] == Report(error=True, text="worse")
    machine, effects = play(*HELD, SIGUSR1, UNTOLD)
    assert (machine.phase, machine.wrong, effects[-1]) == (
        Phase.HOLDING,
        "wrong answer",
        Report(error=True, text="no reply"),
    )


def test_a_held_engine_is_replaced_by_that_of_the_mended_file_without_a_word_of_reloading() -> None:
    machine, effects = play(*HELD, *reloaded(NEW), PASSED)
    assert (machine.phase, machine.plan, machine.result) == (Phase.SERVING, NEW, Result.APPLIED)
    assert kinds(effects[4:]) == [Prepare, Dismiss, Launch, Examine, Tell]
    assert effects[-1] == Tell(word=Word.READY)


def test_a_file_that_is_refused_leaves_a_held_engine_held() -> None:
    machine, effects = play(*HELD, ReloadAsked(), REFUSED)
    assert (machine.phase, machine.result, machine.why) == (Phase.HOLDING, Result.REFUSED, "x.toml:1: no")
    assert machine.wrong == "wrong answer"
    assert kinds(effects[4:]) == [Prepare, Report]


def test_a_probe_asked_for_while_a_reload_is_checked_is_made_when_that_is_refused() -> None:
    for events in ((SIGUSR1, ReloadAsked()), (ReloadAsked(), SIGUSR1)):
        _, effects = play(*HELD, *events, REFUSED)
        assert effects[-1] == Examine(launch=1, plan=HOLD, light=False)


def test_a_verdict_that_comes_while_a_reload_is_checked_makes_no_held_engine_ready() -> None:
    machine, effects = play(*HELD, SIGUSR1, ReloadAsked(), PASSED, REFUSED)
    assert machine.phase is Phase.HOLDING
    assert effects[-1] == Examine(launch=1, plan=HOLD, light=False)


def test_a_reload_whose_engine_is_wrong_is_rolled_back_before_it_is_held() -> None:
    machine, _ = play(*started(HOLD), PASSED, *reloaded(NEW), WRONG, LEFT, ANSWERED, PASSED)
    assert (machine.phase, machine.plan, machine.result) == (Phase.SERVING, HOLD, Result.ROLLED_BACK)
    machine, _ = play(*started(HOLD), PASSED, *reloaded(NEW), WRONG, LEFT, ANSWERED, WRONG, LEFT)
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.GAVE_UP)


def test_a_reload_with_nothing_to_go_back_to_is_held_and_its_outcome_told() -> None:
    machine, effects = play(*started(OLD), PASSED, *reloaded(STUBBORN), WRONG)
    assert (machine.phase, machine.result, machine.why) == (Phase.HOLDING, Result.FAILED, "wrong answer")
    assert machine.settled == machine.asked == 1
    assert [effect for effect in effects if isinstance(effect, Tell)][-1] == Tell(word=Word.RELOADING)
    machine, effects = play(*started(OLD), PASSED, RING, *reloaded(STUBBORN), WRONG)
    assert (machine.due, type(effects[-1])) == (False, Report), "what was asked of the old engine is not of the new"
    machine, _ = play(*HELD, *reloaded(NEW), WRONG)
    assert (machine.phase, machine.plan, machine.result) == (Phase.HOLDING, NEW, Result.FAILED)


def test_a_reload_asked_for_during_a_self_test_that_turns_out_wrong_is_begun_at_once() -> None:
    machine, effects = play(*started(HOLD), ReloadAsked(), WRONG)
    assert (machine.phase, effects[-1]) == (Phase.CHECKING, Prepare(attempt=2))


def test_a_held_engine_can_be_stopped_and_another_is_tried_when_it_dies() -> None:
    machine, _ = play(*HELD, StopAsked(), LEFT)
    assert (machine.phase, machine.wrong) == (Phase.STOPPED, "")
    machine, _ = play(*HELD, LEFT)
    assert (machine.phase, machine.failures, machine.trouble) == (Phase.PAUSING, 1, "it died")


SERVING = (*started(OLD), PASSED)


def test_an_engine_that_serves_is_asked_lightly_after_a_while_and_again_after_each_pass() -> None:
    assert last_alarm(*SERVING) == OLD.policy.repeat
    machine, effects = play(*SERVING, RING)
    assert (machine.phase, effects[-1]) == (Phase.SERVING, Examine(launch=1, plan=OLD, light=True))
    assert last_alarm(*SERVING, RING, PASSED) == OLD.policy.repeat
    machine, effects = play(*SERVING, RING, PASSED)
    assert not machine.due
    assert effects[-1] == Examine(launch=1, plan=OLD, light=True), "a passed repetition is not worth a word"


def test_an_examination_of_which_nothing_is_heard_is_begun_anew() -> None:
    assert last_alarm(*SERVING, RING) == OLD.policy.self_test
    _, effects = play(*SERVING, RING, RING)
    assert effects[-2:] == [Examine(launch=1, plan=OLD, light=True)] * 2


def test_nothing_is_repeated_where_a_person_wants_no_repetition() -> None:
    never = started(planned("never", repeat=0.0))
    assert last_alarm(*never, PASSED) is None
    assert last_alarm(*never, PASSED, SIGUSR1, PASSED) is None
    machine, _ = play(*never, PASSED, SIGUSR1, PASSED)
    before, _ = play(*never, PASSED, SIGUSR1)
    assert machine.alarm != before.alarm, "the alarm of the examination must not ring"


@pytest.mark.parametrize("untold", [POSTPONED, UNTOLD])
def test_a_busy_engine_is_asked_again_soon_and_that_is_no_strike(untold: Event) -> None:
    assert last_alarm(*SERVING, RING, untold) == BUSY
    machine, effects = play(*SERVING, RING, untold, RING)
    assert (machine.doubted, effects[-1]) == (False, Examine(launch=1, plan=OLD, light=True))
    often = planned("often", repeat=5.0)
    assert last_alarm(*started(often), PASSED, RING, untold) == 5.0
    never = planned("never", repeat=0.0)
    assert last_alarm(*started(never), PASSED, SIGUSR1, untold) == BUSY


@pytest.mark.parametrize("event", [SIGUSR1, DriverChanged()])
def test_a_probe_and_another_driver_have_the_engine_examined_at_once(event: Event) -> None:
    _, effects = play(*SERVING, event)
    assert effects[-1] == Examine(launch=1, plan=OLD, light=True)
    machine, effects = play(*SERVING, ReloadAsked(), event, REFUSED)
    assert (machine.phase, effects[-1]) == (Phase.SERVING, Examine(launch=1, plan=OLD, light=True))


def test_a_wrong_answer_is_asked_for_again_at_once() -> None:
    machine, effects = play(*SERVING, RING, WRONG)
    assert (machine.phase, machine.doubted) == (Phase.SERVING, True)
    report = Report(error=True, text="the model that serves answers wrongly, asking it again: wrong answer")
    assert effects[-2:] == [report, Examine(launch=1, plan=OLD, light=True)]
    assert last_alarm(*SERVING, RING, WRONG) == OLD.policy.self_test


def test_wrong_answers_with_a_right_one_between_them_are_no_two_in_a_row() -> None:
    machine, _ = play(*SERVING, RING, WRONG, PASSED, RING, WRONG)
    assert machine.phase is Phase.SERVING
    machine, _ = play(*SERVING, RING, WRONG, POSTPONED, RING, WRONG)
    assert machine.phase is Phase.STOPPING, "a busy engine in between proves nothing"


RESTARTED = (*SERVING, RING, WRONG, WRONG, LEFT, ANSWERED)


def test_an_engine_that_is_wrong_twice_is_restarted_with_the_same_plan_and_tested_in_full() -> None:
    machine, effects = play(*RESTARTED, PASSED)
    assert (machine.phase, machine.result, machine.restarted) == (Phase.SERVING, None, "wrong answer")
    assert effects[7:] == [
        Report(error=True, text="the model answers wrongly, restarting its engine once: wrong answer"),
        Tell(word=Word.RELOADING),
        Dismiss(force=False),
        Launch(launch=2, plan=OLD),
        Examine(launch=2, plan=OLD, light=False),
        Tell(word=Word.READY),
    ]


@pytest.mark.parametrize("again", [(WRONG,), (PASSED, RING, WRONG, WRONG), (PASSED, RING, POSTPONED, WRONG, WRONG)])
def test_an_engine_that_is_wrong_after_its_restart_ends_the_service(again: tuple[Event, ...]) -> None:
    machine, effects = play(*RESTARTED, *again, LEFT)
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.GAVE_UP)
    assert machine.why == ("wrong answer; the engine was restarted before, for its answers were wrong: wrong answer")
    assert effects[-1] == Leave(status=ExitStatus.GAVE_UP)


def test_after_a_restart_nothing_is_held() -> None:
    machine, _ = play(*started(HOLD), PASSED, RING, WRONG, WRONG, LEFT, ANSWERED, WRONG, LEFT)
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.GAVE_UP)


def test_a_repetition_that_passed_after_a_restart_earns_another_one() -> None:
    machine, _ = play(*RESTARTED, PASSED, RING, PASSED, RING, WRONG, WRONG, LEFT)
    assert (machine.phase, machine.launch) == (Phase.LOADING, 3)


def test_a_rollback_after_a_restart_earns_none_and_settings_that_serve_do() -> None:
    wrong = (PASSED, RING, WRONG, WRONG, LEFT)
    machine, _ = play(*RESTARTED, PASSED, *reloaded(OLD), WRONG, LEFT, ANSWERED, *wrong)
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.GAVE_UP)
    machine, _ = play(*RESTARTED, PASSED, *reloaded(OLD), *wrong)
    assert machine.phase is Phase.LOADING


def test_an_engine_that_dies_in_its_restart_tells_both_reasons() -> None:
    machine, _ = play(*RESTARTED, LEFT)
    assert (machine.phase, machine.following) == (Phase.PAUSING, OLD)
    assert machine.trouble == "it died; the engine was restarted before, for its answers were wrong: wrong answer"


def test_a_reload_asked_for_during_a_restart_is_done_afterwards() -> None:
    machine, effects = play(*RESTARTED, ReloadAsked(), PASSED)
    assert (machine.phase, machine.settled) == (Phase.CHECKING, 0)
    assert effects[-3:] == [Tell(word=Word.READY), Tell(word=Word.RELOADING), Prepare(attempt=2)]


def test_a_reload_takes_the_place_of_an_examination_that_goes_on_only_when_it_is_refused() -> None:
    machine, effects = play(*SERVING, RING, WRONG, ReloadAsked(), WRONG, REFUSED)
    assert (machine.phase, machine.doubted) == (Phase.SERVING, True)
    assert effects[-1] == Examine(launch=1, plan=OLD, light=True)
    machine, effects = play(*SERVING, RING, ReloadAsked(), Prepared(attempt=0, plan=NEW), WRONG)
    assert (machine.phase, machine.following) == (Phase.STOPPING, NEW)
    machine, _ = play(*SERVING, RING, WRONG, *reloaded(OLD), PASSED, RING, WRONG)
    assert (machine.phase, machine.launch) == (Phase.SERVING, 2), "the new engine answers for itself"


def test_where_a_person_wants_a_warning_a_wrong_model_serves_on_and_says_so_each_time() -> None:
    wrong = (*started(WARN), PASSED, RING, WRONG, WRONG)
    machine, effects = play(*wrong)
    assert (machine.phase, machine.wrong, machine.due, machine.doubted) == (
        Phase.SERVING,
        "wrong answer",
        False,
        False,
    )
    told = Report(error=True, text="the model answers wrongly and goes on serving, as configured: wrong answer")
    assert effects[-1] == told
    assert last_alarm(*wrong) == WARN.policy.repeat
    machine, effects = play(*wrong, RING, WRONG, WRONG)
    assert (machine.phase, effects.count(told)) == (Phase.SERVING, 2)
    machine, _ = play(*wrong, RING, POSTPONED)
    assert machine.wrong == "wrong answer"
    machine, _ = play(*wrong, RING, PASSED)
    assert machine.wrong == ""


def test_a_driver_that_changes_before_an_engine_is_up_means_nothing() -> None:
    assert play(Started(), DriverChanged(), SIGUSR1) == play(Started())
    assert step(Machine(), SIGUSR1) == (Machine(), ())
