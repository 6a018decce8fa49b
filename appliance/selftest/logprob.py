"""Judges of the logprobs that a model gives to texts which are not its own."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from appliance.core.codec import record_of
from appliance.core.fingerprint import Passage, Prompt, Reference, UnlikeError, change_of
from appliance.core.judge import Fingerprint, Likelihood
from appliance.core.reply import ReplyError, Trouble
from appliance.selftest.talk import CHAT, COMPLETION, Talk, number_in, told
from appliance.selftest.verdict import Judgement, right, unknown, within, wrong

PLAIN = (
    "The sun rose over the small town, and people began to open their shops. A woman bought bread and milk, paid the "
    "baker, and walked home along the river. It was a warm day in spring, and the children were already on their way "
    "to school."
)
"""Plain English, for any model."""


class NoLogprobsError(Exception):
    """The server gives no logprobs of a prompt."""


async def passage_of(talk: Talk, prompt: Prompt) -> Passage:
    """Return what the server's model makes of a text. Raises ReplyError, and NoLogprobsError where it says nothing."""
    body: dict[str, Any] = {"max_tokens": 1, "temperature": 0, "prompt_logprobs": 0, "return_token_ids": True}
    if prompt.chat:
        system = [{"role": "system", "content": prompt.system}] if prompt.system else []
        table = await talk.post(CHAT, messages=[*system, {"role": "user", "content": prompt.text}], **body)
        given: Mapping[str, Any] = table
    else:
        table = await talk.post(COMPLETION, prompt=prompt.text, **body)
        given = _choice(table)
    entries, ids = given.get("prompt_logprobs"), given.get("prompt_token_ids", table.get("prompt_token_ids"))
    if entries is None or not isinstance(ids, list):
        raise NoLogprobsError
    if not isinstance(entries, list) or len(entries) != len(ids) or len(ids) < 2:
        raise ReplyError(f"logprobs of another length than the prompt: {told(entries)}", Trouble.GARBLED)
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise ReplyError(f"ids of tokens that are no whole numbers: {told(ids)}", Trouble.GARBLED)
    logprobs = tuple(_logprob(entry, ids[place]) for place, entry in enumerate(entries) if place)
    return Passage(**dataclasses.asdict(prompt), ids=tuple(ids), logprobs=logprobs)


def _choice(table: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        choice = table["choices"][0]
    except (KeyError, IndexError, TypeError):
        choice = None
    if not isinstance(choice, dict):
        raise ReplyError(f"not an answer: {told(dict(table))}", Trouble.GARBLED)
    return choice


def _logprob(entry: object, token: object) -> float:
    """Return the logprob of the token that stands in the prompt; not a number where there is none."""
    found = entry.get(str(token)) if isinstance(entry, dict) else None
    return number_in(found.get("logprob")) if isinstance(found, dict) else math.nan


async def passages_of(talk: Talk, asked: Sequence[Prompt]) -> tuple[Passage, ...]:
    """Return what the server's model makes of several texts, one after the other."""
    return tuple([await passage_of(talk, prompt) for prompt in asked])


def _reference(file: str) -> Reference:
    return record_of(Reference, Path(file).read_text(encoding="utf-8"))


async def fingerprint(judge: Fingerprint, talk: Talk) -> Judgement:
    """Hold the logprobs of the reference's texts against those of the reference."""
    try:
        reference = _reference(judge.reference)
    except (OSError, ValueError, RecursionError) as error:
        return unknown(f"the reference {judge.reference} can't be used: {error}")
    return await compared(reference, talk, (("mean", judge.mean), ("largest", judge.largest)))


async def compared(reference: Reference, talk: Talk, bounds: tuple[tuple[str, float], ...]) -> Judgement:
    """Ask for a reference's texts; judge how far the answers lie from it."""
    try:
        found = await passages_of(talk, [passage.prompt for passage in reference.passages])
        change = change_of(reference, found)
    except NoLogprobsError:
        return unknown("the server gives no prompt_logprobs")
    except UnlikeError as error:
        return wrong(str(error), why="the tokens of a fixed text are others: tokenizer or chat template changed")
    measures = (("mean", change.mean), ("largest", change.largest))
    what = f"the model gives other probabilities than its reference ({change.place})"
    return within(measures, bounds, what)


async def likelihood(judge: Likelihood, talk: Talk) -> Judgement:
    """Measure how likely a plain text is."""
    try:
        passage = await passage_of(talk, Prompt(text=judge.text or PLAIN))
    except NoLogprobsError:
        return unknown("the server gives no prompt_logprobs")
    strange = sum(not math.isfinite(logprob) or logprob > 0 for logprob in passage.logprobs)
    if strange:
        found = f"{strange} of {len(passage.logprobs)} logprobs are no logprobs"
        return wrong(found, "a finite number of at most 0 for every token")
    measures = (("nats_per_token", -math.fsum(passage.logprobs) / len(passage.logprobs)),)
    if judge.most is None:
        return right(f"{measures[0][1]:.3g} nats per token", measures=measures)
    return within(measures, (("nats_per_token", judge.most),), "a plain text is unlikely to the model")
