"""The answers that an operator accepted: taken from a running model, and compared with later ones."""

import asyncio
import dataclasses
import functools
import math
import statistics
from collections.abc import Iterator, Sequence

from appliance.core.baseline import Accepted, Baseline, Greedy, Identity, differences
from appliance.core.fingerprint import PASSAGES, Change, Prompt, Reference, UnlikeError, change_of
from appliance.core.judge import Asked
from appliance.core.question import Question
from appliance.core.reply import ReplyError, Trouble
from appliance.selftest.logprob import NoLogprobsError, compared, passage_of, passages_of
from appliance.selftest.pooling import Vector, entries_in, vectors_of
from appliance.selftest.stream import pace
from appliance.selftest.talk import Talk, vector_in
from appliance.selftest.verdict import Judgement, Outcome, right, within, wrong

SAME = (("mean", 0.06), ("largest", 0.6))
"""Nats, where nothing changed. vLLM repeats logprobs to the last bit, on a CPU and, when nobody else asks, on an H200;
beside other requests a GPU takes other kernels, which moved those of four models by 0.055 and 0.31 at most."""

OTHER = (("mean", 0.15), ("largest", 1.2))
"""Nats, where engine, checkpoint, settings or hardware are others: between eager and compiled lay 0.09 and 0.33."""

NOISE_FACTOR = 2.0
AGREEMENT = {True: 0.5, False: 0.2}
"""The least part of the greedy texts that must come again, by whether nothing changed. One token that two choices are
nearly even for turns the rest of a text; a broken cache turns nearly every text at once."""

REPEATS = 0.2
"""The agreement with itself below which a model's greedy texts say nothing: half of it would fit any text."""

MOST_DIFFERENT = 0.15
"""Of the length of a vector. A cosine of 0.99 is as much for an embedding; of the scores of a reranker all may be
near to each other, and a cosine would say nothing."""

SLOWER, LATER, LEEWAY = 0.5, 3.0, 0.5
"""Of the speed, of the time to the first token, and seconds that a first token may always take."""

ASKS = (
    "Describe a harbour at dawn in three sentences.",
    "List the months of the year.",
    "Explain how a bicycle stays upright.",
    "Translate into French: The book is on the table.",
)
STARTS = ("The harbour at dawn is", "January, February, March,", "A bicycle stays upright because", "Once upon a time")
TEXTS = (
    "A river flows to the sea.",
    "The engine of the car needs oil.",
    "다리 아래로 강물이 흐른다.",
    "def add(a, b): return a + b",
)
QUERY = "Where does a river flow?"
GREEDY_TOKENS = 48
LOAD = 16
"""Requests beside which everything is asked for once more."""


class UnrecordableError(Exception):
    """Nothing of this model can be kept for a comparison."""


async def taken(talk: Talk, task: str, identity: Identity, recorded: str) -> Baseline:
    """Return a baseline of a running model. Raises ReplyError, and UnrecordableError for what can't be compared."""
    known = functools.partial(Baseline, recorded=recorded, model=talk.model, task=task, identity=identity)
    if task in ("embedding", "rerank"):
        vectors = await _vectors(talk, task)
        if not all(math.isfinite(number) for vector in vectors for number in vector):
            raise UnrecordableError("the model answers with numbers that are none")
        return known(vectors=vectors)
    if task not in ("chat", "completion"):
        raise UnrecordableError(f"nothing of a model for {task} can be compared later")
    reference, noise = await _noisy_reference(talk, task, recorded[:4])
    asked = [_asked(task, ask, start) for ask, start in zip(ASKS, STARTS, strict=True)]
    greedy = await _greedy(talk, asked)
    again = [await _greedy(talk, asked), await _greedy_beside_others(talk, asked)]
    paces = [await pace(talk, asked[0]) for _ in range(3)]
    rates = [rate for _, rate in paces if rate is not None]
    return known(
        reference=reference,
        noise_mean=noise.mean if noise else 0.0,
        noise_largest=noise.largest if noise else 0.0,
        greedy=greedy,
        agreement=min(agreement_of(greedy, other) for other in again),
        first_token=statistics.median(first for first, _ in paces),
        tokens_per_second=statistics.median(rates) if rates else None,
    )


