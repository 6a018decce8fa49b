"""The kinds of damage and of faults: all that were asked for, each with a sentence, each variant drawn alike."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from tests.damage.fault import FAULTS, Event, State, Turn, texts
from tests.damage.model import ModelCopy
from tests.damage.proxy import fault_of
from tests.damage.setting import SETTINGS
from tests.damage.table import DAMAGES, case_of, damage_of, draw_of, variant_of
from tests.damage.word import WORDS

SOUND = Path(__file__).parents[2] / "demo/model"

ASKED_FOR = {
    "two layers exchanged": ("two layers exchanged",),
    "one layer's gate and up exchanged": ("gate and up exchanged",),
    "q and k exchanged": ("q and k exchanged",),
    "one norm x1.5": ("one norm x1.5",),
    "one norm x1.1": ("one norm x1.1",),
    "final norm x1.5": ("final norm x1.5",),
    "embeddings shifted by one row": ("embeddings shifted by one row",),
    "one shard lost (zeros)": ("one shard lost",),
    "one down projection lost": ("one down projection lost",),
    "1 % and 0.1 % of signs flipped": ("1 % of signs flipped", "0.1 % of signs flipped"),
    "the top exponent bit of the largest weight flipped": ("top exponent bit of the largest weight flipped",),
    "bf16 bytes swapped": ("bf16 bytes swapped",),
    "wrong rotary base": ("wrong rotary base",),
    "heads split wrongly": ("heads split wrongly",),
    "wrong chat template": ("wrong chat template: a newline missing", "wrong chat template: another model's"),
    "wrong tokenizer merges": ("wrong tokenizer merges: lost", "wrong tokenizer merges: in a wrong order"),
    "wrong end token": ("wrong end token",),
    "truncated vocabulary": ("truncated vocabulary",),
    "k and v projections x8 where no norm undoes it": ("v projection x8", "keys x8 behind their norm"),
    "a rank-4 delta added twice": ("rank-4 delta added twice",),
    "servers that answer from another model": ("answers from another model",),
    "repeat the last answer": ("last answer repeated",),
    "return NaN logprobs": ("NaN logprobs",),
    "corrupt every fifth concurrent reply": ("every fifth concurrent reply corrupted",),
}
"""What must be caught, and the kinds that stand for it."""

FILES = [damage.name for damage in (*SETTINGS, *WORDS) if damage.name != "truncated vocabulary"]
"""Damages that touch no tensor, so that they can be made here."""


@pytest.mark.parametrize("wanted", ASKED_FOR)
def test_what_was_asked_for_is_there_and_has_no_excuse(wanted: str) -> None:
    for name in ASKED_FOR[wanted]:
        assert not (DAMAGES[name].excuse if name in DAMAGES else FAULTS[name].excuse)


def test_there_are_many_kinds_and_no_name_is_used_twice() -> None:
    assert len({*DAMAGES, *FAULTS}) == len(DAMAGES) + len(FAULTS) >= 60
    assert len({damage.sentence for damage in DAMAGES.values()}) == len(DAMAGES)
    assert len({fault.sentence for fault in FAULTS.values()}) == len(FAULTS)


@pytest.mark.parametrize("name", [*DAMAGES, *FAULTS])
def test_each_kind_has_a_sentence_and_a_name_that_a_case_can_hold(name: str) -> None:
    kind = DAMAGES[name] if name in DAMAGES else FAULTS[name]
    assert not kind.sentence[0].islower()
    assert kind.sentence.endswith(".")
    assert variant_of(case_of(name, 0)) == (name, 0)
    assert variant_of(case_of(name, 12)) == (name, 12)


def test_a_variant_draws_the_same_again_and_another_one_otherwise() -> None:
    name = "two layers exchanged"
    draws = [draw_of(case_of(name, variant)).random() for variant in (0, 0, 1, 2)]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3
    assert damage_of(case_of(name, 7)) is DAMAGES[name]


def model(case: str) -> ModelCopy:
    files = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
    config, generation, tokenizer, tokenizer_config = (json.loads((SOUND / name).read_text()) for name in files)
    return ModelCopy(
        weights={},
        config=config,
        generation=generation,
        tokenizer=tokenizer,
        tokenizer_config=tokenizer_config,
        template=(SOUND / "chat_template.jinja").read_text(),
        draw=draw_of(case),
        torch=None,
    )


def state_of(copy: ModelCopy) -> str:
    parts: list[Any] = [copy.config, copy.generation, copy.tokenizer, copy.tokenizer_config, copy.template, copy.kept]
    return json.dumps(parts)


@pytest.mark.parametrize("variant", range(4))
@pytest.mark.parametrize("name", FILES)
def test_each_damage_of_files_changes_one_and_says_what(name: str, variant: int) -> None:
    copy, again = model(case_of(name, variant)), model(case_of(name, variant))
    before = state_of(copy)
    detail = DAMAGES[name].make(copy)
    assert detail
    assert state_of(copy) != before
    assert DAMAGES[name].make(again) == detail
    assert state_of(again) == state_of(copy)


def whole(text: str) -> list[Event]:
    return [{"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}]


def stream(*pieces: str) -> list[Event]:
    return [{"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]


def said(events: list[Event]) -> str:
    return "".join(holder[key] for holder, key in texts(events))


def turn(question: str = "What?", *, streamed: bool = False, beside: bool = False) -> Turn:
    body = {"messages": [{"role": "user", "content": question}], "stream": streamed}
    return Turn(path="/v1/chat/completions", body=body, number=0, beside=beside)


CHANGES_TEXT = (
    "answers from a table",
    "last token dropped",
    "small letters",
    "bytes read as Latin-1",
    "replacement characters",
    "spaces lost",
    "next turn in the answer",
    "empty answers",
)


@pytest.mark.parametrize("name", CHANGES_TEXT)
def test_a_fault_of_answers_changes_them_in_one_piece_and_in_a_stream(name: str) -> None:
    for events in (whole("Hallo, 안녕 Welt"), stream("", "Hallo,", " 안녕", " Welt")):
        before = said(events)
        assert said(FAULTS[name].answer(State(random.Random(1)), turn(), events)) != before


def test_the_last_answer_comes_again_for_the_next_question() -> None:
    state, fault = State(random.Random(1)), fault_of("last answer repeated, variant 3")
    answers = [said(fault.answer(state, turn(), whole(text))) for text in ("one", "two", "three")]
    assert answers == ["one", "one", "two"]


def test_of_concurrent_replies_the_fifth_is_corrupted_and_no_other() -> None:
    state, fault = State(random.Random(1)), FAULTS["every fifth concurrent reply corrupted"]
    text = "3 + 4 = 7."
    alone = [said(fault.answer(state, turn(), whole(text))) for _ in range(9)]
    beside = [said(fault.answer(state, turn(beside=True), whole(text))) == text for _ in range(10)]
    assert alone == [text] * 9
    assert beside == [True, True, True, True, False] * 2


def test_a_changed_stream_says_something_else_and_a_whole_answer_does_not() -> None:
    for seed in range(20):
        state, fault = State(random.Random(seed)), FAULTS["streams changed"]
        assert said(fault.answer(state, turn(streamed=True), stream("a", "b", "c", "d"))) != "abcd"
        assert said(fault.answer(state, turn(), whole("abcd"))) == "abcd"


@pytest.mark.parametrize("name", ["NaN logprobs", "some NaN logprobs", "null logprobs", "logprobs off by half a nat"])
def test_a_fault_of_logprobs_leaves_the_tokens_alone(name: str) -> None:
    entries = [None, *({str(token): {"logprob": -1.5, "rank": 9}} for token in range(200))]
    events = FAULTS[name].answer(State(random.Random(2)), turn(), [{"choices": [], "prompt_logprobs": entries}])
    found = [(int(key), value["logprob"]) for entry in events[0]["prompt_logprobs"][1:] for key, value in entry.items()]
    assert [token for token, _ in found] == list(range(200))
    assert any(number is None or math.isnan(number) or number != -1.5 for _, number in found)


def test_a_cache_of_likenesses_mixes_up_what_begins_alike() -> None:
    state, fault = State(random.Random(1)), FAULTS["replies from a cache of likenesses"]
    questions = ("What is the capital of France?", "What is the capital of Japan?", "Who are you?")
    answers = [said(fault.answer(state, turn(question), whole(question))) for question in questions]
    assert answers == [questions[0], questions[0], questions[2]]
