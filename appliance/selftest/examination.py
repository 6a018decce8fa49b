"""Asking a running engine every question of its recipe."""

from collections.abc import AsyncIterator
from typing import Protocol

from appliance.core.plan import Plan
from appliance.core.reply import ReplyError
from appliance.selftest.verdict import Verdict, judged

PATIENCE = 120.0
"""Seconds for one answer; the first of a fresh engine may compile kernels."""


class Asking(Protocol):
    """Whoever can be asked: the client of an engine."""

    async def chat(self, ask: str, max_tokens: int, seconds: float) -> tuple[str, str]:
        """Return the answer and its finish_reason."""

    async def longest(self) -> int | None:
        """Return the tokens of the longest request; None where that is unknown."""


async def examined(plan: Plan, client: Asking) -> AsyncIterator[Verdict]:
    """Ask the questions in turn; yield the verdict on each. An answer gets at most half of what a request may be."""
    longest = await client.longest()
    for question in plan.questions:
        most = min(question.max_tokens, longest // 2) if longest else question.max_tokens
        try:
            answer, finish_reason = await client.chat(question.ask, most, PATIENCE)
        except ReplyError as error:
            yield Verdict(question=question, answer="", fault=str(error), right=False, final=error.final)
        else:
            yield judged(question, answer, finish_reason)
