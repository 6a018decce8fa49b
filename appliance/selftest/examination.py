"""Asking a running model every question, with patience for a busy server and within a budget."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from appliance.core import judge
from appliance.core.baseline import Accepted
from appliance.core.question import Question
from appliance.core.record import record
from appliance.core.reply import ReplyError, Trouble
from appliance.selftest import answer, form, logprob, needle, pooling, sense, server, stream
from appliance.selftest.baseline import accepted
from appliance.selftest.talk import Server, Talk
from appliance.selftest.task import Found, found_task, task
from appliance.selftest.verdict import Judgement, Outcome, Verdict, unknown, wrong

JUDGED_BY: dict[type[Any], Callable[[Any, Talk], Awaitable[Judgement]]] = {
    judge.KnownAnswer: answer.known_answer,
    judge.Counting: answer.counting,
    judge.Writing: answer.writing,
    judge.Fingerprint: logprob.fingerprint,
    judge.Likelihood: logprob.likelihood,
    judge.Repeatable: answer.repeatable,
    judge.Streaming: stream.streaming,
    judge.ServedNames: server.served_names,
    judge.ToolCall: form.tool_call,
    judge.Reasoning: form.reasoning,
    judge.Structured: form.structured,
    judge.Ending: answer.ending,
    judge.Needle: needle.needle,
    judge.Image: sense.image,
    judge.Embedding: pooling.embedding,
    judge.Rerank: pooling.rerank,
    judge.Transcription: sense.transcription,
    judge.Concurrent: answer.concurrent,
    judge.Acceptance: server.acceptance,
    judge.Speed: stream.speed,
    judge.Task: task,
    Accepted: accepted,
}

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before a busy server is asked again."""

SHORT_TRIES = 1
"""How often a server that says that it failed is asked again."""


@record
class Examination:
    """What is asked of which model."""

    model: str
    questions: tuple[Question, ...]
    budget: float
    """Seconds for all questions together."""


async def examined(examination: Examination, asked: Server) -> AsyncIterator[Verdict]:
    """Ask the questions in turn; yield the verdict on each."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + examination.budget
    room, made_for = Room(), MadeFor()
    for question in examination.questions:
        start = loop.time()
        seconds = min(question.timeout, max(deadline - start, 0.1))
        talk = Talk(server=asked, model=examination.model, seconds=seconds)
        if start >= deadline:
            judgement = unknown(f"the budget of {examination.budget:g} s was used up before it was asked")
        else:
            judgement = await _patiently(question, talk, (room, made_for), deadline)
        yield Verdict(question=question, judgement=judgement, seconds=loop.time() - start)


def outcome_of(verdicts: Sequence[Verdict]) -> Outcome:
    """Return what the verdicts come to: a model is right when nothing stands against it and something speaks for it."""
    gates = [verdict for verdict in verdicts if verdict.question.gate]
    if any(verdict.outcome is Outcome.WRONG for verdict in gates):
        return Outcome.WRONG
    doubtful = any(verdict.outcome is Outcome.UNKNOWN for verdict in gates)
    # The names of a server prove no model, unless nothing else was to be asked.
    telling = [verdict for verdict in gates if verdict.question.shows_answers] or gates
    proven = any(verdict.outcome is Outcome.RIGHT for verdict in telling)
    return Outcome.RIGHT if proven and not doubtful else Outcome.UNKNOWN


class Room:
    """How long a request may be, found out before the first question."""

    def __init__(self) -> None:
        self._known = False
        self._longest: int | None = None

    async def longest(self, talk: Talk) -> int | None:
        """Return the tokens of the longest request; None where it is not told. Raises ReplyError of a busy server."""
        if not self._known:
            try:
                self._longest = server.longest_of(await server.models_of(talk), talk.model)
                self._known = True
            except ReplyError as error:
                if error.trouble is Trouble.BUSY:
                    raise
                self._known = error.trouble not in (Trouble.BROKEN, Trouble.LOCKED)
        return self._longest


class MadeFor:
    """What a model is made for, found out when a question first depends on it."""

    def __init__(self) -> None:
        self._found: Found | None = None

    async def task(self, talk: Talk) -> Found:
        """Return the task, and how it is done. Raises ReplyError where that is not found, as of a busy server."""
        if self._found is None:
            self._found = await found_task(talk)
        return self._found


async def _judged(question: Question, talk: Talk, found: tuple[Room, MadeFor]) -> Judgement:
    room, made_for = found
    talk = dataclasses.replace(talk, longest=await room.longest(talk))
    if question.tasks and (made := await made_for.task(talk)).task not in question.tasks:
        if made.judgement.outcome is Outcome.WRONG:  # it may be made for this, and broken
            return dataclasses.replace(made.judgement, why=f"as a model for {made.task}: {made.judgement.why}")
        return Judgement(outcome=Outcome.SKIPPED, why=f"the model is made for {made.task}")
    return await JUDGED_BY[type(question.judge)](question.judge, talk)


async def _patiently(question: Question, talk: Talk, found: tuple[Room, MadeFor], deadline: float) -> Judgement:
    """Judge one question with what was found out before; ask a busy server again, and never call it wrong."""
    tries = 0
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                return await _judged(question, talk, found)
        except RecursionError:
            return wrong("a reply that is nested too deeply", why="no answer")
        except TimeoutError:
            return unknown("no answer before the budget was used up: busy, not wrong")
        except ReplyError as error:
            patient = {Trouble.BUSY: len(PAUSES), Trouble.BROKEN: SHORT_TRIES}
            # What is only told must not use up the time of what counts.
            again = patient.get(error.trouble, 0) if question.gate else 0
            pause = PAUSES[min(tries, len(PAUSES) - 1)]
            late = asyncio.get_running_loop().time() + pause >= deadline
            if tries >= again or late:
                return _without_answer(error)
            tries += 1
            await asyncio.sleep(pause)


def _without_answer(error: ReplyError) -> Judgement:
    match error.trouble:
        case Trouble.BUSY:
            return unknown(f"busy, not wrong: {error}")
        case Trouble.LOCKED:
            return unknown(f"the server asks for a key: {error}")
        case Trouble.BROKEN:
            return unknown(f"the server failed: {error}")
        case _:
            return wrong(str(error), why="no answer")
