"""What each judge of the self-test is told: the keys of a [[question]] beside those that all have."""

import json
from collections.abc import Mapping
from typing import Any

from appliance.core.kind import (
    COUNT,
    FLAG,
    NAME,
    NAMES,
    NUMBER,
    POSITIVE,
    SPAN,
    TEXT,
    TEXTS,
    Kind,
    UnfitError,
    one_of,
    typed,
)
from appliance.core.pattern import PATTERN
from appliance.core.record import key, record
from appliance.core.writing import SCRIPTS

TASKS = ("chat", "completion", "embedding", "rerank", "transcription", "classification", "pooling")
"""What a server does for its clients, by the name of the request."""


def _json(found: object) -> str:
    table = typed(found, dict, "a table")
    try:
        return json.dumps(table, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise UnfitError("wants strings, finite numbers, booleans, lists and tables") from None


def _answers(found: object) -> tuple[tuple[str, str], ...]:
    table = typed(found, dict, "a table of questions and answers")
    pairs = tuple((str(ask), typed(answer, str, "a string")) for ask, answer in table.items())
    if len(pairs) < 2 or not all(ask.strip() and answer.strip() for ask, answer in pairs):
        raise UnfitError(f"found {len(pairs)} questions, wants at least 2, none of them and no answer empty")
    return pairs


def _several(found: object) -> tuple[str, ...]:
    texts = TEXTS.read(found)
    if not texts:
        raise UnfitError("found an empty list, wants at least one text")
    return texts


def _parts(found: object) -> tuple[str, ...]:
    return (TEXT.read(found),) if isinstance(found, str) else _several(found)


JSON_TABLE = Kind("table", _json, {"type": "object"}, json.loads)
"""Kept as one line of JSON, for a record must not hold a dict."""

ANSWERS = Kind(
    "table of questions and answers",
    _answers,
    {"type": "object", "minProperties": 2, "additionalProperties": {"type": "string", "minLength": 1}},
    dict,
)
SOME_TEXTS = Kind("list of strings", _several, {**TEXTS.schema, "minItems": 1})
PARTS = Kind("string or list of strings", _parts, {"anyOf": [TEXT.schema, SOME_TEXTS.schema]}, NAMES.write)


@record
class Asked:
    """What every question in words has."""

    ask: str = key("What the user says.", TEXT)
    system: str | None = key("A system line before it.", TEXT, default=None, absent="none")
    endpoint: str = key(
        "Which request it is: chat, or completion, where the text is continued without a chat template.",
        one_of("chat", "completion"),
        default="chat",
    )
    max_tokens: int = key("Where an answer that runs on is cut.", POSITIVE, default=256)
    thinking: bool | None = key(
        "Whether the model thinks first, as enable_thinking and thinking of its chat template.",
        FLAG,
        default=None,
        absent="the template's own; an answer that is cut while it thinks is asked for again without",
    )


@record
class KnownAnswer(Asked):
    """A question with one right answer, given greedily, which the model must end itself."""

    equals: str | None = key("The whole answer.", TEXT, default=None, absent="not asked for")
    contains: tuple[str, ...] = key(
        "What is in it, or a list of which one is; letters may be large or small.",
        PARTS,
        default=(),
        absent="not asked for",
    )
    matches: str | None = key(
        "A regular expression that finds something in it.", PATTERN, default=None, absent="not asked for"
    )
    number: float | None = key("The last number in it.", NUMBER, default=None, absent="not asked for")


@record
class Counting(Asked):
    """Every number from the first to the last, once and in order; what stands between them does not matter."""

    ask: str = key(
        "What the user says; {first} and {last} stand for the numbers.", TEXT, default="Count from {first} to {last}."
    )
    first: int = key("Where the count begins.", COUNT, default=1)
    last: int = key("Where it ends.", COUNT, default=20)


@record
class Writing(Asked):
    """An answer in a script of its own, whole: no replacement characters, no bytes read as another encoding."""

    script: str = key("The script, by its Unicode name.", one_of(*SCRIPTS), default="hangul")
    letters: int = key("The fewest letters of it.", POSITIVE, default=3)


@record
class Fingerprint:
    """The logprobs of fixed unlikely texts, against those of a reference; vLLM's prompt_logprobs give them."""

    reference: str = key("The file of the reference; a relative one lies in the package's data.", TEXT)
    mean: float = key("The largest mean change, in nats per token.", NUMBER, default=0.15)
    largest: float = key("The largest change of one token, in nats.", NUMBER, default=1.2)


@record
class Likelihood:
    """How likely a plain text is to the model, in nats per token; a number for every token."""

    text: str | None = key("The text.", TEXT, default=None, absent="a paragraph of plain English")
    most: float | None = key("The most nats per token.", NUMBER, default=None, absent="any finite number")


@record
class Repeatable(Asked):
    """A greedy answer that comes again, word for word."""

    times: int = key("How often it is asked.", POSITIVE, default=2)


@record
class Streaming(Asked):
    """A stream that adds up to the answer which comes in one piece, and ends as streams do."""


@record
class ServedNames:
    """The names by which the server serves the model."""

    names: tuple[str, ...] = key("The names.", NAMES, default=(), absent="those of the configuration")


@record
class ToolCall(Asked):
    """A call of a tool, parsed, with the right arguments."""

    tool: str = key("The name of the tool.", NAME)
    description: str = key("What the model is told of it.", TEXT, default="")
    parameters: str = key("The JSON Schema of its arguments.", JSON_TABLE)
    arguments: str = key("The arguments that must come.", JSON_TABLE)


@record
class Reasoning(Asked):
    """Thoughts apart from the answer: some in their own field, none in the content."""

    contains: tuple[str, ...] = key(
        "What the answer has, or a list of which one it has.", PARTS, default=(), absent="anything"
    )
    thinking: bool | None = key("As for any question.", FLAG, default=True)


@record
class Structured(Asked):
    """An answer that fits a JSON Schema."""

    schema: str = key("The JSON Schema.", JSON_TABLE)


@record
class Ending(Asked):
    """An answer that the model ends itself, with its end token, and that shows no special token."""


@record
class Needle:
    """A word hidden in a long text, asked for at its end."""

    tokens: int = key("About how long the text is; at most what the server takes.", POSITIVE, default=8192)
    depth: float = key("Where the word is hidden, from 0, the start, to 1.", NUMBER, default=0.5)
    max_tokens: int = key("Where an answer that runs on is cut.", POSITIVE, default=1024)
    thinking: bool | None = key("As for any question.", FLAG, default=None, absent="the template's own")


@record
class Image(Asked):
    """A picture of one colour, and its name in the answer."""

    ask: str = key("What the user says.", TEXT, default="Which colour is this picture? Answer with one word.")
    colour: str = key("The colour.", one_of("red", "green", "blue", "yellow", "black", "white"), default="red")
    contains: tuple[str, ...] = key("What the answer has.", PARTS, default=(), absent="the name of the colour")


@record
class Embedding:
    """Vectors of finite numbers, in which a text is nearer to one of its kind than to another."""

    text: str = key("The text.", TEXT, default="How do I bake bread?")
    near: str = key("One that means nearly the same.", TEXT, default="What is a recipe for a loaf of bread?")
    far: str = key("One that means something else.", TEXT, default="The orbit of Jupiter takes twelve years.")


@record
class Rerank:
    """The document that answers a query comes first, by finite scores."""

    query: str = key("The query.", TEXT, default="What is the capital of France?")
    best: str = key("The document that answers it.", TEXT, default="Paris is the capital of France.")
    others: tuple[str, ...] = key(
        "Documents that do not.",
        SOME_TEXTS,
        default=("Bread is baked in an oven.", "The orbit of Jupiter takes twelve years."),
    )


@record
class Transcription:
    """A second of sound gets a transcription, whatever it says."""


@record
class Concurrent:
    """Several questions at once, each of which gets its own answer."""

    answers: tuple[tuple[str, str], ...] = key("Questions, each with its answer.", ANSWERS)
    within: bool = key("The answers may say more, and letters may be large or small.", FLAG, default=False)
    rounds: int = key("How often all of them are asked.", POSITIVE, default=1)
    max_tokens: int = key("Where an answer that runs on is cut.", POSITIVE, default=256)
    thinking: bool | None = key("As for any question.", FLAG, default=None, absent="the template's own")


@record
class Acceptance:
    """How much of what a drafter proposes the model accepts, by the counters of /metrics."""

    least: float = key("The least accepted length, as a part of the longest possible.", NUMBER, default=0.25)


@record
class Speed(Asked):
    """Floors for the time to the first token and for the decoding after it."""

    ask: str = key("What the user says.", TEXT, default="Tell me about the sea.")
    first_token: float | None = key("The longest time to the first token.", SPAN, default=None, absent="any")
    tokens_per_second: float | None = key("The least tokens in a second after it.", NUMBER, default=None, absent="any")
    max_tokens: int = key("How many tokens are timed.", POSITIVE, default=128)


@record
class Task:
    """The model does what it is made for, with sense: it chats, continues a text, embeds, ranks or transcribes."""


JUDGES: Mapping[str, type[Any]] = {
    "answer": KnownAnswer,
    "counting": Counting,
    "writing": Writing,
    "fingerprint": Fingerprint,
    "likelihood": Likelihood,
    "repeatable": Repeatable,
    "streaming": Streaming,
    "names": ServedNames,
    "tool": ToolCall,
    "reasoning": Reasoning,
    "structured": Structured,
    "ending": Ending,
    "needle": Needle,
    "image": Image,
    "embedding": Embedding,
    "rerank": Rerank,
    "transcription": Transcription,
    "concurrent": Concurrent,
    "acceptance": Acceptance,
    "speed": Speed,
    "task": Task,
}
"""Every judge by its name."""
