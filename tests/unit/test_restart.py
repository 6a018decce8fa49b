"""What follows an engine that failed or got lost: another one, after a while, and not for ever."""

import dataclasses

import pytest

from appliance.core.effect import Dismiss, Launch, Leave, Prepare, Report, Tell
from appliance.core.event import (
    EngineAnswered,
    EngineFell,
    EngineLeft,
    EngineProved,
    Event,
    Prepared,
    Refused,
    ReloadAsked,
    Started,
    StopAsked,
)
from appliance.core.phase import ExitStatus, Phase, Purpose, Result, Word
from tests.unit.world import FELL, GOOD_START, LEFT, NEW, OLD, RING, STALLED, UP_AGAIN, WRONG, last_alarm, planned, play


@pytest.mark.parametrize("loss", [(LEFT,), (FELL, LEFT), (STALLED, LEFT)])
def test_an_engine_that_is_lost_while_it_serves_is_launched_again_at_once(loss: tuple[Event, ...]) -> None:
    machine, effects = play(*GOOD_START, *loss)
    assert (machine.phase, machine.purpose, machine.losses) == (Phase.LOADING, Purpose.RESTART, 1)
    assert machine.trouble in ("it died", "it fell", "it stands still")
    assert effects[4:6] == [
        Report(error=True, text=f"the engine is lost, starting it again: {machine.trouble}"),
        Tell(word=Word.RELOADING),
    ]
    assert effects[-1] == Launch(launch=2, plan=OLD)
    machine, effects = play(*GOOD_START, *loss, *UP_AGAIN)
    assert (machine.phase, machine.trouble, effects[-1]) == (Phase.SERVING, "", Tell(word=Word.READY))


def test_engines_that_get_lost_one_after_the_other_end_the_service() -> None:
    machine, effects = play(*GOOD_START, LEFT, *UP_AGAIN, LEFT)
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.GAVE_UP)
    assert machine.why == "it died; 2 engines in a row were ready and got lost"
    assert Tell(word=Word.RELOADING) not in effects[-3:]


def test_an_engine_that_has_served_for_long_makes_its_loss_a_first_one() -> None:
    machine, _ = play(*GOOD_START, LEFT, *UP_AGAIN, EngineProved(launch=0), LEFT)
    assert (machine.phase, machine.losses) == (Phase.LOADING, 1)
    machine, _ = play(*GOOD_START, LEFT, *UP_AGAIN, ReloadAsked(), EngineProved(launch=0), FELL)
    assert (machine.phase, machine.losses) == (Phase.STOPPING, 1)


def patient(**policy: float) -> Prepared:
    return Prepared(attempt=0, plan=planned("patient", **policy))


def test_each_pause_is_twice_as_long_up_to_five_minutes() -> None:
    events: list[Event] = [Started(), patient(tries=9, pause=10.0)]
    for seconds in (10, 20, 40, 80, 160, 300, 300):
        assert last_alarm(*events, LEFT) == seconds
        events += [LEFT, RING, patient(tries=9, pause=10.0)]
    events = [Started(), patient(losses=9, pause=10.0), *UP_AGAIN, LEFT]
    for seconds in (10, 20, 40):
        assert last_alarm(*events, *UP_AGAIN, LEFT) == seconds
        events += [*UP_AGAIN, LEFT, RING]


def test_a_first_start_that_fails_is_tried_again_with_file_and_machine_looked_at_anew() -> None:
    machine, effects = play(*GOOD_START[:2], LEFT)
    assert (machine.phase, machine.trouble) == (Phase.PAUSING, "it died")
    assert effects[-1] == Report(error=True, text="it died; trying again")
    machine, effects = play(*GOOD_START[:2], LEFT, RING)
    assert (machine.phase, effects[-1]) == (Phase.CHECKING, Prepare(attempt=2))
    machine, effects = play(*GOOD_START[:2], LEFT, RING, *GOOD_START[1:])
    assert (machine.phase, machine.failures, effects[-1]) == (Phase.SERVING, 0, Tell(word=Word.READY))
    machine, effects = play(*GOOD_START[:2], LEFT, RING, GOOD_START[1], LEFT)
    assert (machine.status, machine.why) == (ExitStatus.GAVE_UP, "it died; none of 2 launches became ready")


def test_a_file_that_is_broken_at_the_second_look_ends_the_service() -> None:
    refused = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="x.toml:1: no")
    machine, _ = play(*GOOD_START[:2], LEFT, RING, refused)
    assert (machine.phase, machine.status, machine.why) == (Phase.FAILED, ExitStatus.CONFIGURATION, "x.toml:1: no")


@pytest.mark.parametrize("failure", [EngineFell, EngineLeft])
def test_what_no_second_try_can_mend_is_not_tried_again(failure: type[EngineFell] | type[EngineLeft]) -> None:
    permanent = failure(launch=0, status=ExitStatus.CONFIGURATION, why="a shard is missing")
    machine, _ = play(*GOOD_START[:2], permanent, LEFT)
    assert (machine.phase, machine.status, machine.why) == (
        Phase.FAILED,
        ExitStatus.CONFIGURATION,
        "a shard is missing",
    )
    machine, _ = play(*GOOD_START, LEFT, permanent, LEFT)
    assert (machine.phase, machine.status) == (Phase.FAILED, ExitStatus.CONFIGURATION)
    machine, _ = play(*GOOD_START, permanent)
    assert machine.goes_on or machine.phase is Phase.LOADING


