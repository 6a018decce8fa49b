"""A server that says what a test tells it to, and the asking of it."""

import asyncio
import copy
import json
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from appliance.core.document import Reader, document_of
from appliance.core.question import Question, questions_of
from appliance.core.reply import Reply
from appliance.selftest.examination import Examination, examined
from appliance.selftest.verdict import Judgement, Verdict

QUESTIONS = """
[[question]]
name = "answer"
judge = "answer"
ask = "a"
contains = "Paris"

[[question]]
name = "pattern"
judge = "answer"
ask = "a"
matches = "P(a|b)r"

[[question]]
name = "number"
judge = "answer"
ask = "a"
number = 3

[[question]]
name = "completion"
judge = "answer"
ask = "a"
endpoint = "completion"
equals = "Paris"

[[question]]
name = "counting"
judge = "counting"

[[question]]
name = "writing"
judge = "writing"
ask = "a"
script = "hangul"

[[question]]
name = "likelihood"
judge = "likelihood"

[[question]]
name = "repeatable"
judge = "repeatable"
ask = "a"

[[question]]
name = "streaming"
judge = "streaming"
ask = "a"

[[question]]
name = "names"
judge = "names"

[[question]]
name = "tool"
judge = "tool"
ask = "a"
tool = "t"
parameters = { type = "object" }
arguments = { a = 1 }

[[question]]
name = "reasoning"
judge = "reasoning"
ask = "a"

[[question]]
name = "structured"
judge = "structured"
ask = "a"
schema = { type = "object" }

[[question]]
name = "ending"
judge = "ending"
ask = "a"

[[question]]
name = "needle"
judge = "needle"

[[question]]
name = "image"
judge = "image"

[[question]]
name = "embedding"
judge = "embedding"

[[question]]
name = "rerank"
judge = "rerank"

[[question]]
name = "transcription"
judge = "transcription"

[[question]]
name = "concurrent"
judge = "concurrent"
answers = { a = "b", c = "d" }

[[question]]
name = "acceptance"
judge = "acceptance"

[[question]]
name = "speed"
judge = "speed"
tokens_per_second = 1

[[question]]
name = "task"
judge = "task"
tasks = ["chat", "embedding"]
"""

GOOD: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "message": {
                "content": "Paris",
                "reasoning": "hm",
                "tool_calls": [{"function": {"name": "t", "arguments": '{"a": 1}'}}],
            },
            "text": "Paris",
            "delta": {"content": "Paris", "reasoning": "hm"},
            "finish_reason": "stop",
            "prompt_logprobs": [None, {"7": {"logprob": -1.5}}, {"8": {"logprob": -2.5}}],
            "prompt_token_ids": [5, 7, 8],
        }
    ],
    "prompt_logprobs": [None, {"7": {"logprob": -1.5}}, {"8": {"logprob": -2.5}}],
    "prompt_token_ids": [5, 7, 8],
    "usage": {"completion_tokens": 3},
    "data": [
        {"index": n, "id": "m", "max_model_len": 64, "embedding": [0.1 * n, 0.5], "probs": [0.5], "data": [[0.5]]}
        for n in range(3)
    ],
    "results": [{"index": n, "relevance_score": 0.1 * n} for n in range(3)],
    "text": "hello",
}
"""A good reply to any request."""

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, "", "x", "7", "\ud800", "NaN", [], {}, [None], [[]], ["a"], [1, "2"], {"a": 1}),
    *(math.nan, math.inf, -math.inf, 1e308, -1e308, 10**400, -(10**400), 1 << 70, "9" * 5000, "7 " * 5000, "<think>"),
    *("length", "abort", "tool_calls", "a</think>", "\x1b[31mred\x07", "{" * 5000, "[" * 5000, {"": {"": {"": []}}}),
    *([math.nan, 1], [1e300, -1e300], [10**400, 1], [True, False], [0, 0], [{"index": True}], {"logprob": "x"}),
)


SHARE = 5
"""Every odd value stands at every fifth place; all of them at all places take a minute."""


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


class Teller:
    """A server that says the same to everything, and whose streams are of such replies."""

    def __init__(self, *texts: str, status: int = 200, metrics: str = "") -> None:
        self.texts = texts
        self.status = status
        self.metrics = metrics
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def get(self, path: str, seconds: float) -> Reply:
        assert seconds > 0
        return Reply(status=200, text=self.metrics) if path == "/metrics" else self._next()

    async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> Reply:
        assert seconds > 0
        self.asked.append((path, body))
        return self._next()

    async def upload(self, path: str, fields: Mapping[str, str], file: tuple[str, bytes], seconds: float) -> Reply:
        assert file[1].startswith(b"RIFF")
        return await self.post(path, fields, seconds)

    async def stream(self, path: str, body: Mapping[str, Any], seconds: float) -> AsyncIterator[tuple[float, Any]]:
        assert body["stream"] is True
        for number in range(3):
            yield seconds * number / 100, (await self.post(path, body, seconds)).table()

    def _next(self) -> Reply:
        turn = len(self.asked) % len(self.texts)
        return Reply(status=self.status, text=self.texts[turn])


def read(text: str) -> tuple[Question, ...]:
    reader = Reader(document_of(text, "questions.toml"))
    found = questions_of(reader)
    assert not reader.problems
    return found


EVERY = read(QUESTIONS)


def verdicts(server: Teller, questions: Sequence[Question] = EVERY, budget: float = 0.9) -> list[Verdict]:
    examination = Examination(model="m", questions=tuple(questions), budget=budget)

    async def all_of_it() -> list[Verdict]:
        return [verdict async for verdict in examined(examination, server)]

    found = asyncio.run(all_of_it())
    assert len(found) == len(questions)
    for verdict in found:
        line = str(verdict)
        assert len(line) <= 400
        assert line.isprintable()
        line.encode()
    return found


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for name, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places_in(part, (*path, name))


def with_odd(path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    table = copy.deepcopy(GOOD)
    place: Any = table
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = odd
    return table


PLACES = tuple(places_in(GOOD))


def said(text: str, **more: Any) -> str:
    """Return the reply of a model that says a text, in chat and in a completion."""
    choice = {"message": {"content": text, **more}, "text": text, "finish_reason": "stop", **more}
    return json.dumps({"choices": [choice]})


def judged(text: str, answer: str, **more: Any) -> Judgement:
    """Return what one question makes of an answer."""
    return verdicts(Teller(said(answer, **more)), read(f'[[question]]\nname = "q"\n{text}'))[0].judgement
