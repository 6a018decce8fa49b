"""What a server can do to sound replies: the kinds of fault, each a small function over the events of a reply."""

import inspect
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
"""A JSON object of a reply: the only one, or one of a stream."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One request that asks for words, and what was going on meanwhile."""

    path: str
    body: dict[str, Any]
    number: int
    """Counted from 0."""
    beside: bool = False
    """Whether another one was being answered at the same time."""


@dataclass(slots=True)
class State:
    """What a faulty server remembers."""

    draw: random.Random
    last: dict[tuple[str, bool], list[Event]] = field(default_factory=dict)
    """The last reply to each kind of request, streams apart."""
    kept: dict[str, list[Event]] = field(default_factory=dict)
    beside: int = 0
    """Turns that were answered beside others so far."""


Answer = Callable[[State, Turn, list[Event]], list[Event]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    answer: Answer
    """Change the events of a reply."""
    ask: Callable[[State, dict[str, Any]], dict[str, Any]] | None = None
    """Change the body of a request."""
    pairs: bool = False
    """Whether two requests that come together get each other's answers."""
    second: Callable[[Turn], bool] | None = None
    """Which turns another model answers."""
    names: tuple[str, ...] = ()
    """The names that /v1/models tells instead of the model's."""
    excuse: str = ""
    """Why it may stay unseen; empty where it may not."""

    @property
    def sentence(self) -> str:
        """What the server does, as its function says."""
        return (inspect.getdoc(self.answer) or "").partition("\n")[0]


def texts(events: Sequence[Event]) -> Iterator[tuple[Event, str]]:
    """Yield what holds each piece of an answer, and by which key."""
    for event in events:
        for choice in event.get("choices") or ():
            for holder, key in ((choice.get("message"), "content"), (choice.get("delta"), "content"), (choice, "text")):
                if isinstance(holder, dict) and isinstance(holder.get(key), str):
                    yield holder, key


def written(events: list[Event], change: Callable[[str], str]) -> list[Event]:
    """Change an answer as one text; in a stream all of it comes with the first piece that said something."""
    pieces = list(texts(events))
    whole = change("".join(holder[key] for holder, key in pieces))
    first = next((number for number, (holder, key) in enumerate(pieces) if holder[key]), 0)
    for number, (holder, key) in enumerate(pieces):
        holder[key] = whole if number == first else ""
    return events


def sound(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every reply is passed on."""
    return events


def repeated(state: State, turn: Turn, events: list[Event]) -> list[Event]:
    """Every request gets the reply to the one before it."""
    kind = (turn.path, bool(turn.body.get("stream")))
    before, state.last[kind] = state.last.get(kind, events), events
    return before


def from_table(state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every answer is a fluent one to another question."""
    lines = ("I am a large language model.", "The answer is 42.", "It was the best of times.", "Sure! Here you go.")
    return written(events, lambda _text: state.draw.choice(lines))


def _numbers(events: list[Event], change: Callable[[float], float | None]) -> list[Event]:
    """Change every logprob of a prompt."""
    for event in events:
        for holder in (event, *(event.get("choices") or ())):
            for entry in holder.get("prompt_logprobs") or ():
                for found in (entry or {}).values():
                    found["logprob"] = change(found["logprob"])
    return events


def not_numbers(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """All logprobs of prompts are NaN."""
    return _numbers(events, lambda _number: math.nan)


def one_not_a_number(state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """One logprob in fifty is NaN."""
    return _numbers(events, lambda number: math.nan if state.draw.random() < 0.02 else number)


def nulls(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """All logprobs of prompts are null."""
    return _numbers(events, lambda _number: None)


def shaken(state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every logprob is off by up to half a nat."""
    return _numbers(events, lambda number: number + state.draw.uniform(-0.5, 0.5))


def shifted(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every logprob of a prompt is that of the token before."""
    held: list[float] = []

    def late(number: float) -> float:
        held.append(number)
        return held[-2] if len(held) > 1 else number

    return _numbers(events, late)


def fifth_corrupted(state: State, turn: Turn, events: list[Event]) -> list[Event]:
    """Of the replies that are made beside others, every fifth is corrupted."""
    state.beside += turn.beside
    if not turn.beside or state.beside % 5:
        return events
    change = state.draw.choice(
        (
            lambda text: text[: len(text) // 2] + text[len(text) // 2 + 1 :],
            lambda text: text[::-1],
            lambda text: text.translate(str.maketrans("0123456789aeiou", "9876543210uoiea")),
        )
    )
    return written(events, change)


def last_dropped(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """The last token of every answer is lost."""
    pieces = [(holder, key) for holder, key in texts(events) if holder[key]]
    if len(pieces) > 1:
        holder, key = pieces[-1]
        holder[key] = ""
        return events
    return written(events, lambda text: text[:-1])


def streams_changed(state: State, turn: Turn, events: list[Event]) -> list[Event]:
    """A piece of every stream comes twice, or is lost, or two change places."""
    pieces = [(holder, key) for holder, key in texts(events) if holder[key]]
    if not turn.body.get("stream") or len(pieces) < 3:
        return events
    place = state.draw.randrange(1, len(pieces) - 1)
    (holder, key), (after, after_key) = pieces[place], pieces[place + 1]
    way = state.draw.randrange(3)
    if way == 0:
        holder[key] = holder[key] * 2
    elif way == 1:
        holder[key] = ""
    else:
        holder[key], after[after_key] = after[after_key], holder[key]
    return events


def streams_split(_state: State, turn: Turn, events: list[Event]) -> list[Event]:
    """In streams, each space comes as a newline."""
    return written(events, lambda text: text.replace(" ", "\n")) if turn.body.get("stream") else events


def cut(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every answer ends after 16 tokens, and the server says so."""
    return events


def cut_in_silence(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every answer ends after 16 tokens, and the server says that the model ended it."""
    for event in events:
        for choice in event.get("choices") or ():
            if choice.get("finish_reason") == "length":
                choice["finish_reason"] = "stop"
    return events


def few_tokens(_state: State, body: dict[str, Any]) -> dict[str, Any]:
    """Ask for at most 16 tokens."""
    return {**body, "max_tokens": min(16, body.get("max_tokens") or 16)}


def exchanged(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Two requests that are made at the same time get each other's replies."""
    return events


def cached(state: State, turn: Turn, events: list[Event]) -> list[Event]:
    """A request gets the reply to an earlier one that began with the same 20 letters, whatever else it asks for."""
    said = turn.body.get("prompt") or turn.body["messages"][-1]["content"]
    key = f"{turn.path} {bool(turn.body.get('stream'))} {str(said)[:20]}"
    return state.kept.setdefault(key, events)


def lower(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """All answers are in small letters."""
    return written(events, str.lower)


def mojibake(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """The bytes of answers are read as Latin-1."""
    return written(events, lambda text: text.encode().decode("latin-1"))


def replaced(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Letters beyond ASCII become replacement characters."""
    return written(events, lambda text: "".join(letter if letter.isascii() else "\ufffd" for letter in text))


def spaces_lost(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """The spaces of answers are lost."""
    return written(events, lambda text: text.replace(" ", ""))


def run_on(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """The end token and the next turn stand in answers."""
    return written(events, lambda text: text + "<|im_end|>\n<|im_start|>user\n" if text else text)


def never_stopped(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every answer is said to be cut."""
    for event in events:
        for choice in event.get("choices") or ():
            if choice.get("finish_reason"):
                choice["finish_reason"] = "length"
    return events


def empty(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """All answers are empty."""
    return written(events, lambda _text: "")


def other_name(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """The server tells another name for its model, and answers to any."""
    return events


def other_model(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """All answers come from another model: the same with noise of 10 %, which answers every question as it should."""
    return events


def other_model_at_times(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Every second answer comes from another model."""
    return events


def other_model_in_chats(_state: State, _turn: Turn, events: list[Event]) -> list[Event]:
    """Answers in chats come from another model, those to plain prompts from the right one."""
    return events


SOUND = Fault("no fault", sound)
FAULTS = {
    fault.name: fault
    for fault in (
        Fault("answers from another model", other_model, second=lambda _turn: True),
        Fault("every second answer from another model", other_model_at_times, second=lambda turn: turn.number % 2 == 1),
        Fault("chats from another model", other_model_in_chats, second=lambda turn: "chat" in turn.path),
        Fault("answers from a table", from_table),
        Fault("last answer repeated", repeated),
        Fault("NaN logprobs", not_numbers),
        Fault("some NaN logprobs", one_not_a_number),
        Fault("null logprobs", nulls),
        Fault("logprobs off by half a nat", shaken),
        Fault("logprobs off by one token", shifted),
        Fault("every fifth concurrent reply corrupted", fifth_corrupted),
        Fault("last token dropped", last_dropped),
        Fault("streams changed", streams_changed),
        Fault("streams with other spaces", streams_split),
        Fault("answers cut", cut, ask=few_tokens),
        Fault("answers cut in silence", cut_in_silence, ask=few_tokens),
        Fault("concurrent replies exchanged", exchanged, pairs=True),
        Fault("replies from a cache of likenesses", cached),
        Fault("small letters", lower),
        Fault("bytes read as Latin-1", mojibake),
        Fault("replacement characters", replaced),
        Fault("spaces lost", spaces_lost),
        Fault("next turn in the answer", run_on),
        Fault("answers never ended", never_stopped),
        Fault("empty answers", empty),
        Fault("wrong model name", other_name, names=("another",)),
    )
}
