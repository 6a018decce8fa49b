"""The judge of liveness: what moves is never given up, what stands still is found."""

import random
from typing import Any

import pytest

from appliance.core.pulse import Ask, Canary, Fine, Patience, Pulse, Reading, Stalled, Strike, felt
from appliance.core.work import Work
from tests.unit.heart import PATIENCE, SOUND, Heart, idle, lived, stalled, strikes, work

LIVES = 300
FROZEN: dict[str, Any] = {"computing": False, "serving": False}


def every(seconds: float, count: int, **seen: Any) -> list[Reading]:
    """Return readings that all look alike, one every so many seconds."""
    return [Reading(now=number * seconds, **seen) for number in range(count)]


# ---- what is sound


@pytest.mark.parametrize("counted", [True, False])
def test_what_moves_is_never_given_up(counted: bool) -> None:
    """Random lives of sound engines: idle, steps of minutes, a server that is too busy, a machine that slept."""
    for seed in range(LIVES):
        draw = random.Random(seed)
        names = ("0",) if draw.random() < 0.7 else ("0", "1", "2")
        heart = Heart(draw, names, counted)
        for _ in range(draw.randint(2, 8)):
            # Without counters nothing tells a step of minutes from an engine that hangs but the canary.
            kinds = SOUND if counted else (idle, SOUND[-1], SOUND[-2])
            draw.choice(kinds)(heart, draw.uniform(5, 150))
        assert stalled(heart.verdicts) is None, f"seed {seed}: {heart.verdicts[-3:]}"


def test_one_step_may_take_minutes_while_its_processes_compute() -> None:
    found = lived(every(2, 145, work=(work(7, running=1),), computing=True))
    assert {type(verdict) for _, verdict in found} == {Fine}


