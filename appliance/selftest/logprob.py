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
from appliance.selftest.verdict import Judgement, Outcome, unknown, within, wrong

PLAIN = (
    "The sun rose over the small town, and people began to open their shops. A woman bought bread and milk, paid the "
    "baker, and walked home along the river. It was a warm day in spring, and the children were already on their way "
    "to school."
)
"""Plain English, for any model."""


IMPOSSIBLE = -9999.0
"""What vLLM writes for the logarithm of nothing, which JSON has no number for."""

SENSELESS = 30.0
"""Nats per token of a plain text, beyond which no model means anything: one that guesses has 12 in the largest
vocabularies, random weights had 11."""


class NoLogprobsError(Exception):
    """The server gives no logprobs of a prompt."""


async def passage_of(talk: Talk, prompt: Prompt) -> Passage:
    """Return what the server's model makes of a text. Raises ReplyError, and NoLogprobsError where it says nothing."""
    if prompt.chat:
        system = [{"role": "system", "content": prompt.system}] if prompt.system else []
        table = await _asked(talk, CHAT, {"messages": [*system, {"role": "user", "content": prompt.text}]})
        given: Mapping[str, Any] = table
    else:
        table = await _asked(talk, COMPLETION, {"prompt": prompt.text})
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


async def _asked(talk: Talk, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for one token and the logprobs of the prompt. Raises ReplyError, and NoLogprobsError where only they fail."""
    short = {**body, "max_tokens": 1, "temperature": 0}
    try:
        return await talk.post(path, **short, prompt_logprobs=0, return_token_ids=True)
    except ReplyError as refused:
        # A server that can't write a NaN refuses too, and that is no want of logprobs.
        if refused.trouble is not Trouble.REFUSED or "prompt_logprobs" not in str(refused):
            raise
        await talk.post(path, **short)  # refused too, where the logprobs are not the reason
        raise NoLogprobsError from refused


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
    """Ask for a reference's texts, those that the server has room for; judge how far the answers lie from it."""
    room = talk.longest
    fit = tuple(passage for passage in reference.passages if room is None or len(passage.ids) < room)
    if not fit:
        return unknown(f"every text of the reference is longer than the {room} tokens that the server takes")
    left = len(reference.passages) - len(fit)
    reference = dataclasses.replace(reference, passages=fit)
    try:
        found = await passages_of(talk, [passage.prompt for passage in reference.passages])
        change = change_of(reference, found)
    except NoLogprobsError:
        return unknown("the server gives no prompt_logprobs")
    except UnlikeError as error:
        return wrong(str(error), why="the tokens of a fixed text are others: tokenizer or chat template changed")
    measures = (("mean", change.mean), ("largest", change.largest))
    what = f"the model gives other probabilities than its reference ({change.place})"
    judgement = within(measures, bounds, what)
    if left and judgement.outcome is Outcome.RIGHT:
        told = f"{left} of its texts are longer than the {room} tokens that the server takes, and were not asked for"
        return dataclasses.replace(judgement, why=told)
    return judgement


async def likelihood(judge: Likelihood, talk: Talk) -> Judgement:
    """Measure how likely a plain text is."""
    try:
        passage = await passage_of(talk, Prompt(text=judge.text or PLAIN))
    except NoLogprobsError:
        return unknown("the server gives no prompt_logprobs")
    strange = sum(not IMPOSSIBLE < logprob <= 0 for logprob in passage.logprobs)
    if strange:
        found = f"{strange} of {len(passage.logprobs)} logprobs are no logprobs"
        return wrong(found, f"a number from {IMPOSSIBLE:g} to 0 for every token")
    measures = (("nats_per_token", -math.fsum(passage.logprobs) / len(passage.logprobs)),)
    bound = SENSELESS if judge.most is None else judge.most
    return within(measures, (("nats_per_token", bound),), "a plain text is unlikely to the model")
