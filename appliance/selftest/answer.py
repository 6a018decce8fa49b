"""Judges of answers in words."""

import asyncio
import math
import re
from collections.abc import Sequence

from appliance.core.judge import Asked, Concurrent, Counting, Ending, KnownAnswer, Repeatable, Writing
from appliance.core.pattern import ExplodedError, finds
from appliance.core.writing import letters_of, special_tokens, unwhole
from appliance.selftest.talk import Answer, Talk
from appliance.selftest.verdict import Judgement, Outcome, right, unknown, wrong

NUMBER = re.compile(r"(?<!\w)(?<!\d\.)-?\d+(?:,\d{3})*(?:\.\d+)?(?!\d)")
WHOLE = re.compile(r"(?:(?<![\w.])-)?\d+")
LONGEST_NUMBER = 18
"""Characters; what is longer is no number of a question."""

MINUS = str.maketrans("\u2212\u2010\u2011", "---")
"""Signs that models write for a minus or a hyphen."""


async def known_answer(judge: KnownAnswer, talk: Talk) -> Judgement:
    """Hold an answer against the known one."""
    answer = await talk.said(judge)
    if cut := unended(judge, answer, talk):
        return cut
    try:
        expected, fits = _expectation(judge, answer.text)
    except ExplodedError as error:
        return unknown(str(error))
    return right(answer.text, expected) if fits else wrong(answer.text, expected)


def _expectation(judge: KnownAnswer, text: str) -> tuple[str, bool]:
    """Return what is expected, for a person, and whether a text has it. Raises ExplodedError."""
    said = text.strip()
    if judge.equals is not None:
        return judge.equals, said == judge.equals.strip()
    if judge.contains:
        return " or ".join(judge.contains), any(part.casefold() in said.casefold() for part in judge.contains)
    if judge.number is not None:
        found = numbers_in(said)
        return f"{judge.number:g}", bool(found) and found[-1] == judge.number
    pattern = judge.matches or ""
    return pattern, finds(pattern, said)


def numbers_in(text: str) -> list[float]:
    """Return the numbers in a text, in their order.

    >>> numbers_in("12 + 7 = 19."), numbers_in("1,024 of -3.5"), numbers_in("No.19 \u2212 5.0.1")
    ([12.0, 7.0, 19.0], [1024.0, -3.5], [19.0, 5.0])
    """
    found = NUMBER.findall(text.translate(MINUS))
    return [float(number.replace(",", "")) if len(number) <= LONGEST_NUMBER else math.inf for number in found]


def whole_numbers_in(text: str) -> list[float]:
    """Return the runs of digits in a text, in their order: a comma or a point parts two numbers.

    >>> whole_numbers_in("99,100,101.")
    [99.0, 100.0, 101.0]
    """
    found = WHOLE.findall(text.translate(MINUS))
    return [float(number) if len(number) <= LONGEST_NUMBER else math.inf for number in found]


def unended(judge: Asked, answer: Answer, talk: Talk) -> Judgement | None:
    """Return the judgement of an answer that did not come to its end; a text that is only continued has none."""
    cut = cut_off(answer, judge.max_tokens, talk)
    continued = judge.endpoint == "completion" and answer.finish_reason == "length" and not answer.still_thinking
    return None if continued else cut


def cut_off(answer: Answer, most: int, talk: Talk) -> Judgement | None:
    """Return the judgement of an answer that the model did not end itself; None when it did."""
    if answer.finish_reason == "stop" and (answer.text.strip() or not answer.thoughts.strip()):
        return None
    if answer.finish_reason == "length" and (allowed := talk.at_most(most)) < most:
        return unknown(f"cut after {allowed} tokens: the server takes requests of {talk.longest}, this wants {most}")
    if answer.finish_reason == "length" and not (answer.content.strip() or answer.thoughts.strip()):
        return unknown(f"no word within {most} tokens: it may think where nobody sees it; raise max_tokens")
    if answer.still_thinking:
        return unknown(f"still thinking after {most} tokens; raise max_tokens, or set thinking = false")
    if answer.finish_reason == "stop":
        return wrong(answer.content or answer.thoughts, why="ended while it thought")
    if answer.finish_reason == "length":
        return wrong(answer.content, why=f"ran on to {most} tokens")
    return wrong(answer.content, why=f'ended with "{answer.finish_reason}"')


