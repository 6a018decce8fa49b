"""What judges make of answers in words."""

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.reply import Reply, ReplyError, Trouble
from appliance.selftest.answer import numbers_in, slip_in, whole_numbers_in
from appliance.selftest.form import schema_fault
from appliance.selftest.server import accepted_length
from appliance.selftest.talk import parted
from appliance.selftest.verdict import Outcome, quoted
from tests.unit.teller import Teller, judged, read, said, verdicts

COUNTING = 'judge = "counting"\nfirst = {}\nlast = {}'


@pytest.mark.parametrize(
    ("first", "last", "answer"),
    [
        (5, 9, "5 6 7 8 9"),
        (5, 9, "Sure! 5, 6, 7, 8, 9."),
        (5, 9, "5.6.7.8.9."),
        (5, 9, "5\n6\n7\n8\n9"),
        (5, 9, "Count from 5 to 9: 5 6 7 8 9. That is 5 numbers."),
        (98, 102, "98,99,100,101,102"),
        (998, 1002, "998 999 1,000 1,001 1,002"),
        (998, 1002, "998,999,1000,1001,1002"),
        (-2, 2, "-2, -1, 0, 1, 2"),
        (-2, 2, "\u22122 \u22121 0 1 2"),
        (5, 9, "5-6-7-8-9"),
        (5, 9, "5→6→7→8→9"),
    ],
)
def test_a_count_is_right_however_it_is_written(first: int, last: int, answer: str) -> None:
    assert judged(COUNTING.format(first, last), answer).outcome is Outcome.RIGHT


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("5 6 8 9", "8 follows 6"),
        ("5 6 7 8", "nothing follows 8"),
        ("6 7 8 9", "5 is missing"),
        ("5 6 7 7 8 9", "7 follows 7"),
        ("5 6 7 8 9 10 11", "10 follows 9"),
        ("5.5 6.5 7.5 8.5 9.5", "5 follows 6"),
        ("five", "5 is missing"),
        ("", "5 is missing"),
        ("5 6 " + "7" * 5000 + " 8 9", "inf follows 6"),
    ],
)
def test_a_count_with_a_slip_is_wrong(answer: str, why: str) -> None:
    found = judged(COUNTING.format(5, 9), answer)
    assert (found.outcome, found.why) == (Outcome.WRONG, why)


@pytest.mark.parametrize(
    ("answer", "number", "fits"),
    [
        ("12 + 7 = 19.", 19, True),
        ("The result is **19**", 19, True),
        ("No.19", 19, True),
        ("It is \u22123", -3, True),
        ("1,024", 1024, True),
        ("$0.10", 0.1, True),
        ("19 (that is 12 and 7)", 19, False),
        ("190", 19, False),
        ("nineteen", 19, False),
        ("9" * 400, 9, False),
    ],
)
def test_the_last_number_of_an_answer_counts(answer: str, number: float, fits: bool) -> None:
    text = f'judge = "answer"\nask = "a"\nnumber = {number}'
    assert (judged(text, answer).outcome is Outcome.RIGHT) is fits


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ("Red", True),
        ("It's a solid **red** square.", True),
        ("I can't see the picture that you referred to.", False),
        ("A coloured, rendered picture", False),
        ("", False),
    ],
)
def test_a_colour_is_named_only_as_a_word(answer: str, fits: bool) -> None:
    assert (judged('judge = "image"', answer).outcome is Outcome.RIGHT) is fits


def test_a_pattern_that_does_not_end_is_no_wrong_answer() -> None:
    # Its letters are not among those that a pattern is tried on.
    text = "judge = 'answer'\nask = 'a'\nmatches = '^(?:\\p{Hangul}|\\p{Hangul}\\p{Hangul})+$'"
    found = judged(text, "안" * 5000 + "!")
    assert found.outcome is Outcome.UNKNOWN
    assert found.why == "the pattern did not end within 1 s on 5001 characters"


