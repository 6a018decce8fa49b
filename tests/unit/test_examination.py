"""The self-test's way through its questions: whatever a server sends, a verdict comes of it."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.reply import Reply
from appliance.selftest.examination import outcome_of
from appliance.selftest.verdict import Judgement, Outcome, Verdict, right, unknown, wrong
from tests.unit.teller import EVERY, GOOD, ODD, PLACES, SHARE, Teller, deep, read, said, verdicts, with_odd


@pytest.mark.parametrize("path", PLACES, ids=[".".join(map(str, path)) or "all" for path in PLACES])
def test_whatever_stands_in_a_reply_a_verdict_comes_of_it(path: tuple[Any, ...]) -> None:
    for odd in ODD[PLACES.index(path) % SHARE :: SHARE]:
        verdicts(Teller(json.dumps(with_odd(path, odd))))
    if path:
        gone: Any = copy.deepcopy(GOOD)
        place = gone
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]
        verdicts(Teller(json.dumps(gone)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(GOOD)) | st.text(), inner),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(path=st.sampled_from(PLACES), odd=JSON)
def test_any_json_in_a_reply_gets_a_verdict(path: tuple[Any, ...], odd: Any) -> None:
    verdicts(Teller(json.dumps(with_odd(path, odd)), json.dumps(GOOD)))


@settings(deadline=None, max_examples=80)
@given(text=st.text(), status=st.integers(100, 599), metrics=st.text())
def test_any_text_and_status_gets_a_verdict(text: str, status: int, metrics: str) -> None:
    verdicts(Teller(text, status=status, metrics=metrics))


@pytest.mark.parametrize("levels", [50, 200, 300, 600, 900, 950, 980, 100000])
def test_what_is_nested_deeply_gets_a_verdict(levels: int) -> None:
    for name in ("choices", "data", "results", "error", "prompt_logprobs", "text"):
        verdicts(Teller(json.dumps({**GOOD, name: 0})[:-1] + f', "{name}": {deep(levels)}}}'))
    content = json.dumps(GOOD).replace('"Paris"', json.dumps(deep(levels)))
    verdicts(Teller(content))
    inner = json.dumps({"data": [{"index": 0, "data": 0}]}).replace(": 0}", f": {deep(levels)}}}")
    verdicts(Teller(inner))


@pytest.mark.parametrize(
    ("status", "text", "outcome"),
    [
        (200, "", Outcome.WRONG),
        (200, "<html>", Outcome.WRONG),
        (302, "", Outcome.WRONG),
        (400, "{}", Outcome.WRONG),
        (404, "{}", Outcome.WRONG),
        (401, "{}", Outcome.UNKNOWN),
        (403, "{}", Outcome.UNKNOWN),
        (408, "", Outcome.UNKNOWN),
        (425, "", Outcome.UNKNOWN),
        (429, "", Outcome.UNKNOWN),
        (500, "", Outcome.UNKNOWN),
        (502, "<html>", Outcome.UNKNOWN),
        (503, "", Outcome.UNKNOWN),
        (504, "", Outcome.UNKNOWN),
        (529, "", Outcome.UNKNOWN),
        (200, '{"error": {"code": 429, "message": "overloaded"}}', Outcome.UNKNOWN),
    ],
)
def test_a_status_is_wrong_only_where_asking_again_can_not_help(status: int, text: str, outcome: Outcome) -> None:
    asked = [question for question in EVERY if question.name not in ("names", "acceptance", "streaming", "speed")]
    for verdict in verdicts(Teller(text, status=status), asked):
        assert verdict.outcome is outcome, str(verdict)


def test_a_chat_that_is_refused_for_its_template_is_no_completion() -> None:
    class Broken(Teller):
        async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> Reply:
            if "chat" in path:
                return Reply(status=400, text=self.words)
            return await super().post(path, body, seconds)

        words = ""

    server = Broken(said("a river is wide"))
    questions = read('[[question]]\nname = "t"\njudge = "task"')
    for words, outcome in (
        ("'raise_exception' is undefined", Outcome.WRONG),
        ("Conversation roles must alternate", Outcome.WRONG),
        ("... so you must provide a chat template if ...", Outcome.RIGHT),
        ("The model does not support Chat Completions API", Outcome.RIGHT),
        ("The model `m` does not exist.", Outcome.WRONG),
    ):
        server.words = words
        assert verdicts(server, questions)[0].outcome is outcome, words


@pytest.mark.parametrize("text", ["0s", "1ms"])
def test_no_time_at_all_ends_at_once(text: str) -> None:
    budget = 0.0 if text == "0s" else 0.001
    found = verdicts(Teller(json.dumps(GOOD)), budget=budget)
    assert all(verdict.outcome in (Outcome.UNKNOWN, Outcome.RIGHT, Outcome.WRONG, Outcome.SKIPPED) for verdict in found)
    assert outcome_of(found) is not Outcome.RIGHT


@pytest.mark.parametrize(
    ("outcomes", "whole"),
    [
        ([], "unknown"),
        (["right"], "right"),
        (["right", "skipped"], "right"),
        (["skipped"], "unknown"),
        (["right", "unknown"], "unknown"),
        (["unknown", "wrong"], "wrong"),
        (["right", "wrong"], "wrong"),
    ],
)
def test_one_wrong_gate_makes_a_wrong_model_and_one_doubt_a_doubtful_one(outcomes: list[str], whole: str) -> None:
    gate, note = read(
        '[[question]]\nname = "a"\njudge = "task"\n[[question]]\nname = "b"\njudge = "task"\ngate = false'
    )
    found = [Verdict(question=gate, judgement=Judgement(outcome=Outcome(word)), seconds=0) for word in outcomes]
    assert outcome_of(found) == whole
    noted = [Verdict(question=note, judgement=said, seconds=0) for said in (wrong("x"), unknown("x"), right("x"))]
    assert outcome_of([*found, *noted]) == whole


@pytest.mark.parametrize(("longest", "most"), [(None, 256), (40960, 256), (512, 256), (100, 50), (1, 1), ("9", 256)])
def test_an_answer_is_asked_for_that_leaves_room_for_the_question(longest: object, most: int) -> None:
    models = {"data": [{"id": "m", "max_model_len": longest}]}
    server = Teller(json.dumps({**models, **json.loads(said("Paris"))}))
    assert verdicts(server, EVERY[:1])[0].outcome is Outcome.RIGHT
    assert [body["max_tokens"] for _, body in server.asked] == [most]


def test_the_names_and_the_pace_of_a_server_prove_no_model() -> None:
    names, answer = read('[[question]]\nname = "n"\njudge = "names"\n[[question]]\nname = "f"\njudge = "likelihood"')
    served = Verdict(question=names, judgement=right("m"), seconds=0.1)
    skipped = Verdict(question=answer, judgement=Judgement(outcome=Outcome.SKIPPED), seconds=0.1)
    assert outcome_of([served, skipped]) is Outcome.UNKNOWN
    assert outcome_of([served]) is Outcome.RIGHT


def test_a_logprob_of_minus_infinity_is_none_however_it_is_written() -> None:
    choice = {
        "prompt_token_ids": [1, 2, 3],
        "prompt_logprobs": [None, {"2": {"logprob": -9999.0}}, {"3": {"logprob": -1}}],
    }
    server = Teller(json.dumps({"choices": [{"text": "a", "finish_reason": "length", **choice}]}))
    found = verdicts(server, read('[[question]]\nname = "q"\njudge = "likelihood"'))[0]
    assert found.outcome is Outcome.WRONG
    assert "1 of 2 logprobs" in found.judgement.found
