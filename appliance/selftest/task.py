"""What a server's model is made for, found out by asking, and whether it does it."""

import math
import re
from collections.abc import Iterator

from appliance.core.judge import Asked, Task, Transcription
from appliance.core.record import record
from appliance.core.reply import ReplyError, Trouble
from appliance.core.writing import senseless, special_tokens
from appliance.selftest.pooling import entries_in, likeness, vectors_of
from appliance.selftest.sense import transcription
from appliance.selftest.talk import Answer, Talk, number_in, vector_in
from appliance.selftest.verdict import Judgement, right, wrong

SAY = Asked(ask="Say hello and tell me in one sentence what a river is.", max_tokens=64)
CONTINUE = Asked(ask="A river is a natural stream of water that", endpoint="completion", max_tokens=24)
TEXTS = ("A river flows to the sea.", "The engine of the car needs oil.")

FOR_OTHERS = re.compile(r"^HTTP (404|405)\b|must provide a chat template|does not support")
"""How servers say that a model is not made for a task: no such route, or, of a chat, no template. Any other refusal is
a fault: a template that fails must not make of a chat model one that only continues texts."""


@record
class Found:
    """A model's task, and how it does it."""

    task: str
    judgement: Judgement


async def found_task(talk: Talk) -> Found:
    """Ask for one task after the other until the server takes one. Raises ReplyError where it takes none."""
    refusals: list[str] = []
    for task, ask in ATTEMPTS.items():
        try:
            return Found(task=task, judgement=await ask(talk))
        except ReplyError as error:
            if not _is_for_others(error):
                raise
            refusals.append(f"{task}: {error}")
    raise ReplyError(f"none of the tasks is taken; {'; '.join(refusals)}", Trouble.REFUSED)


def _is_for_others(error: ReplyError) -> bool:
    """Tell whether a server says that its model is made for something else."""
    said = str(error)
    misnamed = "model_not_found" in said or "does not exist" in said
    return error.trouble is Trouble.REFUSED and bool(FOR_OTHERS.search(said)) and not misnamed


async def task(_judge: Task, talk: Talk) -> Judgement:
    """Judge how the model does what it is made for."""
    found = await found_task(talk)
    said = found.judgement
    return Judgement(outcome=said.outcome, found=f"{found.task}: {said.found}", expected=said.expected, why=said.why)


async def _chat(talk: Talk) -> Judgement:
    return _sense_of(await talk.once(SAY))


async def _completion(talk: Talk) -> Judgement:
    return _sense_of(await talk.once(CONTINUE))


def _sense_of(answer: Answer) -> Judgement:
    """Judge a text of which only the sense is known: thoughts count, for an answer may not have begun."""
    text = answer.content or answer.thoughts
    if answer.finish_reason not in ("stop", "length"):
        return wrong(text, why=f'ended with "{answer.finish_reason}"')
    fault = senseless(text)
    if not fault and (token := special_tokens(answer.text)):
        fault = f"the special token {token}"
    return wrong(text, "a text with a sense", f"the model says {fault}") if fault else right(text)


async def _embedding(talk: Talk) -> Judgement:
    """Judge vectors of which nothing is known but that they are vectors."""
    one, other = await vectors_of(talk, TEXTS)
    if not all(map(math.isfinite, (*one, *other))):
        return wrong("numbers that are none", "finite numbers")
    if not any(one) or not any(other):
        return wrong("a vector of zeros", "a direction")
    again = (await vectors_of(talk, TEXTS[:1]))[0]
    if not likeness(one, again) > 0.99:
        return wrong("another vector for the same text", "the same vector")
    if likeness(one, other) > 0.9999:
        return wrong("one vector for different texts", "different vectors")
    return right(f"vectors of {len(one)}")


async def _rerank(talk: Talk) -> Judgement:
    table = await talk.post("/v1/rerank", query="What is a river?", documents=list(TEXTS))
    scores = vector_in([entry.get("relevance_score") for entry in entries_in(table, "results", len(TEXTS))])
    if not all(map(math.isfinite, scores)):
        return wrong("scores that are no numbers", "a finite number for each document")
    if len(set(scores)) == 1:
        return wrong(f"the score {scores[0]:g} for different documents", "different scores")
    return right(f"{len(scores)} scores")


async def _classification(talk: Talk) -> Judgement:
    """Judge probabilities: finite, from 0 to 1."""
    table = await talk.post("/classify", input=list(TEXTS))
    found = [vector_in(entry.get("probs")) for entry in entries_in(table, "data", len(TEXTS))]
    if not all(0 <= number <= 1 for vector in found for number in vector):
        return wrong("numbers that are no probabilities", "numbers from 0 to 1")
    return right(f"probabilities of {len(found[0])} classes")


async def _pooling(talk: Talk) -> Judgement:
    """Judge numbers of which not even the shape is known."""
    table = await talk.post("/pooling", input=TEXTS[0])
    numbers = list(_flat(entries_in(table, "data", 1)[0].get("data")))
    if not numbers or not all(map(math.isfinite, numbers)):
        return wrong("numbers that are none", "finite numbers")
    return right(f"{len(numbers)} numbers")


def _flat(value: object) -> Iterator[float]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield number_in(value)


async def _transcription(talk: Talk) -> Judgement:
    return await transcription(Transcription(), talk)


ATTEMPTS = {
    "chat": _chat,
    "completion": _completion,
    "embedding": _embedding,
    "rerank": _rerank,
    "transcription": _transcription,
    "classification": _classification,
    "pooling": _pooling,
}
"""Each task, and how it is tried. A model with a chat template continues texts as well, so chat comes first."""
