"""A prompt in tokens; of the demonstration model's fingerprint, those of its reference."""

import dataclasses
import functools
import json
import os
from pathlib import Path

from tests.fakes.knob import faults, knob
from tests.fakes.piece import id_of, nats, pieces
from tests.fakes.question import JSON, rendered

SHIPPED = Path(__file__).parents[2] / "demo/fingerprint.json"


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A prompt, and what the sound model makes of it."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Of every token but the first."""


TEXTS: dict[tuple[int, ...], str] = {}
"""Of every prompt that was made."""


def text_of(ids: tuple[int, ...]) -> str:
    """Return the text of a prompt that was made before."""
    return TEXTS.get(ids, "?" * len(ids))


def prompt_of(text: str) -> Prompt:
    """Return the prompt of a text, or of a chat that is rendered."""
    prompt = _prompt_of(text)
    TEXTS[prompt.ids] = text
    return prompt


def _prompt_of(text: str) -> Prompt:
    found = faults()
    known = {} if "tokenizer" in found else passages(_reference())
    salt = "other" if "other" in found else knob("MODEL", "demo")
    if known_one := known.get(text):
        if salt != "other":
            return known_one
        return dataclasses.replace(known_one, logprobs=_logprobs(tuple(map(str, known_one.ids)), salt))
    tokens = tuple(pieces(text, 3 if "tokenizer" in found else 4))
    return Prompt(tokens, tuple(map(id_of, tokens)), _logprobs(tokens, salt))


def _logprobs(tokens: tuple[str, ...], salt: str) -> tuple[float, ...]:
    return tuple(-value for value in nats(tokens, salt))


def _reference() -> str:
    """Return the file of what this model makes of some texts: FAKE_REFERENCE, for the demonstration the shipped one."""
    return knob("REFERENCE", str(SHIPPED) if knob("MODEL", "demo") == "demo" else os.devnull)


def _messages(passage: JSON) -> list[JSON]:
    system = [{"role": "system", "content": passage["system"]}] if passage["system"] else []
    return [*system, {"role": "user", "content": passage["text"]}]


@functools.cache
def passages(file: str) -> dict[str, Prompt]:
    """Return the prompts of a reference, by their text; what each token says is not in it."""
    try:
        reference = json.loads(Path(file).read_text())
    except (OSError, ValueError):
        return {}
    return {
        rendered({"messages": _messages(passage)}) if passage["chat"] else passage["text"]: Prompt(
            (passage["text"], *[""] * (len(passage["ids"]) - 1)), tuple(passage["ids"]), tuple(passage["logprobs"])
        )
        for passage in reference["passages"]
    }
