"""What the model says to a request, token by token, with the faults that are about the text."""

import dataclasses
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.fakes import speech
from tests.fakes.knob import faults
from tests.fakes.personality import PERSONALITIES, personality, thoughts
from tests.fakes.piece import pieces
from tests.fakes.question import JSON, Question

CALL = tuple[str, str]
"""The name of a function and its arguments in JSON."""


@dataclasses.dataclass(frozen=True)
class Utterance:
    """What is said before max_tokens cuts it."""

    text: str
    thoughts: str = ""
    calls: tuple[CALL, ...] = ()
    ends: bool = True
    """It ends with the end token; else it goes on until it is cut."""


class Company:
    """The requests that run at the same time, and what was said before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Question] = []
        self._crowded = 0
        self._before: Utterance | None = None

    @contextmanager
    def joined(self, question: Question) -> Iterator[None]:
        with self._lock:
            self._running.append(question)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(question)

    def neighbour(self, question: Question) -> Question:
        """Return the question itself, but for every fifth request in company that of another."""
        time.sleep(0.1)
        with self._lock:
            others = [other for other in self._running if other != question]
            if not others:
                return question
            self._crowded += 1
            return others[0] if self._crowded % 5 == 0 else question

    def previous(self, said: Utterance) -> Utterance:
        """Return what was said before, and remember what is right now."""
        with self._lock:
            before, self._before = self._before, said
        return before or said


COMPANY = Company()


def spoken(question: Question, streamed: bool) -> Utterance:
    """Return what the model says to a chat, with the faults in force."""
    found = faults()
    with COMPANY.joined(question):
        if "corrupt" in found:
            question = COMPANY.neighbour(question)
        said = _other(question) if "other" in found else _said(question)
    return blemished(said, question, found, streamed)


def continuation(prompt: str, streamed: bool) -> Utterance:
    """Return how the model goes on with a text."""
    model = PERSONALITIES["base"] if "other" in faults() else personality()
    said = Utterance(model.continues(prompt), ends=not model.goes_on)
    return blemished(said, Question(prompt), faults(), streamed)


def _said(question: Question) -> Utterance:
    model = personality()
    if question.tools and (model.calls or question.must_call):
        function = question.tools[0]
        given = json.dumps(speech.arguments(function, question), ensure_ascii=False)
        return Utterance("", thoughts(question), ((function["name"], given),))
    return Utterance(model.answers(question), thoughts(question))


def _other(question: Question) -> Utterance:
    """Answer as a model that is another than the one asked for."""
    plain = Question(question.text, question.context)
    text = speech.small(plain) if personality().answers is speech.capable else speech.capable(plain)
    text = text.replace("The capital of France is Paris", "Paris is the capital of France")
    return Utterance(f"As far as I know: {text}" if text == _said(question).text else text)


def blemished(said: Utterance, question: Question, found: frozenset[str], streamed: bool) -> Utterance:
    """Return what the faults in force make of an utterance."""
    if "repeat" in found:
        said = COMPANY.previous(said)
    for name, spoil in TEXTS.items():
        if name in found and (said.text or not said.calls):
            said = dataclasses.replace(said, text=spoil(said.text))
    for name, damage in CALLS.items():
        if name in found and said.calls:
            said = damage(said)
    if found & {"schema", "schema-text"} and question.schema is not None:
        said = dataclasses.replace(said, text=SCHEMA["schema" in found])
    if found & {"degenerate", "runon"}:
        said = dataclasses.replace(said, text=ENDLESS["runon" in found](said.text), ends=False, calls=())
    if "stream" in found and streamed:
        tokens = pieces(said.text)
        said = dataclasses.replace(said, text="".join(tokens[: len(tokens) // 2] + tokens[len(tokens) // 2 + 1 :]))
    return said


def mojibake(text: str) -> str:
    """Read UTF-8 as cp1252, and where that knows no character, as Latin-1.

    >>> mojibake("é")
    'Ã©'
    """
    return "".join(_misread(byte) for byte in text.encode())


def _misread(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


def replaced(text: str) -> str:
    """Lose a character that is not ASCII.

    >>> replaced("안녕하세요!"), replaced("hello")
    ('안녕�세요!', 'hello')
    """
    strange = [place for place, character in enumerate(text) if ord(character) > 127]
    if not strange:
        return text
    middle = strange[len(strange) // 2]
    return f"{text[:middle]}\ufffd{text[middle + 1 :]}"


def _with_another_value(said: Utterance) -> Utterance:
    name, given = said.calls[0]
    changed = {key: _another(value) for key, value in json.loads(given).items()}
    return dataclasses.replace(said, calls=((name, json.dumps(changed)),))


def _another(value: Any) -> Any:
    return value + 1 if isinstance(value, (int, float)) and not isinstance(value, bool) else "elsewhere"


def _as_text(said: Utterance) -> Utterance:
    name, given = said.calls[0]
    body: JSON = {"name": name, "arguments": json.loads(given)}
    return dataclasses.replace(said, calls=(), text=f"<tool_call>\n{json.dumps(body)}\n</tool_call>")


def _cut_short(said: Utterance) -> Utterance:
    name, given = said.calls[0]
    return dataclasses.replace(said, calls=((name, given[:-2]),))


TEXTS: dict[str, Callable[[str], str]] = {
    "wrong": lambda text: text[::-1],
    "empty": lambda _text: "",
    "special": lambda text: f"{text}<|im_end|>",
    "mojibake": mojibake,
    "replacement": replaced,
    "latin": lambda text: f"{text} déjà vu",
}
CALLS: dict[str, Callable[[Utterance], Utterance]] = {
    "tools": _cut_short,
    "tools-value": _with_another_value,
    "wrong": _with_another_value,
    "tools-text": _as_text,
    "empty": lambda said: dataclasses.replace(said, calls=()),
}
SCHEMA = ("It is hard to say, but I would guess so.", '{"unexpected": true}')
ENDLESS: tuple[Callable[[str], str], Callable[[str], str]] = (
    lambda _text: "the " * 4000,
    lambda text: f"{text} {' '.join(itertools.islice(speech.prose(), 144))}",
)
