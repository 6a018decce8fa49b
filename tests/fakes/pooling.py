"""Embeddings, reranking, scores and transcriptions, in the shapes of vLLM's replies."""

import base64
import io
import math
import re
import struct
import time
import uuid
import wave
import zlib
from typing import Any

from tests.fakes.knob import faults, knob
from tests.fakes.option import OPTIONS
from tests.fakes.piece import pieces, text_of
from tests.fakes.question import JSON
from tests.fakes.refusal import Refusal, missing, misused
from tests.fakes.reply import Answer, Reply
from tests.fakes.request import check_model, names, the_model

WIDTH = 64
"""Numbers in an embedding."""


def embedded(text: str) -> list[float]:
    """Return a text's embedding: what it shares with another are runs of three letters.

    >>> near = likeness("The cat sits on the mat.", "A cat is sitting on a mat.")
    >>> near > 2 * likeness("The cat sits on the mat.", "Inflation fell in April.")
    True
    """
    values = [0.0] * WIDTH
    for word in re.findall(r"\w+", text.casefold()) or [text]:
        marked = f"<{word}>"
        for place in range(len(marked) - 2):
            digest = zlib.crc32(marked[place : place + 3].encode())
            values[digest % WIDTH] += 1 if digest >> 16 & 1 else -1
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]


def likeness(left: str, right: str) -> float:
    return sum(a * b for a, b in zip(embedded(left), embedded(right), strict=True))


def embeddings(request: JSON) -> Answer:
    """Answer POST /v1/embeddings."""
    if "input" not in request:
        raise missing("input")
    texts = _checked(request, request["input"])
    if request.get("dimensions"):
        given = f"dimensions must be unset (received dimensions={request['dimensions']})."
        raise Refusal(400, f"Model '{the_model(request)}' does not support Matryoshka embeddings; {given}")
    vectors = [_spoiled(text) for text in texts]
    coded = request.get("encoding_format") == "base64"
    data = [
        {"index": index, "object": "embedding", "embedding": _base64(vector) if coded else vector}
        for index, vector in enumerate(vectors)
    ]
    return Reply(200, {**_identity("embd", request), "data": data, "usage": _usage(texts)})


def rerank(request: JSON) -> Answer:
    """Answer POST /rerank."""
    for field in ("query", "documents"):
        if field not in request:
            raise missing(field)
    documents = _checked(request, request["documents"], "At least one text_pair element must be given")
    scores = [_score(request["query"], document) for document in documents]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    most = request.get("top_n") or len(order)
    results = [
        {"index": index, "document": {"text": documents[index], "multi_modal": None}, "relevance_score": scores[index]}
        for index in order[:most]
    ]
    usage = _usage([request["query"] + document for document in documents])
    body = {"id": f"score-{uuid.uuid4().hex[:16]}", "model": the_model(request), "results": results}
    return Reply(200, {**body, "usage": {key: usage[key] for key in ("prompt_tokens", "total_tokens")}})


def score(request: JSON) -> Answer:
    """Answer POST /score."""
    named = next((pair for pair in PAIRS if pair[0] in request), PAIRS[0])
    if named[0] not in request:
        raise missing("queries")
    left, right = (_checked(request, request[name]) for name in named)
    lefts = left * len(right) if len(left) == 1 else left
    data = [
        {"index": index, "object": "score", "score": _score(*pair)}
        for index, pair in enumerate(zip(lefts, right, strict=True))
    ]
    return Reply(200, {**_identity("score", request), "data": data, "usage": _usage([*lefts, *right])})


PAIRS = (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2"))


def transcription(form: JSON) -> Answer:
    """Answer POST /v1/audio/transcriptions; what is heard is FAKE_HEARD."""
    if "file" not in form:
        raise missing("file")
    check_model(form)
    try:
        with wave.open(io.BytesIO(form["file"])) as sound:
            seconds = sound.getnframes() / sound.getframerate()
    except (wave.Error, EOFError):
        raise Refusal(400, "Invalid or unsupported audio file.") from None
    found, heard = faults(), knob("HEARD", "The quick brown fox jumps over the lazy dog.")
    heard = "" if "empty" in found else heard[::-1] if "wrong" in found else heard
    return Reply(200, {"text": heard, "usage": {"type": "duration", "seconds": math.ceil(seconds)}})


def _texts(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    if given and all(isinstance(part, int) for part in given):
        return [text_of(given)]
    return [part if isinstance(part, str) else text_of(part) for part in given]


def _checked(request: JSON, given: Any, none: str = "You must pass at least one prompt") -> list[str]:
    """Return the texts that are given, or refuse them."""
    if the_model(request) not in names():
        raise Refusal(404, f"The model `{the_model(request)}` does not exist.", "NotFoundError")
    texts = _texts(given)
    if not texts:
        raise Refusal(400, none)
    longest = OPTIONS.max_model_len
    for count in (len(pieces(text)) for text in texts):
        if count > longest:
            told = f"However, your prompt contains at least {count} input tokens."
            raise misused("input_tokens", f"This model's maximum context length is {longest} tokens. {told}", count)
    return texts


def _spoiled(text: str) -> list[float]:
    """Return an embedding with the faults in force."""
    vector, found = embedded(text), faults()
    if "empty" in found:
        return [0.0] * len(vector)
    if "nan" in found:
        return [math.nan] * len(vector)
    if "repeat" in found or "degenerate" in found:
        return [1 / math.sqrt(len(vector))] * len(vector)
    if found & {"wrong", "other"}:
        # Every text has a direction of its own, whatever it says.
        return [math.sin(zlib.crc32(f"{place}{text}".encode())) for place in range(len(vector))]
    return vector


def _score(query: str, document: str) -> float:
    found = faults()
    value = 1 / (1 + math.exp(-8 * (likeness(query, document) - 0.3)))
    if "nan" in found:
        return math.nan
    if found & {"empty", "repeat", "degenerate"}:
        return 0.5
    return 1 - value if found & {"wrong", "other"} else value


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _identity(prefix: str, request: JSON) -> JSON:
    named = {"id": f"{prefix}-{uuid.uuid4().hex[:16]}", "object": "list", "created": int(time.time())}
    return {**named, "model": the_model(request)}


def _usage(texts: list[str]) -> JSON:
    count = sum(len(pieces(text)) + 2 for text in texts)
    nothing = dict.fromkeys(("prompt_tokens_details", "completion_tokens_details"))
    return {"prompt_tokens": count, "total_tokens": count, "completion_tokens": 0, **nothing}
