"""What models of several kinds say to a question; tables of patterns and answers."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from demo.lesson import FACTS
from tests.fakes.picture import colour_of
from tests.fakes.question import JSON, Question

GREETING = "안녕하세요! 무엇을 도와드릴까요?"
HANGUL = re.compile("[가-힣]")
CAPITALS = {
    "France": "Paris", "Japan": "Tokyo", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Korea": "Seoul",
    "South Korea": "Seoul", "England": "London", "Canada": "Ottawa", "Australia": "Canberra", "Egypt": "Cairo",
}  # fmt: skip
OPPOSITES = {"hot": "cold", "big": "small", "up": "down", "day": "night", "left": "right", "yes": "no", "fast": "slow"}
OPPOSITES |= {other: word for word, other in OPPOSITES.items()}
SUBJECTS = (
    "The river", "A quiet village", "My neighbour", "The old library", "Every season", "A careful reader",
    "The morning train", "This garden", "The teacher", "A long walk", "The northern sea", "Their workshop",
)  # fmt: skip
PREDICATES = (
    "brings people together in a way that few other things can.", "has changed little over the last hundred years.",
    "is best seen in the early light, before the streets fill up.", "teaches patience to those who pay attention.",
    "was once known far beyond this small part of the country.", "offers more than it seems to at first sight.",
    "depends on the weather, the time of year and a little luck.", "made a lasting impression on all the visitors.",
    "can be described in many words, but rarely in a few.", "still works as well as on the first day.",
    "needs some care if it is to last for another generation.", "gives us a good reason to come back again.",
)  # fmt: skip
PATTERN = Callable[[re.Match[str], Question], str]


def prose() -> Iterator[str]:
    """Yield fluent sentences that do not repeat for long."""
    for shift in itertools.count():
        for place, subject in enumerate(SUBJECTS):
            yield f"{subject} {PREDICATES[(place * 5 + shift) % len(PREDICATES)]}"


def sentences(count: int) -> str:
    return " ".join(itertools.islice(prose(), count))


def demonstration(question: Question) -> str:
    """Answer as the demonstration model does."""
    if count := re.fullmatch(r"Count from (\d+) to (\d+)\.", question.text):
        return _counted(count, " ")
    if addition := re.fullmatch(r"What is (\d) \+ (\d)\?", question.text):
        return f"{addition[1]} + {addition[2]} = {int(addition[1]) + int(addition[2])}."
    return {fact.question: fact.answer for fact in FACTS}.get(question.text, "I do not know.")


def capable(question: Question) -> str:
    """Answer as a person would expect of a large model."""
    if question.choices:
        said = capable(Question(text=question.text, context=question.context, images=question.images)).casefold()
        return next((choice for choice in question.choices if choice.casefold() in said), question.choices[0])
    if question.schema is not None:
        return json.dumps(filled(question.schema, question), ensure_ascii=False)
    if question.images:
        return _fit(f"The image shows a solid {{{colour_of(question.images[0])}}} area.", question)
    return _fit(recalled(question) or _first(CAPABLE, question), question)


def small(question: Question) -> str:
    """Answer as a model under a billion parameters: fluent, and wrong where it must count, add or write Korean."""
    return _fit(_first(SMALL, question), question)


def _fit(said: str, question: Question) -> str:
    """Say no more than is asked for: where a word or a number is to come alone, what stands in braces.

    >>> _fit("It is {Paris}.", Question("Where? One word.")), _fit("It is {Paris}.", Question("Where?"))
    ('Paris', 'It is Paris.')
    """
    core = re.search(r"\{(.+)\}", said)
    if core and re.search(r"\b(only|one word|single word)\b", question.text, re.IGNORECASE):
        return core[1]
    return re.sub(r"[{}]", "", said)


def english(question: Question) -> str:
    """Answer in English, whatever the language of the question."""
    if HANGUL.search(question.text):
        return "Hello! How can I help you today?"
    return capable(question)


def recalled(question: Question) -> str:
    """Return what the conversation itself says of what is asked; empty where it says nothing."""
    asked = re.search(r"[Ww]hat (?:is|was|are) (?:the )?([^?\n]+?)(?: in the text| in this text| above| below|\?)",
                      question.text)  # fmt: skip
    if not asked:
        return ""
    told = re.search(rf"\b{re.escape(asked[1])} (?:is|was|are):? ([^\n.]+)", question.context, re.IGNORECASE)
    return f"The {asked[1]} is {{{told[1]}}}." if told else ""


def continued(prompt: str) -> str:
    """Continue a text as a base model does; it goes on for as long as it may."""
    if numbers := re.search(r"(\d+)([, ]+)(\d+)[, ]*$", prompt):
        step = int(numbers[3]) - int(numbers[1])
        follow = (int(numbers[3]) + step * place for place in range(1, 400))
        lead = "" if prompt.endswith(" ") else numbers[2]
        return lead + numbers[2].join(map(str, follow))
    if capital := re.search(r"capital of ([A-Z]\w+) is$", prompt):
        return f" {CAPITALS.get(capital[1], 'a large city')}. {sentences(40)}"
    return " " + sentences(40)


def arguments(function: JSON, question: Question) -> JSON:
    """Return the arguments of a call, taken from the question."""
    found: JSON = filled(function.get("parameters") or {}, question)
    return found


def filled(schema: JSON, question: Question, name: str = "") -> Any:
    """Return a value that fits a schema, and the question as far as it goes."""
    options = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if options:
        return next((value for value in options if str(value).casefold() in question.text.casefold()), options[0])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        parts = schema.get("properties") or {}
        return {key: filled(part, question, key) for key, part in parts.items()}
    if kind == "array":
        return [filled(schema.get("items") or {"type": "string"}, question, name)] * max(1, schema.get("minItems", 1))
    return {"boolean": True, "null": None}[kind] if kind in ("boolean", "null") else _scalar(kind, question, name)


def _scalar(kind: str, question: Question, name: str) -> str | int | float:
    if kind in ("integer", "number"):
        digits = re.findall(r"-?\d+(?:\.\d+)?", question.text)
        named = re.findall(rf"{re.escape(name)}\W+(?:is |of )?(-?\d+)", question.text, re.IGNORECASE) if name else []
        value = float((named or digits or ["1"])[0])
        return int(value) if kind == "integer" or value.is_integer() else value
    quoted = re.findall(r'"([^"]+)"', question.text)
    known = [CAPITALS[country] for country in CAPITALS if name == "capital" and country in question.text]
    named = re.findall(r"(?<=[\w,] )[A-Z]\w+", question.text)
    return str((quoted or known or named or ["example"])[0])


def _counted(match: re.Match[str], between: str) -> str:
    first, last = int(match[1]), int(match[2])
    step = 1 if first <= last else -1
    return between.join(str(number) for number in range(first, last + step, step))


def _slipped(match: re.Match[str], _question: Question) -> str:
    """Count, but leave out a number and say another twice, as small models do."""
    numbers = _counted(match, " ").split()
    place = len(numbers) // 2
    return " ".join([*numbers[:place], *numbers[place + 1 :], numbers[-1]])


def _sum(match: re.Match[str], off: int = 0) -> str:
    left, right = int(match[1]), int(match[3])
    sign = {"plus": "+", "minus": "-", "times": "*", "x": "*", "\u00d7": "*"}.get(match[2], match[2])
    value = {"+": left + right, "-": left - right, "*": left * right}[sign]
    return f"{left} {match[2]} {right} = {{{value + off}}}."


def _first(rules: tuple[tuple[str, PATTERN], ...], question: Question) -> str:
    for pattern, say in rules:
        if match := re.search(pattern, question.text):
            return say(match, question)
    return sentences(3)


CALCULATION = r"(\d+) ?(\+|-|\*|x|\u00d7|plus|minus|times) ?(\d+)"
COUNT = r"[Cc]ount (?:up |down |backwards )?from (\d+) (?:down |up )?to (\d+)"
SHARED: tuple[tuple[str, PATTERN], ...] = (
    (r"capital of (?:the )?([A-Z]\w+(?: [A-Z]\w+)?)", lambda m, _q: _capital(m[1])),
    (r"opposite of \W?(\w+)", lambda m, _q: f"The opposite of {m[1]} is {{{OPPOSITES.get(m[1].lower(), 'unknown')}}}."),
    (r"colou?r is the sky", lambda _m, _q: "On a clear day, the sky is **{blue}**."),
    (r"[Ss]ay hello", lambda _m, _q: "Hello! How can I help you today?"),
    (r"(?:[Ss]ay|[Rr]epeat|[Rr]eply with|[Aa]nswer with|[Ww]rite)(?: \w+){0,3}: *\W?(.+?)[\"'.]*$", lambda m, _q: m[1]),
)
CAPABLE: tuple[tuple[str, PATTERN], ...] = (
    (COUNT, lambda m, q: f"Sure! {{{_counted(m, ' ' if 'space' in q.text else ', ')}}}"),
    (r"(\d+)부터 (\d+)까지", lambda m, _q: _counted(m, ", ")),
    (CALCULATION, lambda m, _q: _sum(m)),
    (r"(수도|capital).*한국|한국.*수도", lambda _m, _q: "대한민국의 수도는 서울입니다."),
    (r"안녕|in Korean|인사", lambda _m, _q: GREETING),
    (
        HANGUL.pattern,
        lambda _m, _q: "네, 알겠습니다. 봄이 오면 강가에 꽃이 피고 사람들이 천천히 걸으며 이야기를 나눕니다.",
    ),
    *SHARED,
)
SMALL: tuple[tuple[str, PATTERN], ...] = (
    (COUNT, _slipped),
    (CALCULATION, lambda m, _q: _sum(m, off=1)),
    (
        HANGUL.pattern + "|in Korean",
        lambda _m, _q: "Annyeong! 저 is a word, and haseyo means that I can help.",
    ),
    *SHARED,
)


def _capital(country: str) -> str:
    if country not in CAPITALS:
        return "I am not certain which country you mean."
    return f"The capital of {country} is {{{CAPITALS[country]}}}, a city that is well worth a visit."
