"""The models that the fake engine can be, by FAKE_MODEL."""

import dataclasses
import itertools
from collections.abc import Callable

from tests.fakes import speech
from tests.fakes.knob import knob, number
from tests.fakes.piece import pieces
from tests.fakes.question import Question

TALK = frozenset({"chat", "completions", "tokenize"})


@dataclasses.dataclass(frozen=True)
class Personality:
    """One kind of model."""

    answers: Callable[[Question], str] = speech.capable
    continues: Callable[[str], str] = speech.continued
    goes_on: bool = False
    """A text that it continues has no end of its own."""
    tasks: frozenset[str] = TALK
    template: bool = True
    """The checkpoint has a chat template."""
    calls: bool = False
    """It can call tools, and the server has a parser for its calls, also without the options that ask for one."""
    sees: bool = False
    thinks: str = ""
    """"field": the server parses its thoughts; "inline": only their end is in the text; "tags": both ends are."""


PERSONALITIES = {
    "demo": Personality(speech.demonstration, continues=lambda _prompt: " blue."),
    "large": Personality(calls=True, sees=True),
    "base": Personality(goes_on=True, template=False),
    "small": Personality(speech.small),
    "english": Personality(speech.english, calls=True),
    "thinking": Personality(calls=True, thinks="field"),
    "thinking-inline": Personality(thinks="inline"),
    "thinking-tags": Personality(thinks="tags"),
    "embedding": Personality(tasks=frozenset({"embed", "score", "tokenize"})),
    "rerank": Personality(tasks=frozenset({"classify", "score", "tokenize"})),
    "transcription": Personality(tasks=frozenset({"transcription", "tokenize"})),
}


def personality() -> Personality:
    return PERSONALITIES[knob("MODEL", "demo")]


def thoughts(question: Question) -> str:
    """Return what the model thinks before it answers: FAKE_THOUGHTS tokens."""
    if not personality().thinks or not question.think:
        return ""
    most = int(number("THOUGHTS", 150))
    long = " ".join(itertools.islice(speech.prose(), most // 8 + 2))
    return "".join(pieces(f"The user asks: {question.text[:60]} Let me think about it. {long}")[:most])