async def _noisy_reference(talk: Talk, task: str, year: str) -> tuple[Reference | None, Change | None]:
    """Return the logprobs and the largest change of what was asked again: alone, and beside other requests."""
    texts = [prompt for prompt in PASSAGES if task == "chat" or not prompt.chat]
    try:
        texts = [prompt for prompt in texts if await _lasts(talk, prompt, year)]
        reference = Reference(model=talk.model, made_by="this server", passages=await passages_of(talk, texts))
    except NoLogprobsError:
        return None, None
    except ValueError as error:
        raise UnrecordableError(f"the logprobs of the model can't be a reference: {error}") from None
    others = [_asked(task, ASKS[n % len(ASKS)], STARTS[n % len(STARTS)]) for n in range(LOAD)]
    load = None
    try:
        changes = [change_of(reference, await passages_of(talk, texts))]
        load = asyncio.gather(*(talk.once(other) for other in others), return_exceptions=True)
        changes.append(change_of(reference, await passages_of(talk, texts)))
        await load
        together = await asyncio.gather(*(passage_of(talk, prompt) for prompt in texts))
        changes.append(change_of(reference, together))
    except (UnlikeError, NoLogprobsError) as error:
        raise UnrecordableError(f"the model does not repeat its logprobs: {error}") from None
    finally:
        if load:
            load.cancel()
    most = max(changes, key=lambda change: change.mean)
    noise = dataclasses.replace(most, largest=max(change.largest for change in changes))
    if not noise.mean <= dict(OTHER)["mean"]:
        raise UnrecordableError(
            f"the model does not repeat its logprobs: {noise.mean:.3g} nats lie between two askings"
        )
    return reference, noise


async def _lasts(talk: Talk, prompt: Prompt, year: str) -> bool:
    """Return whether a passage can be asked for, and has the same tokens tomorrow.

    Some chat templates refuse a system line, and some write the date into every prompt. Where the server does not tell
    what it made of a message, it is left out.
    """
    if not prompt.chat:
        return True
    try:
        ids = (await passage_of(talk, prompt)).ids
        text = (await talk.post("/detokenize", tokens=list(ids))).get("prompt")
    except ReplyError as error:
        if error.trouble in (Trouble.REFUSED, Trouble.LOCKED):
            return False
        raise
    return isinstance(text, str) and year not in text


def _asked(task: str, ask: str, start: str) -> Asked:
    text = ask if task == "chat" else start
    return Asked(ask=text, endpoint=task, max_tokens=GREEDY_TOKENS)


async def _greedy(talk: Talk, asked: Sequence[Asked]) -> tuple[Greedy, ...]:
    found = []
    for one in asked:
        answer = await talk.once(one)
        # Half a character can't be written to a file.
        text = f"{answer.thoughts}{answer.content}".encode(errors="replace").decode()
        found.append(Greedy(ask=one.ask, endpoint=one.endpoint, text=text))
    return tuple(found)


async def _greedy_beside_others(talk: Talk, asked: Sequence[Asked]) -> tuple[Greedy, ...]:
    """Ask while other requests run, as clients may when a service starts."""
    load = asyncio.gather(*(talk.once(asked[n % len(asked)]) for n in range(LOAD)), return_exceptions=True)
    try:
        return await _greedy(talk, asked)
    finally:
        await load


def agreement_of(before: tuple[Greedy, ...], now: tuple[Greedy, ...]) -> float:
    """Return which part of the greedy texts came again before the first difference in each, on average."""
    parts = [_common(one.text, other.text) for one, other in zip(before, now, strict=True)]
    return math.fsum(parts) / len(parts)


def _common(one: str, other: str) -> float:
    longest = max(len(one), len(other))
    pairs = enumerate(zip(one, other, strict=False))
    same = next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
    return same / longest if longest else 1.0


async def _vectors(talk: Talk, task: str) -> tuple[tuple[float, ...], ...]:
    if task == "embedding":
        return await vectors_of(talk, TEXTS)
    table = await talk.post("/v1/rerank", query=QUERY, documents=list(TEXTS))
    return (vector_in([entry.get("relevance_score") for entry in entries_in(table, "results", len(TEXTS))]),)


