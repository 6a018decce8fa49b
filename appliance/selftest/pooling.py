"""Judges of models that answer with numbers: embeddings and ranks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.core.judge import Embedding, Rerank
from appliance.core.reply import ReplyError, Trouble
from appliance.selftest.talk import Talk, told, vector_in
from appliance.selftest.verdict import Judgement, right, wrong

Vector = tuple[float, ...]


async def vectors_of(talk: Talk, texts: Sequence[str]) -> tuple[Vector, ...]:
    """Return the embedding of each text. Raises ReplyError."""
    table = await talk.post("/v1/embeddings", input=list(texts))
    found = entries_in(table, "data", len(texts))
    vectors = tuple(vector_in(entry.get("embedding")) for entry in found)
    if len({len(vector) for vector in vectors}) != 1:
        raise ReplyError(f"vectors of different lengths: {[len(vector) for vector in vectors]}", Trouble.GARBLED)
    return vectors


def _place(entry: Mapping[str, Any]) -> int:
    place = entry.get("index")
    return place if isinstance(place, int) and not isinstance(place, bool) else -1


def entries_in(table: Mapping[str, Any], name: str, count: int) -> list[Mapping[str, Any]]:
    """Return a list of so many numbered entries in their order. Raises ReplyError when it is none."""
    found = table.get(name)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ReplyError(f"no list of {name}: {told(dict(table))}", Trouble.GARBLED)
    if sorted(map(_place, found)) != list(range(count)):
        raise ReplyError(f"{len(found)} of {count} {name}: {told(found)}", Trouble.GARBLED)
    return sorted(found, key=_place)


def likeness(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of one length; NaN when one of them has none.

    >>> likeness((1.0, 0.0), (2.0, 0.0)), likeness((1.0, 0.0), (0.0, 1.0))
    (1.0, 0.0)
    """
    product = math.hypot(*one) * math.hypot(*other)
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / product if product else math.nan


async def embedding(judge: Embedding, talk: Talk) -> Judgement:
    """Compare three vectors."""
    text, near, far = await vectors_of(talk, (judge.text, judge.near, judge.far))
    if not all(math.isfinite(number) for vector in (text, near, far) for number in vector):
        return wrong("numbers that are none", "finite numbers")
    close, distant = likeness(text, near), likeness(text, far)
    found = f"likeness {close:.3f} to what means the same, {distant:.3f} to what does not"
    measures = (("near", close), ("far", distant))
    if close > distant:
        return right(found, measures=measures)
    return wrong(found, "the first above the second", "a vector of zeros" if math.isnan(close) else "")


async def rerank(judge: Rerank, talk: Talk) -> Judgement:
    """Find the best document first."""
    documents = [*judge.others, judge.best]
    table = await talk.post("/v1/rerank", query=judge.query, documents=documents)
    found = entries_in(table, "results", len(documents))
    scores = [entry.get("relevance_score") for entry in found]
    numbers = vector_in(scores)
    if not all(map(math.isfinite, numbers)):
        return wrong("scores that are no numbers", "finite numbers")
    best = max(range(len(documents)), key=lambda place: numbers[place])
    return right(documents[best], judge.best) if best == len(judge.others) else wrong(documents[best], judge.best)
