"""Judges of streams: what comes in pieces, and how fast."""

from collections.abc import Mapping
from typing import Any

from appliance.core.judge import Asked, Speed, Streaming
from appliance.core.record import record
from appliance.core.reply import ReplyError, Trouble
from appliance.core.writing import senseless
from appliance.selftest.talk import Answer, Talk, ending_in, text_in, told
from appliance.selftest.verdict import Judgement, Outcome, right, unknown, wrong

ROUNDS = 3
"""Comparisons before a difference counts: on a GPU a greedy answer may be another one the next time."""


FEWEST_TIMED, SHORTEST_TIMED = 16, 0.05
"""Tokens and seconds below which a rate says nothing: what was buffered comes at once."""


@record
class Streamed:
    """An answer that came in pieces."""

    content: str
    thoughts: str
    finish_reason: str
    tokens: int | None
    """How many the server counted; None where it did not say."""
    first: float
    """Seconds to the first piece with a text."""
    last: float
    """Seconds to the last one."""


async def streamed(talk: Talk, asked: Asked, **more: Any) -> Streamed:
    """Ask for a stream and read all of it. Raises ReplyError."""
    path, body = talk.request(asked)
    body = {"model": talk.model, **body, **more, "stream": True, "stream_options": {"include_usage": True}}
    contents: list[str] = []
    thoughts: list[str] = []
    times: list[float] = []
    reason, tokens = "", None
    async for seconds, event in talk.server.stream(path, body, talk.seconds):
        piece, thought, ended = _piece(event)
        contents.append(piece)
        thoughts.append(thought)
        times += [seconds] if piece or thought else []
        reason, tokens = ended or reason, _tokens(event) or tokens
    if not times:
        raise ReplyError("a stream without a text", Trouble.GARBLED)
    return Streamed(
        content=text_in("".join(contents)),
        thoughts=text_in("".join(thoughts)),
        finish_reason=reason,
        tokens=tokens,
        first=times[0],
        last=times[-1],
    )


def _tokens(event: Mapping[str, Any]) -> int | None:
    """Return how many tokens the server counted so far; None where an event does not say."""
    usage = event.get("usage")
    found = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _piece(event: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the text, the thought and the finish_reason of one event."""
    try:
        choices = event["choices"]
        if not choices:
            return "", "", ""
        delta = choices[0].get("delta") or {"content": choices[0].get("text")}
        thought = text_in(delta.get("reasoning") or delta.get("reasoning_content"))
        return text_in(delta.get("content")), thought, ending_in(choices[0].get("finish_reason") or "")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ReplyError(f"not a piece of an answer: {told(event)}", Trouble.GARBLED) from None


async def streaming(judge: Streaming, talk: Talk) -> Judgement:
    """Compare the stream with the answer in one piece; greedy answers of some servers differ by themselves."""
    wholes: list[tuple[str, str]] = []
    for _ in range(ROUNDS):
        whole, stream = await talk.once(judge), await streamed(talk, judge)
        if stream.finish_reason not in ("stop", "length"):
            return wrong(stream.finish_reason or "nothing", "stop or length", "the stream's finish_reason")
        wholes.append(_said(whole))
        if (stream.content, stream.thoughts, stream.finish_reason) == (
            whole.content,
            _thoughts(whole),
            whole.finish_reason,
        ):
            return right(stream.content or stream.thoughts)
    if len(set(wholes)) == 1:
        return wrong(stream.content, whole.content, "the stream is not the answer in one piece")
    said = stream.content or stream.thoughts
    shortest = min(len(content or thoughts) for content, thoughts in wholes)
    if len(said) < shortest / 2:
        return wrong(said, f"about {shortest} characters", "the stream loses much of the answer")
    if fault := senseless(stream.content or stream.thoughts):
        return wrong(stream.content, why=f"the stream says {fault}")
    return right(stream.content, why="greedy answers differ from one to the next; only the form was compared")


def _said(answer: Answer) -> tuple[str, str]:
    return answer.content, answer.thoughts


def _thoughts(answer: Answer) -> str:
    """Return the thoughts in a field of their own, which a stream has too."""
    inline = answer.content[: len(answer.content) - len(answer.text)] if answer.text else answer.content
    return answer.thoughts.removesuffix(inline) if inline else answer.thoughts


async def speed(judge: Speed, talk: Talk) -> Judgement:
    """Time a stream, and where it is too slow two more: the first of a server may warm it up."""
    first, rate = await pace(talk, judge)
    for _ in range(2):
        if _fast(judge, first, rate):
            break
        again, faster = await pace(talk, judge)
        first, rate = min(first, again), max((one for one in (rate, faster) if one is not None), default=None)
    measures = (("first_token", first), *((("tokens_per_second", rate),) if rate is not None else ()))
    floors = [("first_token", judge.first_token), ("tokens_per_second", judge.tokens_per_second)]
    bounds = tuple((name, bound) for name, bound in floors if bound is not None)
    if judge.tokens_per_second is not None and rate is None:
        return unknown("the stream was too short to time, or the server does not count tokens")
    fast = _fast(judge, first, rate)
    found = f"first token after {first:.3g} s" + (f", then {rate:.3g} tokens/s" if rate is not None else "")
    limits = (f"{name} at {'most' if name == 'first_token' else 'least'} {bound:g}" for name, bound in bounds)
    return Judgement(
        outcome=Outcome.RIGHT if fast else Outcome.WRONG,
        found=found,
        expected=", ".join(limits),
        why="" if fast else "too slow",
        measures=measures,
        bounds=bounds,
    )


def _fast(judge: Speed, first: float, rate: float | None) -> bool:
    late = judge.first_token is not None and first > judge.first_token
    return not late and (judge.tokens_per_second is None or (rate is not None and rate >= judge.tokens_per_second))


async def pace(talk: Talk, asked: Asked) -> tuple[float, float | None]:
    """Return the seconds to the first token, and tokens in a second after it; None where they can't be told."""
    stream = await streamed(talk, asked)
    span, tokens = stream.last - stream.first, stream.tokens or 0
    return stream.first, (tokens - 1) / span if tokens >= FEWEST_TIMED and span >= SHORTEST_TIMED else None