async def counting(judge: Counting, talk: Talk) -> Judgement:
    """Find every number in its place."""
    asked = Asked(
        ask=judge.ask.replace("{first}", str(judge.first)).replace("{last}", str(judge.last)),
        system=judge.system,
        endpoint=judge.endpoint,
        max_tokens=judge.max_tokens,
        thinking=judge.thinking,
    )
    answer = await talk.said(asked)
    if cut := unended(judge, answer, talk):
        return cut
    # "99,100" is two numbers and "1,000" is one: the count may be written either way.
    slips = [_slip(judge, found) for found in (whole_numbers_in(answer.text), numbers_in(answer.text))]
    expected = f"{judge.first} to {judge.last}"
    return wrong(answer.text, expected, slips[0]) if all(slips) else right(answer.text, expected)


def _slip(judge: Counting, found: list[float]) -> str:
    goes_on = judge.endpoint == "chat" and not slip_in(found, judge.first, judge.last + 1)
    return slip_in(found, judge.first, judge.last) or (f"{judge.last + 1} follows {judge.last}" if goes_on else "")


def slip_in(found: Sequence[float], first: int, last: int) -> str:
    """Return where a count leaves its way; empty when it is all there, in one piece.

    >>> slip_in([1, 3, 3, 4, 5], 3, 5), slip_in([3, 5], 3, 5)
    ('', '5 follows 3')
    """
    best, start, length = 0, 0, 0
    for place in range(len(found) - 1, -1, -1):
        goes_on = place + 1 < len(found) and found[place + 1] == found[place] + 1
        length = length + 1 if goes_on else 1
        if found[place] == first and (reached := min(length, last - first + 1)) >= best:
            best, start = reached, place
    if not best:
        return f"{first} is missing"
    if best > last - first:
        return ""
    after = found[start + best : start + best + 1]
    return f"{after[0]:g} follows {first + best - 1}" if after else f"nothing follows {first + best - 1}"


async def writing(judge: Writing, talk: Talk) -> Judgement:
    """Find letters of the script, and none that are broken."""
    answer = await talk.said(judge)
    if cut := unended(judge, answer, talk):
        return cut
    if fault := unwhole(answer.text):
        return wrong(answer.text, why=fault)
    letters = letters_of(judge.script, answer.text)
    expected = f"{judge.letters} letters of {judge.script}"
    if letters >= judge.letters:
        return right(answer.text, expected)
    return wrong(answer.text, expected, f"{letters} letters of it")


async def ending(judge: Ending, talk: Talk) -> Judgement:
    """See that the model ends its answer, and that nothing of the template shows."""
    answer = await talk.said(judge)
    if cut := cut_off(answer, judge.max_tokens, talk):
        return cut
    if token := special_tokens(answer.text):
        return wrong(answer.text, why=f"the special token {token} in the answer")
    return right(answer.text) if answer.text.strip() else wrong(answer.text, why="an empty answer")


async def repeatable(judge: Repeatable, talk: Talk) -> Judgement:
    """Ask several times for the same."""
    first = await talk.said(judge)
    if first.finish_reason not in ("stop", "length"):
        return wrong(first.content, why=f'ended with "{first.finish_reason}"')
    if not (first.content.strip() or first.thoughts.strip()):
        return wrong("", why="an empty answer")
    for _ in range(judge.times - 1):
        again = await talk.said(judge)
        if _everything(again) != _everything(first):
            return wrong(again.content or again.thoughts, first.content or first.thoughts, "another answer than before")
    return right(first.content or first.thoughts)


def _everything(answer: Answer) -> tuple[str, str, str]:
    return answer.content, answer.thoughts, answer.finish_reason


async def concurrent(judge: Concurrent, talk: Talk) -> Judgement:
    """Ask everything at once; each answer must be that of its question."""
    for number in range(judge.rounds):
        asked = [_known(judge, ask, answer) for ask, answer in judge.answers]
        judgements = await asyncio.gather(*(known_answer(question, talk) for question in asked), return_exceptions=True)
        for question, judgement in zip(asked, judgements, strict=True):
            if isinstance(judgement, Judgement) and judgement.outcome is Outcome.WRONG:
                why = f'one of {len(asked)} at once, "{question.ask}", round {number + 1}'
                return wrong(judgement.found, judgement.expected, ": ".join(filter(None, (why, judgement.why))))
        for judgement in judgements:
            if isinstance(judgement, BaseException):
                raise judgement
            if judgement.outcome is Outcome.UNKNOWN:
                return judgement
    return right(f"{len(judge.answers)} answers at once" + (f", {judge.rounds} times" if judge.rounds > 1 else ""))


def _known(judge: Concurrent, ask: str, answer: str) -> KnownAnswer:
    return KnownAnswer(
        ask=ask,
        equals=None if judge.within else answer,
        contains=(answer,) if judge.within else (),
        max_tokens=judge.max_tokens,
        thinking=judge.thinking,
    )
