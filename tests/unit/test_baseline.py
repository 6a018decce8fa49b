"""What is recorded of a model, and later answers held against it."""

import asyncio
import copy
import dataclasses
import json
import math

import pytest

from appliance.core.baseline import Baseline, Greedy, Identity, differences, nearest
from appliance.core.codec import json_of, record_of
from appliance.core.reply import ReplyError
from appliance.selftest.baseline import OTHER, SAME, UnrecordableError, bounds_of, questions_from, taken
from appliance.selftest.talk import Talk
from appliance.selftest.verdict import Outcome
from tests.unit.teller import GOOD, ODD, PLACES, SHARE, Teller, said, verdicts, with_odd

WHOSE = Identity(source="/m", checkpoint="c", engine="e", hardware="h")


def recorded(server: Teller, task: str) -> Baseline:
    return asyncio.run(taken(Talk(server=server, model="m", seconds=1), task, WHOSE, "2026-01-01T00:00:00+00:00"))


def test_an_odd_reply_is_not_recorded_or_can_be_compared() -> None:
    for number, path in enumerate(PLACES):
        for odd in ODD[number % SHARE :: SHARE]:
            text = json.dumps(with_odd(path, odd))
            for task in ("chat", "embedding", "rerank", "transcription"):
                try:
                    baseline = recorded(Teller(text), task)
                except (ReplyError, UnrecordableError):
                    continue
                verdicts(Teller(json.dumps(GOOD)), tuple(questions_from(baseline, WHOSE, "b.json")))


def test_a_model_that_does_not_repeat_itself_is_not_recorded() -> None:
    def with_logprob(number: float) -> str:
        entries = [None, {"7": {"logprob": number}}, {"8": {"logprob": -2.5}}]
        table = copy.deepcopy(GOOD)
        table["prompt_logprobs"] = table["choices"][0]["prompt_logprobs"] = entries
        return json.dumps(table)

    assert recorded(Teller(with_logprob(-1.5)), "chat").noise_mean == 0
    for other in (-3.5, math.nan, 1e308):
        with pytest.raises((UnrecordableError, ReplyError), match="logprob"):
            recorded(Teller(with_logprob(-1.5), with_logprob(-1.5), with_logprob(other)), "chat")


def test_a_vector_of_no_direction_is_unlike_what_was_accepted() -> None:
    vectors = tuple((0.1 * n + 0.1, 0.5) for n in range(4))
    baseline = Baseline(recorded="2026", model="m", task="embedding", identity=WHOSE, vectors=vectors)
    asked = tuple(questions_from(baseline, WHOSE, "b.json"))
    good = [list(vector) for vector in vectors]

    def reply(*found: list[float]) -> str:
        return json.dumps({"data": [{"index": n, "embedding": vector} for n, vector in enumerate(found)]})

    assert verdicts(Teller(reply(*good)), asked)[0].outcome is Outcome.RIGHT
    for place in range(4):
        for broken in ([0.0, 0.0], [math.nan, 0.5], [-0.5, 0.1], [1e308, 1e308]):
            changed = [*good[:place], broken, *good[place + 1 :]]
            assert verdicts(Teller(reply(*changed)), asked)[0].outcome is Outcome.WRONG, (place, broken)


def test_the_accepted_texts_are_asked_for_as_they_were_recorded() -> None:
    greedy = (Greedy(ask="only this", endpoint="chat", text="Paris"),)
    baseline = Baseline(recorded="2026", model="m", task="chat", identity=WHOSE, greedy=greedy)
    server = Teller(said("Paris"))
    assert verdicts(server, tuple(questions_from(baseline, WHOSE, "b.json")))[0].outcome is Outcome.RIGHT
    assert [body["messages"][0]["content"] for _, body in server.asked] == ["only this"]


def kept(source: str = "/m", recorded: str = "2026-01-01", **more: str) -> Baseline:
    whose = dataclasses.replace(WHOSE, source=source, **more)
    return Baseline(recorded=recorded, model="m", task="embedding", identity=whose, vectors=((1.0, 0.5),))


def test_the_baseline_of_exactly_this_machine_comes_before_a_newer_one_of_another() -> None:
    exact, newer, alien = kept(), kept(recorded="2027", engine="f"), kept("/other", "2028")
    assert nearest((newer, exact, alien), WHOSE) == exact
    assert nearest((newer, alien), WHOSE) == newer
    assert nearest((kept(recorded="2025", engine="g"), newer), WHOSE) == newer
    assert nearest((alien,), WHOSE) is None
    assert nearest((), WHOSE) is None


def test_what_changed_since_is_named() -> None:
    assert differences(WHOSE, WHOSE) == ""
    now = dataclasses.replace(WHOSE, engine="f", hardware="2x GPU")
    assert differences(WHOSE, now) == "engine e, now f, hardware h, now 2x GPU"


def test_bounds_are_wider_where_something_changed_and_where_the_model_is_noisy() -> None:
    baseline = kept()
    other = dataclasses.replace(WHOSE, engine="f")
    assert bounds_of(baseline, WHOSE) == SAME
    assert bounds_of(baseline, other) == OTHER
    noisy = dataclasses.replace(baseline, noise_mean=0.05, noise_largest=0.4)
    assert dict(bounds_of(noisy, WHOSE)) == {"mean": 0.1, "largest": 0.8}
    assert bounds_of(noisy, other) == OTHER


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("format", "2", "format 2, this version reads 1"),
        ("noise_mean", "NaN", "a number in it that is none"),
        ("noise_mean", "Infinity", "a number in it that is none"),
        ("noise_largest", "-1", "a noise or agreement below 0"),
        ("agreement", "-0.5", "a noise or agreement below 0"),
        ("vectors", "[[NaN]]", "a number in it that is none"),
        ("vectors", "[]", "nothing in it that could be compared"),
        ("identity", "{}", "missing 'source'"),
        ("identity", "null", "identity"),
        ("model", "{", "Expecting"),
        ("surprise", "1", "surprise"),
        ("vectors", '"x"', "could not convert string to float: 'x'"),
        ("vectors", "[[[]]]", "not 'list'"),
    ],
)
def test_a_baseline_that_no_recording_made_is_refused(field: str, value: str, what: str) -> None:
    table = json.loads(json_of(kept()))
    table[field] = "here"
    with pytest.raises(ValueError, match=what):
        record_of(Baseline, json.dumps(table).replace('"here"', value))


def test_a_baseline_is_read_as_it_was_written() -> None:
    assert record_of(Baseline, json_of(kept())) == kept()