def test_engines_that_take_turns_are_not_taken_for_one_that_stands_still() -> None:
    """Each of eight engines takes 15 s for a step, so that at every reading seven of them have not moved."""
    readings = []
    for number in range(600):
        works = tuple(work((number + name) // 8, running=1, engine=str(name)) for name in range(8))
        readings.append(Reading(now=number * 2.0, work=works, computing=True))
    assert {type(verdict) for _, verdict in lived(readings)} == {Fine}


def test_a_server_too_busy_for_its_metrics_is_not_struck_while_it_computes() -> None:
    found = lived(every(4, 60, metrics=False, computing=False, serving=True, canary=Canary.OUT, out=9.0))
    assert not strikes(found)
    assert stalled(found) is None


def test_a_canary_that_is_answered_speaks_for_a_server_without_metrics() -> None:
    readings = [
        Reading(now=now * 2.0, metrics=False, canary=Canary.ANSWERED if now % 5 == 0 else Canary.NONE, **FROZEN)
        for now in range(400)
    ]
    assert {type(verdict) for _, verdict in lived(readings)} <= {Fine, Ask}


@pytest.mark.parametrize("said", ["HTTP 429: later", "HTTP 503: busy"])
def test_an_overloaded_server_that_moves_is_fine(said: str) -> None:
    readings = [
        Reading(now=now * 2.0, work=(work(now, running=8, waiting=50),), canary=Canary.BUSY, said=said, computing=True)
        for now in range(400)
    ]
    assert {type(verdict) for _, verdict in lived(readings)} == {Fine}


def test_a_canary_that_waits_while_others_are_served_is_fine() -> None:
    readings = [
        Reading(now=now * 2.0, work=(work(now, running=8),), canary=Canary.OUT, out=now * 2.0, computing=True)
        for now in range(400)
    ]
    assert {type(verdict) for _, verdict in lived(readings)} == {Fine}


def test_a_refused_canary_tells_nothing() -> None:
    readings = [Reading(now=now * 2.0, work=(work(0),), canary=Canary.REFUSED, **FROZEN) for now in range(400)]
    found = lived(readings)
    assert {type(verdict) for _, verdict in found} == {Fine, Ask}


def test_an_engine_that_an_operator_put_to_sleep_is_not_asked_and_not_struck() -> None:
    asleep = (work(5, running=1, asleep=True),)
    found = lived(every(2, 400, work=asleep, canary=Canary.OUT, out=99.0, **FROZEN))
    assert {type(verdict) for _, verdict in found} == {Fine}
    for works in (asleep, (work(5, asleep=True),)):
        assert {type(verdict) for _, verdict in lived(every(2, 400, work=works, **FROZEN))} == {Fine}


def test_a_machine_that_slept_for_a_night_gives_nobody_up() -> None:
    before = every(2, 3, work=(work(5, running=1),), computing=True)
    after = Reading(now=40_000.0, work=(work(5, running=1),), canary=Canary.OUT, out=39_990.0, **FROZEN)
    again = Reading(now=40_002.0, work=(work(6, running=1),), computing=True)
    assert {type(verdict) for _, verdict in lived([*before, after, again])} == {Fine}


def test_of_a_long_gap_between_two_readings_five_seconds_count() -> None:
    """So that three strikes are at least three readings, whatever the machine did in between."""
    found = lived(every(60, 9, work=(work(5, running=1),), **FROZEN))
    assert stalled(found) == (1 + PATIENCE.quiet * 3 / 5) * 60


def test_a_clock_that_goes_back_is_no_time_that_passes() -> None:
    found = lived([Reading(now=-2.0 * now, work=(work(5, running=1),), **FROZEN) for now in range(400)])
    assert {type(verdict) for _, verdict in found} == {Fine}


# ---- what stands still


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("running", [0.0, 2.0])
def test_a_stopped_process_is_found_within_30_s(counted: bool, running: float) -> None:
    """At any moment of any sound life, with and without requests, counters, and the reading of CPU time."""
    for seed in range(LIVES):
        draw = random.Random(seed)
        heart = Heart(draw, counted=counted)
        for _ in range(draw.randint(1, 4)):
            draw.choice(SOUND)(heart, draw.uniform(5, 60))
        if stalled(heart.verdicts) is not None:  # without counters a long step may be
            continue
        heart.running = {"0": running}
        unknown = {"computing": draw.choice([False, None]), "serving": draw.choice([True, False, None])}
        stopped = heart.now
        while stalled(heart.verdicts) is None:
            heart.look(heart.pause(), stopped=("VLLM::EngineCore (pid 7)",), **unknown)
            assert heart.now - stopped <= 30, f"seed {seed}: {heart.verdicts[-8:]}"
        last = heart.verdicts[-1][1]
        assert isinstance(last, Stalled)
        assert "VLLM::EngineCore (pid 7) is stopped" in last.why
        assert [type(verdict) for now, verdict in heart.verdicts if now > stopped].count(Strike) == 2


@pytest.mark.parametrize(("running", "limit"), [(0.0, 65.0), (2.0, 45.0)])
def test_a_process_that_waits_for_ever_is_found_within_a_minute(running: float, limit: float) -> None:
    for seed in range(LIVES):
        draw = random.Random(seed)
        heart = Heart(draw)
        idle(heart, draw.uniform(5, 60))
        heart.running = {"0": running}
        hung = heart.now
        while stalled(heart.verdicts) is None:
            heart.look(heart.pause(), computing=False, serving=True)
            assert heart.now - hung <= limit, f"seed {seed}: {heart.verdicts[-20:]}"


def test_what_computes_without_a_counter_that_moves_is_given_up_after_the_stall_timeout_and_not_before() -> None:
    for seed in range(LIVES):
        draw = random.Random(seed)
        heart = Heart(draw)
        idle(heart, draw.uniform(5, 60))
        heart.running = {"0": draw.choice([0.0, 2.0])}
        spun = heart.now
        while stalled(heart.verdicts) is None:
            heart.look(heart.pause(), computing=True, serving=True)
            assert heart.now - spun <= PATIENCE.stall + 40, f"seed {seed}"
        assert heart.now - spun >= PATIENCE.stall, f"seed {seed}"
        assert not strikes(heart.verdicts), f"seed {seed}"


def test_a_stopped_engine_is_struck_twice_and_then_given_up() -> None:
    found = lived(every(2.5, 8, work=(work(5),), stopped=("VLLM::Worker (pid 9)",), **FROZEN))
    told = [(now, verdict) for now, verdict in found if not isinstance(verdict, (Fine, Ask))]
    why = "VLLM::Worker (pid 9) is stopped"
    assert told[:3] == [
        (7.5, Strike(number=1, why=why)),
        (12.5, Strike(number=2, why=why)),
        (17.5, Stalled(why=f"{why}; so for 15 s")),
    ]


def test_several_stopped_processes_are_named() -> None:
    found = lived(every(5, 3, stopped=("VLLM::Worker_TP0 (pid 8)", "VLLM::Worker_TP1 (pid 9)")))
    assert found[-1][1] == Strike(number=1, why="VLLM::Worker_TP0 (pid 8), VLLM::Worker_TP1 (pid 9) are stopped")


def test_a_stop_that_ends_takes_the_strikes_back() -> None:
    stopped: dict[str, Any] = {"work": (work(5),), "stopped": ("VLLM::Worker (pid 9)",), **FROZEN}
    readings = [Reading(now=now * 5.0, **(stopped if now % 4 else {"work": (work(5),)})) for now in range(100)]
    found = lived(readings)
    assert set(strikes(found)) == {1, 2}
    assert stalled(found) is None


def test_requests_that_run_without_a_counter_that_moves_say_so() -> None:
    found = lived(every(5, 9, work=(work(5, running=2, waiting=1),), **FROZEN))
    why = "2 requests run and 1 wait, and no counter moves, and its processes take no CPU time"
    assert [verdict for _, verdict in found[2:]] == [
        Fine(),
        Strike(number=1, why=why),
        Fine(),
        Strike(number=2, why=why),
        Fine(),
        Stalled(why=f"{why}; so for 30 s"),
        Stalled(why=f"{why}; so for 35 s"),
    ]


@pytest.mark.parametrize(
    ("running", "waiting", "told"), [(None, 2.0, "0 requests run and 2"), (2.0, None, "2 requests run and 0")]
)
def test_a_gauge_that_is_missing_is_told_as_nothing(running: float | None, waiting: float | None, told: str) -> None:
    held = Work(engine="0", running=running, waiting=waiting, done=(("vllm:generation_tokens_total", 5.0),))
    last = lived(every(5, 9, work=(held,), **FROZEN))[-1][1]
    assert isinstance(last, Stalled)
    assert last.why.startswith(told)


def test_one_engine_of_several_that_stands_still_is_found_and_named() -> None:
    readings = [
        Reading(now=now * 5.0, work=(work(now, running=1), work(3, running=1, engine="1")), **FROZEN)
        for now in range(9)
    ]
    last = lived(readings)[-1][1]
    assert isinstance(last, Stalled)
    assert "no counter of engine 1 moves" in last.why


def test_any_cpu_time_in_between_takes_the_strikes_back() -> None:
    readings = [Reading(now=now * 5.0, work=(work(5, running=2),), computing=now % 5 == 0) for now in range(59)]
    found = lived(readings)
    assert set(strikes(found)) == {1, 2}
    assert stalled(found) is None


def test_silence_is_counted_from_nothing_after_each_sign_of_computing() -> None:
    readings = [Reading(now=now * 4.9, work=(work(5, running=2),), computing=now % 3 == 0) for now in range(59)]
    assert strikes(lived(readings)) == []


def test_a_counter_that_moved_while_metrics_were_silent_is_a_sign_of_life() -> None:
    readings = [Reading(now=0.0, work=(work(5),)), Reading(now=2.0, metrics=False), Reading(now=4.0, work=(work(6),))]
    pulse = Pulse()
    for reading in readings:
        pulse, _ = felt(pulse, reading, PATIENCE)
    assert pulse.proven == 4.0


@pytest.mark.parametrize(("more", "doubted"), [(0.0, False), (0.1, True)])
def test_an_answer_has_all_of_its_time(more: float, doubted: bool) -> None:
    first, _ = felt(Pulse(), Reading(now=0.0, work=(work(5),)), PATIENCE)
    late = Reading(now=9.0, work=(work(5),), canary=Canary.OUT, out=PATIENCE.answer + more)
    assert bool(felt(first, late, PATIENCE)[0].doubts) is doubted
    silent = Reading(now=PATIENCE.canary + PATIENCE.answer + more, metrics=False)
    assert bool(felt(first, silent, PATIENCE)[0].doubts) is doubted


def test_a_counter_that_goes_back_is_no_progress_and_no_harm() -> None:
    readings = [Reading(now=now * 5.0, work=(work(100 - now, running=1),), **FROZEN) for now in range(9)]
    assert stalled(lived(readings)) == 35.0


def test_cpu_time_that_can_not_be_read_is_no_silence() -> None:
    found = lived(every(5, 58, work=(work(5, running=2),), computing=None, serving=None))
    assert not strikes(found)
    assert stalled(found) is None
    assert stalled(lived(every(5, 70, work=(work(5, running=2),), computing=None))) == 305.0


def test_an_idle_engine_that_answers_no_canary_is_found() -> None:
    heart = Heart(random.Random(0))
    while stalled(heart.verdicts) is None:
        heart.look(2.0, computing=False, serving=True)
    told = [(now - 1000, verdict) for now, verdict in heart.verdicts if not isinstance(verdict, Fine)]
    why = "a request for one token has had no answer for {} s, and its processes take no CPU time"
    assert told == [
        (12.0, Ask()),
        (28.0, Strike(number=1, why=why.format(16))),
        (38.0, Strike(number=2, why=why.format(26))),
        (48.0, Stalled(why=f"{why.format(36)}; so for 30 s")),
    ]


def test_a_server_that_says_that_it_failed_is_asked_again_soon_and_then_given_up() -> None:
    heart = Heart(random.Random(0))
    while stalled(heart.verdicts) is None:
        failed = {"canary": Canary.FAILED, "said": "HTTP 500: lost"} if heart.sent is not None else {}
        heart.look(2.0, computing=True, serving=True, **failed)
    asked = [now - 1000 for now, verdict in heart.verdicts if isinstance(verdict, Ask)]
    assert asked[:4] == [12.0, 18.0, 26.0, 32.0]
    assert strikes(heart.verdicts) == [1, 2]
    last = heart.verdicts[-1][1]
    assert isinstance(last, Stalled)
    assert last.why == "a request for one token got HTTP 500: lost; so for 30 s"


@pytest.mark.parametrize("sign", [{"canary": Canary.ANSWERED}, {"work": (work(6),)}])
def test_one_sign_of_life_takes_all_strikes_back(sign: dict[str, Any]) -> None:
    readings = []
    for number in range(60):
        told: dict[str, Any] = {"work": (work(5),), "canary": Canary.NONE if number % 5 else Canary.FAILED, **FROZEN}
        readings.append(
            Reading(**{"now": number * 5.0, "said": "HTTP 500", **told, **(sign if number % 5 == 4 else {})})
        )
    found = lived(readings)
    assert 1 in strikes(found)
    assert stalled(found) is None


def test_a_server_that_asks_to_come_again_is_struck_only_when_nothing_computes() -> None:
    seen: dict[str, Any] = {"work": (work(0),), "canary": Canary.BUSY, "said": "HTTP 503: busy"}
    assert stalled(lived(every(5, 50, **seen, computing=True))) is None
    assert stalled(lived(every(5, 50, **seen, computing=False))) == 35.0


def test_a_server_that_is_silent_altogether_is_found() -> None:
    found = lived(every(2, 40, metrics=False, canary=Canary.OUT, out=99.0, **FROZEN))
    last = next(verdict for _, verdict in found if isinstance(verdict, Stalled))
    assert stalled(found) == 32.0
    assert "its processes take no CPU time" in last.why
    silent = lived(every(2, 40, metrics=False, **FROZEN))
    assert stalled(silent) == 46.0
    assert [v.why.partition(",")[0] for _, v in silent if isinstance(v, Strike)] == ["/metrics does not answer"] * 2


# ---- the canary


def test_an_idle_engine_is_asked_every_interval() -> None:
    readings = [Reading(now=now * 2.0, work=(work(0),), canary=Canary.ANSWERED) for now in range(31)]
    assert [now for now, verdict in lived(readings) if isinstance(verdict, Ask)] == []
    quiet = [Reading(now=now * 2.0, work=(work(0),)) for now in range(31)]
    assert [now for now, verdict in lived(quiet) if isinstance(verdict, Ask)] == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]


@pytest.mark.parametrize("waiting", [0.0, 3.0])
def test_an_engine_with_requests_is_not_asked(waiting: float) -> None:
    readings = [
        Reading(now=now * 2.0, work=(work(0, running=1, waiting=waiting),), computing=True) for now in range(99)
    ]
    assert {type(verdict) for _, verdict in lived(readings)} == {Fine}


def test_real_traffic_within_the_interval_saves_the_canary() -> None:
    readings = [Reading(now=now * 2.0, work=(work(now // 4),)) for now in range(200)]
    assert {type(verdict) for _, verdict in lived(readings)} == {Fine}
    readings = [Reading(now=now * 2.0, work=(work(now // 8),)) for now in range(200)]
    assert {type(verdict) for _, verdict in lived(readings)} == {Fine, Ask}


def test_counters_that_vanish_leave_the_canary() -> None:
    gone = [Work(engine="0", running=3.0)]
    for seen in ((), tuple(gone)):
        found = lived(every(2, 8, work=seen, computing=True))
        assert [now for now, verdict in found if isinstance(verdict, Ask)] == [10.0]


def test_requests_without_counters_are_no_ground_for_a_doubt() -> None:
    bare = (Work(engine="0", running=3.0),)
    readings = [
        Reading(now=now * 2.0, work=bare, canary=Canary.ANSWERED if now % 6 == 0 else Canary.NONE, **FROZEN)
        for now in range(200)
    ]
    assert {type(verdict) for _, verdict in lived(readings)} <= {Fine, Ask}


def test_no_canary_is_asked_for_while_one_is_out() -> None:
    found = lived(every(2, 100, work=(work(0),), canary=Canary.OUT, out=1.0, computing=True))
    assert {type(verdict) for _, verdict in found} == {Fine}


def test_no_reading_breaks_the_judge_and_three_strikes_come_before_the_end() -> None:
    """Readings of any kind in any order; between two that give up lie strikes one and two, or the stall timeout."""
    patience = Patience(stall=120.0)
    for seed in range(LIVES):
        draw = random.Random(seed)
        pulse, now, seen = Pulse(), 0.0, []
        for _ in range(draw.randint(1, 120)):
            now += draw.choice([0.0, 0.5, 2.0, 5.0, 60.0])
            works = [work(draw.randint(0, 3), draw.choice([0.0, 1.0]), engine=name) for name in "01"]
            reading = Reading(
                now=now,
                metrics=draw.random() < 0.8,
                work=tuple(works[: draw.randint(0, 2)]),
                canary=draw.choice(list(Canary)),
                out=draw.choice([0.0, 3.0, 30.0]),
                said="HTTP 500",
                computing=draw.choice([None, False, False, True]),
                serving=draw.choice([None, False, True]),
                stopped=draw.choice([(), (), ("VLLM::Worker (pid 1)",)]),
            )
            pulse, verdict = felt(pulse, reading, patience)
            seen.append(verdict)
            if isinstance(verdict, Stalled):
                doubts = [doubt for doubt in pulse.doubts if doubt.strikes >= 3 or doubt.still >= patience.stall]
                assert doubts, f"seed {seed}"
                assert len(seen) > 3, f"seed {seed}"
                break