def test_a_reload_in_a_pause_is_done_at_once() -> None:
    machine, effects = play(*GOOD_START[:2], LEFT, ReloadAsked())
    assert (machine.phase, machine.purpose, machine.failures, effects[-1]) == (
        Phase.CHECKING,
        Purpose.RELOAD,
        0,
        Prepare(attempt=2),
    )
    machine, effects = play(*GOOD_START[:2], LEFT, ReloadAsked(), Prepared(attempt=0, plan=NEW), *UP_AGAIN)
    assert (machine.phase, machine.result, machine.plan) == (Phase.SERVING, Result.APPLIED, NEW)
    machine, _ = play(*GOOD_START[:2], LEFT, ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT, RING)
    assert machine.phase is Phase.CHECKING


def test_a_reload_that_is_refused_in_a_pause_after_a_loss_brings_the_last_good_settings_up() -> None:
    start = (Started(), patient(losses=9), *UP_AGAIN, LEFT, *UP_AGAIN, LEFT)
    refused = Refused(attempt=0, status=ExitStatus.CONFIGURATION, why="x.toml:1: no")
    assert play(*start)[0].phase is Phase.PAUSING
    machine, effects = play(*start, ReloadAsked(), refused)
    assert (machine.phase, machine.purpose, machine.settled) == (Phase.LOADING, Purpose.RESTART, 1)
    assert (machine.result, machine.why) == (Result.REFUSED, "x.toml:1: no")
    assert machine.good is not None
    assert effects[-1] == Launch(launch=3, plan=machine.good)
    machine, _ = play(*start, ReloadAsked(), refused, *UP_AGAIN)
    assert (machine.phase, machine.result, machine.why) == (Phase.SERVING, Result.REFUSED, "x.toml:1: no")


def test_an_engine_that_is_lost_while_a_reload_is_prepared_comes_back_and_the_reload_begins_anew() -> None:
    machine, effects = play(*GOOD_START, ReloadAsked(), FELL)
    assert (machine.phase, machine.following, machine.purpose) == (Phase.STOPPING, OLD, Purpose.RESTART)
    assert effects.count(Tell(word=Word.RELOADING)) == 1
    machine, effects = play(*GOOD_START, ReloadAsked(), FELL, LEFT, *UP_AGAIN)
    assert (machine.phase, machine.purpose, effects[-1]) == (Phase.CHECKING, Purpose.RELOAD, Prepare(attempt=3))


def test_a_stop_in_a_pause_ends_at_once() -> None:
    machine, effects = play(*GOOD_START[:2], LEFT, StopAsked())
    assert (machine.phase, machine.status, machine.why) == (Phase.STOPPED, ExitStatus.OK, "")
    assert effects[-2:] == [Tell(word=Word.STOPPING), Leave(status=ExitStatus.OK)]


def test_an_engine_that_is_kept_for_probing_may_be_stopped_by_who_probes_it() -> None:
    held = (Started(), patient(hold=True), EngineAnswered(launch=0), WRONG)
    machine, effects = play(*held, STALLED)
    assert (machine.phase, machine.trouble) == (Phase.HOLDING, "")
    assert effects[-1] == Report(error=True, text="the engine that is kept for probing stands still: it stands still")


@pytest.mark.parametrize("before", [GOOD_START[:2], GOOD_START[:3], GOOD_START, (*GOOD_START, ReloadAsked())])
def test_an_engine_that_got_stuck_writes_down_what_it_did_and_is_killed(before: tuple[Event, ...]) -> None:
    machine, effects = play(*before, STALLED)
    assert (machine.phase, machine.trouble) == (Phase.STOPPING, "it stands still")
    assert effects[-1] == Dismiss(force=True, stacks=True)
    assert last_alarm(*before, STALLED) == OLD.policy.stopping


def test_what_is_settled_by_a_rollback_that_is_tried_twice_tells_both_reasons() -> None:
    reload = (*GOOD_START, ReloadAsked(), Prepared(attempt=0, plan=NEW), LEFT)
    again = dataclasses.replace(LEFT, why="it died again")
    machine, effects = play(*reload, LEFT, again)
    assert (machine.phase, machine.following) == (Phase.PAUSING, OLD)
    both = "it died; the last good settings do not serve any more either: it died again"
    assert effects[-1] == Report(error=True, text=f"{both}; trying again")
    machine, _ = play(*reload, LEFT, again, RING, *UP_AGAIN)
    assert (machine.phase, machine.plan, machine.result) == (Phase.SERVING, OLD, Result.ROLLED_BACK)
    machine, _ = play(*reload, LEFT, again, RING, again)
    assert (machine.status, machine.why) == (ExitStatus.GAVE_UP, f"{both}; none of 2 launches became ready")
