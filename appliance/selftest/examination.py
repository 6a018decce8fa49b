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


async def examined(plan: Plan, client: Asking) -> AsyncIterator[Verdict]:
    """Ask the questions in turn; yield the verdict on each."""
    for question in plan.questions:
        try:
            answer, finish_reason = await client.chat(question.ask, question.max_tokens, PATIENCE)
        except ReplyError as error:
            yield Verdict(question=question, answer="", fault=str(error), right=False, final=error.final)
        else:
            yield judged(question, answer, finish_reason)