def test_an_argument_that_is_true_is_not_one() -> None:
    text = 'judge = "tool"\nask = "a"\ntool = "t"\nparameters = {}\narguments = { a = 1, b = [2.0] }'
    for given_, outcome in (('{"b": [2], "a": 1.0}', Outcome.RIGHT), ('{"a": true, "b": [2]}', Outcome.WRONG)):
        call = {"function": {"name": "t", "arguments": given_}}
        assert judged(text, "", tool_calls=[call]).outcome is outcome


def test_a_tool_call_without_content_is_an_answer() -> None:
    choice = {
        "message": {"tool_calls": [{"function": {"name": "t", "arguments": "{}"}}]},
        "finish_reason": "tool_calls",
    }
    text = '[[question]]\nname = "q"\njudge = "tool"\nask = "a"\ntool = "t"\nparameters = {}\narguments = {}'
    assert verdicts(Teller(json.dumps({"choices": [choice]})), read(text))[0].outcome is Outcome.RIGHT


def test_a_word_in_a_haystack_is_found_however_its_hyphen_is_written() -> None:
    assert judged('judge = "needle"', "Marzipan\u201147").outcome is Outcome.RIGHT


def test_a_text_that_is_only_continued_need_not_end() -> None:
    more = {"finish_reason": "length"}
    counting = COUNTING.format(5, 9) + '\nask = "{first} {last}"\nendpoint = "completion"'
    assert judged(counting, "5 6 7 8 9 10", **more).outcome is Outcome.RIGHT
    assert judged(COUNTING.format(5, 9), "5 6 7 8 9", **more).why == "ran on to 256 tokens"


def test_a_wrong_answer_counts_although_another_at_once_could_not_be_had() -> None:
    text = 'judge = "concurrent"\nanswers = { a = "b", c = "d" }'

    class Half(Teller):
        async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> Reply:
            if body["messages"][-1]["content"] == "a":
                raise ReplyError("no reply", Trouble.BUSY)
            return await super().post(path, body, seconds)

    found = verdicts(Half(said("x")), read(f'[[question]]\nname = "q"\n{text}'))[0]
    assert found.outcome is Outcome.WRONG


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<think>hm</think>Paris", "Paris"),
        ("hm\n</think>\n\nParis", "\n\nParis"),
        ("<thinking>a</thinking>b", "b"),
        ("<seed:think>a</seed:think>b", "b"),
        ("[THINK]a[/THINK]b", "b"),
        (" <think>a", ""),
        ("a <think> b", "a <think> b"),
        ("</think>", ""),
        ("think", "think"),
    ],
)
def test_thoughts_are_parted_from_the_answer(content: str, text: str) -> None:
    assert parted(content) == (text, content.removesuffix(text) if text else content)


@settings(deadline=None)
@given(
    st.text()
    | st.lists(st.sampled_from(["<think>", "</think>", "[/THINK]", "a", "\n", " ", "<", "think"])).map("".join)
)
def test_parting_loses_nothing(content: str) -> None:
    text, thoughts = parted(content)
    assert thoughts + text == content
    assert "</think>" not in text


@given(st.text())
def test_counters_of_any_text_are_none_or_numbers(text: str) -> None:
    assert accepted_length(text) is None


@pytest.mark.parametrize("number", ["1e", "..", "1e999", "nan", "-1", ""])
def test_a_counter_that_is_no_number_tells_nothing(number: str) -> None:
    lines = ['vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 3', "vllm:spec_decode_num_drafts 4"]
    assert accepted_length("\n".join(lines)) == (1.0, 2)
    lines[1] = f"vllm:spec_decode_num_drafts {number}"
    assert accepted_length("\n".join(lines)) is None


@given(st.text())
def test_a_quoted_text_is_short_and_printable(text: str) -> None:
    assert len(quoted(text)) <= 82
    assert quoted(text).isprintable()


