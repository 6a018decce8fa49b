"""Judges of what a server tells of itself: the names of its model, and the counters of its drafter."""

import asyncio
import math
import re
from collections.abc import Mapping
from typing import Any

from appliance.core.judge import Acceptance, ServedNames
from appliance.core.reply import ReplyError, Trouble, trouble_of
from appliance.core.work import LABELS
from appliance.selftest.talk import Talk, told
from appliance.selftest.verdict import Judgement, Outcome, right, unknown, wrong

SAMPLE = re.compile(
    rf"^vllm:spec_decode_(\w+?)(?:_total)?(?:{LABELS})? (\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\r?$", re.MULTILINE
)
PAUSES = (0.2, 0.5)
"""Seconds before counters are asked for again."""

LONGEST_NAME = 1000
"""Characters of a model's name."""

POSITION = re.compile(r'position="(\d+)"')


async def models_of(talk: Talk) -> list[Mapping[str, Any]]:
    """Return the entries of /v1/models. Raises ReplyError."""
    table = (await talk.server.get("/v1/models", talk.seconds)).table()
    found = table.get("data")
    if not isinstance(found, list) or not all(isinstance(entry, dict) and _is_name(entry.get("id")) for entry in found):
        raise ReplyError(f"no list of models: {told(table)}", Trouble.GARBLED)
    return found


def _is_name(found: object) -> bool:
    return isinstance(found, str) and bool(found.strip()) and found.isprintable() and len(found) <= LONGEST_NAME


def longest_of(models: list[Mapping[str, Any]], model: str) -> int | None:
    """Return the tokens of the longest request that a model takes; None where the server does not say."""
    found = next((entry.get("max_model_len") for entry in models if entry["id"] == model), None)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


async def served_names(judge: ServedNames, talk: Talk) -> Judgement:
    """Find every name."""
    found = [entry["id"] for entry in await models_of(talk)]
    wanted = judge.names or (talk.model,)
    shown, expected = ", ".join(found), ", ".join(wanted)
    return right(shown, expected) if set(wanted) <= set(found) else wrong(shown, expected, "a name is not served")


async def acceptance(judge: Acceptance, talk: Talk) -> Judgement:
    """Hold the accepted length against the longest possible; a server without counters of a drafter has none."""
    try:
        metrics = await _metrics(talk)
    except ReplyError as error:
        # Counters that can't be had say nothing against a model.
        return Judgement(outcome=Outcome.SKIPPED, why=f"/metrics can't be read: {error}")
    if not SAMPLE.search(metrics):
        return Judgement(outcome=Outcome.SKIPPED, why="no drafter is in use")
    found = accepted_length(metrics)
    if found is None:
        return unknown("the counters of the drafter can't be read")
    length, possible = found
    measures = (("accepted_length", length), ("part", length / possible))
    said = f"accepted length {length:.3g} of at most {possible}"
    # With few positions the token that each step yields anyway is more than that part by itself.
    least = max(judge.least * possible, 1 + judge.least * (possible - 1) / 2)
    expected = f"at least {least:.3g}"
    if length >= least:
        return right(said, expected, measures=measures)
    return wrong(said, expected, "too few drafted tokens are accepted")


async def _metrics(talk: Talk) -> str:
    """Return what the counters say, asked for again while the server is busy. Raises ReplyError."""
    for pause in (*PAUSES, None):
        try:
            reply = await talk.server.get("/metrics", talk.seconds)
            if reply.status != 200:
                raise ReplyError(f"HTTP {reply.status}", trouble_of(reply.status))
        except ReplyError as error:
            if pause is None or error.trouble not in (Trouble.BUSY, Trouble.BROKEN):
                raise
            await asyncio.sleep(pause)
        else:
            return reply.text
    raise AssertionError


def accepted_length(metrics: str) -> tuple[float, int] | None:
    """Return tokens that one step yields on average, 0 where nothing was drafted, and at most; None where untold.

    One step verifies k drafted tokens, as many as there are positions, and yields one token of its own beside
    those that it accepts.
    """
    drafts, accepted = math.nan, 0.0
    positions: set[int] = set()
    for name, labels, number in SAMPLE.findall(metrics):
        if name == "num_drafts":
            drafts = float(number) + (0.0 if math.isnan(drafts) else drafts)
        elif name == "num_accepted_tokens":
            accepted += float(number)
        elif name == "num_accepted_tokens_per_pos" and (position := POSITION.search(labels)):
            positions.add(int(position[1]))
    if not positions or not drafts < math.inf or not accepted < math.inf:
        return None
    return 1 + accepted / drafts if drafts else 0.0, len(positions) + 1