def questions_from(baseline: Baseline, now: Identity, origin: str) -> Iterator[Question]:
    """Yield the questions that follow from a baseline."""
    parts = {
        "logprobs": baseline.reference,
        "vectors": baseline.vectors,
        "greedy": baseline.greedy,
        "speed": baseline.tokens_per_second,
    }
    for part, kept in parts.items():
        if kept:
            judge = Accepted(part=part, baseline=baseline, now=now)
            light, gate = part in ("logprobs", "vectors"), part != "speed"
            yield Question(name=f"baseline-{part}", judge=judge, gate=gate, light=light, origin=origin)


async def accepted(judge: Accepted, talk: Talk) -> Judgement:
    """Hold a part of today's answers against the accepted ones."""
    judgement = await _PARTS[judge.part](judge, talk)
    if judgement.outcome is not Outcome.WRONG:
        return judgement
    changed = differences(judge.baseline.identity, judge.now)
    since = f"not as accepted on {judge.baseline.recorded}" + (f" ({changed})" if changed else "")
    return Judgement(
        outcome=judgement.outcome,
        expected=judgement.expected,
        found=judgement.found,
        why=f"{since}: {judgement.why}" if judgement.why else since,
        measures=judgement.measures,
        bounds=judgement.bounds,
    )


def bounds_of(baseline: Baseline, now: Identity) -> tuple[tuple[str, float], ...]:
    """Return how far logprobs may lie from the accepted ones, in nats."""
    noise = {"mean": baseline.noise_mean, "largest": baseline.noise_largest}
    floors = SAME if baseline.identity == now else OTHER
    return tuple((name, max(floor, NOISE_FACTOR * noise[name])) for name, floor in floors)


async def _logprobs(judge: Accepted, talk: Talk) -> Judgement:
    assert judge.baseline.reference is not None
    return await compared(judge.baseline.reference, talk, bounds_of(judge.baseline, judge.now))


async def _greedy_again(judge: Accepted, talk: Talk) -> Judgement:
    before = judge.baseline.greedy
    asked = [Asked(ask=one.ask, endpoint=one.endpoint, max_tokens=GREEDY_TOKENS) for one in before]
    now = await _greedy(talk, asked)
    if judge.baseline.agreement < REPEATS:
        return Judgement(outcome=Outcome.SKIPPED, why="the accepted model did not repeat its own greedy texts")
    share = agreement_of(before, now)
    least = AGREEMENT[judge.baseline.identity == judge.now] * judge.baseline.agreement
    found = f"{share:.0%} of the greedy texts came again"
    return right(found) if share >= least else wrong(found, f"at least {least:.0%}")


async def _vectors_again(judge: Accepted, talk: Talk) -> Judgement:
    now = await _vectors(talk, judge.baseline.task)
    before = judge.baseline.vectors
    if [len(vector) for vector in now] != [len(vector) for vector in before]:
        return wrong(f"vectors of {len(now[0])}", f"vectors of {len(before[0])}")
    difference = max(_difference(one, other) for one, other in zip(before, now, strict=True))
    return within(
        (("difference", difference),), (("difference", MOST_DIFFERENT),), "the model answers with other numbers"
    )


def _difference(before: Vector, now: Vector) -> float:
    """Return the length of what lies between two vectors, as a part of the first; infinite where one is none."""
    apart, length = math.dist(before, now), math.hypot(*before)
    return apart / length if length and math.isfinite(apart) else math.inf


async def _speed_again(judge: Accepted, talk: Talk) -> Judgement:
    """Compare the speed; it is never a gate, for other work on the machine slows a sound model down."""
    task, kept = judge.baseline.task, judge.baseline
    first, rate = await pace(talk, _asked(task, ASKS[0], STARTS[0]))
    found = f"first token after {first:.3g} s, then {rate or math.nan:.3g} tokens/s"
    slow = rate is not None and kept.tokens_per_second is not None and rate < SLOWER * kept.tokens_per_second
    late = kept.first_token is not None and first > max(LEEWAY, LATER * kept.first_token)
    if not (slow or late):
        return right(found)
    return wrong(found, f"{kept.first_token or 0:.3g} s and {kept.tokens_per_second or 0:.3g} tokens/s, as accepted")


_PARTS = {"logprobs": _logprobs, "greedy": _greedy_again, "vectors": _vectors_again, "speed": _speed_again}