@settings(deadline=None)
@given(st.integers(-999, 999), st.integers(1, 60), st.sampled_from([" ", ", ", ",", "\n", " - ", "; ", "→"]))
def test_every_whole_count_is_found_in_prose(first: int, length: int, between: str) -> None:
    numbers = list(range(first, first + length + 1))
    text = f"Here it is: {between.join(map(str, numbers))}. That is {length + 1} in all."
    assert slip_in(whole_numbers_in(text), first, first + length) == ""


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 6), st.integers(1, 6))
def test_a_slip_is_told_exactly_when_no_part_is_the_count(found: list[int], first: int, length: int) -> None:
    wanted = list(range(first, first + length + 1))
    there = any(found[place : place + len(wanted)] == wanted for place in range(len(found)))
    slip = slip_in(found, first, first + length)
    assert (slip == "") is there
    if slip and first in found:
        number, _, before = slip.partition(" follows ")
        assert int(before) in found
        assert number == "nothing" or int(number) in found


@given(st.text())
def test_any_text_has_numbers_or_none(text: str) -> None:
    assert not any(math.isnan(number) for number in (*numbers_in(text), *whole_numbers_in(text)))


@given(st.lists(st.floats(-1e9, 1e9).map(lambda number: round(number, 3)), min_size=1))
def test_numbers_are_read_as_they_are_written(numbers: list[float]) -> None:
    assert numbers_in(" and ".join(f"{number:.3f}" for number in numbers)) == numbers


def test_a_long_text_of_numbers_takes_no_long_time() -> None:
    assert slip_in([1.0] * 500_000, 1, 1000) == "1 follows 1"


REPEATED = 'judge = "repeatable"\nask = "a"'


def test_an_answer_of_nothing_or_one_that_was_given_up_repeats_nothing() -> None:
    assert judged(REPEATED, "").outcome is Outcome.WRONG
    assert judged(REPEATED, "x", finish_reason="content_filter").outcome is Outcome.WRONG
    assert judged(REPEATED, "x").outcome is Outcome.RIGHT
    assert judged(REPEATED, "", reasoning="hm", finish_reason="length").outcome is Outcome.RIGHT


def test_thoughts_that_differ_are_another_answer() -> None:
    cut = [said("", reasoning=thought, finish_reason="length") for thought in ("hm", "hm?")]
    question = read(f'[[question]]\nname = "q"\n{REPEATED}\nthinking = true')
    server = Teller(said("any"), *cut)
    assert {verdict.outcome for verdict in verdicts(server, question)} <= {Outcome.WRONG}


SCHEMA = 'judge = "structured"\nask = "a"\nschema = { type = "object", properties = { a = { %s } } }'


@pytest.mark.parametrize(
    ("part", "answer", "outcome"),
    [
        ("minimum = 1, maximum = 5", '{"a": NaN}', Outcome.WRONG),
        ("minimum = 1, maximum = 5", '{"a": 2}', Outcome.RIGHT),
        ("multipleOf = 0.1", '{"a": 1%s}' % ("0" * 400), Outcome.UNKNOWN),
        ("pattern = '^\\p{L}+$'", '{"a": "é"}', Outcome.RIGHT),
        ("pattern = '^\\p{L}+$'", '{"a": "1"}', Outcome.WRONG),
    ],
)
def test_an_answer_is_held_against_its_schema(part: str, answer: str, outcome: Outcome) -> None:
    assert judged(SCHEMA % part, answer).outcome is outcome


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ('{"$dynamicRef": "#nope"}', "not followed"),
        ('{"properties": {"a": {"$id": "http://x/", "$ref": "#b"}}}', "not followed"),
        ('{"$id": "http://x/", "type": "object"}', ""),
        ('{"properties": {"$id": {"type": "string"}}}', ""),
        ('{"patternProperties": {"^\\\\p{L}+$": {}}}', "a pattern that can't be used"),
    ],
)
def test_a_schema_that_would_be_fetched_or_can_not_be_used_is_told(schema: str, told: str) -> None:
    fault = schema_fault(schema)
    assert (told in fault) if told else not fault
