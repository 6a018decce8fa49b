"""Chat completions and completions: what is said, cut at max_tokens, in the shapes of vLLM's replies."""

import dataclasses
import time
import uuid
from collections.abc import Iterator
from typing import Any

from tests.fakes.core import generate, running
from tests.fakes.logprob import chat_logprobs, completion_logprobs, prompt_logprobs
from tests.fakes.option import OPTIONS
from tests.fakes.personality import personality
from tests.fakes.piece import END, id_of, pieces, text_of
from tests.fakes.prompt import Prompt, prompt_of
from tests.fakes.question import JSON, question_of, rendered
from tests.fakes.reply import Answer, Reply, Stream
from tests.fakes.request import most_tokens, the_model
from tests.fakes.utterance import Utterance, continuation, spoken

FINGERPRINT = "vllm-0.32.0-00000000"
NO_DETAILS = dict.fromkeys(("prompt_tokens_details", "completion_tokens_details"))
THINKING_ENDS = "</think>"
OPENINGS = {"inline": "", "tags": "<think>\n"}
NO_THOUGHTS = "<think>\n\n</think>\n\n"
TEMPLATES = {
    "field": {False: NO_THOUGHTS},
    "inline": {True: "<think>\n", False: NO_THOUGHTS},
    "tags": {False: NO_THOUGHTS},
}
"""What a template of a thinking model adds, by whether it is to think."""


@dataclasses.dataclass(frozen=True)
class Output:
    """What the engine made of one prompt."""

    prompt: Prompt
    thoughts: tuple[str, ...]
    text: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    finish: str
    stopped_by: str | None
    ended: bool
    """The end token is among what was generated."""
    marks: int = 0
    """Tokens that no field shows: the end of the thoughts, and what stands around a call."""

    @property
    def tokens(self) -> tuple[str, ...]:
        return (*self.thoughts, *self.text)

    @property
    def ids(self) -> list[int]:
        return [*map(id_of, self.tokens), *([END] if self.ended else [])]

    @property
    def count(self) -> int:
        return len(self.tokens) + self.marks + self.ended

    def usage(self, thoughts: bool) -> JSON:
        """Return what was counted, and where there may be some, how much of it was thoughts."""
        told: JSON = {"prompt_tokens": len(self.prompt.ids), "total_tokens": len(self.prompt.ids) + self.count}
        told["completion_tokens"] = self.count
        counted = {"completion_tokens_details": {"reasoning_tokens": len(self.thoughts)}}
        return {**told, **counted} if thoughts and personality().thinks == "field" else told


def prompt_text(request: JSON) -> str:
    """Return what the template makes of a chat."""
    return rendered(request) + TEMPLATES.get(personality().thinks, {}).get(question_of(request).think, "")


def chat(request: JSON) -> Answer:
    """Answer POST /v1/chat/completions."""
    question = question_of(request)
    prompt = prompt_of(prompt_text(request))
    said = spoken(question, bool(request.get("stream")))
    output = _cut(prompt, _thought(said), request)
    identity = {"id": f"chatcmpl-{uuid.uuid4().hex[:16]}", "created": int(time.time()), "model": the_model(request)}
    if request.get("stream"):
        return Stream(_chat_events(output, request, {**identity, "object": "chat.completion.chunk"}))
    _run([output])
    asked = request.get("prompt_logprobs")
    body = {
        **identity,
        "object": "chat.completion",
        "choices": [_chat_choice(output, request)],
        **dict.fromkeys(("service_tier", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics")),
        "system_fingerprint": FINGERPRINT,
        "usage": {**NO_DETAILS, **output.usage(thoughts=True)},
        "prompt_logprobs": None if asked is None else prompt_logprobs(prompt, asked),
        "prompt_token_ids": _prompt_ids(output, request),
    }
    return Reply(200, body)


def completions(request: JSON) -> Answer:
    """Answer POST /v1/completions."""
    streamed = bool(request.get("stream"))
    outputs = [_cut(prompt_of(text), continuation(text, streamed), request) for text in prompts_of(request["prompt"])]
    identity = {"id": f"cmpl-{uuid.uuid4().hex[:16]}", "object": "text_completion", "created": int(time.time())}
    identity["model"] = the_model(request)
    if streamed:
        return Stream(_completion_events(outputs[0], request, identity))
    usages = [output.usage(thoughts=False) for output in outputs]
    _run(outputs)
    body = {
        **identity,
        "choices": [_completion_choice(output, request, index) for index, output in enumerate(outputs)],
        **dict.fromkeys(("service_tier", "kv_transfer_params", "ec_transfer_params", "metrics")),
        "system_fingerprint": FINGERPRINT,
        "usage": {
            **{key: sum(usage[key] for usage in usages) for key in usages[0]},
            **NO_DETAILS,
        },
    }
    return Reply(200, body)


def prompts_of(prompt: Any) -> list[str]:
    """Return the texts of a completion's prompt: one or several, as texts or as token ids."""
    if isinstance(prompt, str):
        return [prompt]
    if all(isinstance(part, int) for part in prompt):
        return [text_of(prompt)]
    return [part if isinstance(part, str) else text_of(part) for part in prompt]


def _thought(said: Utterance) -> Utterance:
    """Put thoughts into the text where the server has no parser for them."""
    opening = OPENINGS.get(personality().thinks)
    if opening is None or not said.thoughts:
        return said
    text = f"{opening}{said.thoughts}\n{THINKING_ENDS}\n\n{said.text}"
    return dataclasses.replace(said, thoughts="", text=text)


def _cut(prompt: Prompt, said: Utterance, request: JSON) -> Output:
    """Generate until the end token, a stop text, or max_tokens."""
    most = most_tokens(request, len(prompt.ids))
    text, stopped_by = _stopped(said.text, request.get("stop"))
    thoughts, rest = tuple(pieces(said.thoughts)), tuple(pieces(("\n\n" if said.thoughts else "") + text))
    calls = said.calls
    # The end of the thoughts is a token, and a call's JSON is generated between two marks.
    marks = bool(thoughts) + sum(len(pieces(given)) + 8 for _name, given in calls)
    ends = said.ends and not request.get("ignore_eos") and not stopped_by
    if len(thoughts) + len(rest) + marks + ends <= most and (ends or stopped_by):
        # A call of a function that the request names ends with "stop": so vLLM does.
        finish = "tool_calls" if calls and not isinstance(request.get("tool_choice"), dict) else "stop"
        return Output(prompt, thoughts, rest, calls, finish, stopped_by, ends, marks)
    thoughts = thoughts[:most]
    left = max(0, most - len(thoughts) - marks)
    rest = _padded(rest, left) if not said.ends or request.get("ignore_eos") else rest[:left]
    marks = most - len(thoughts) - len(rest)
    return Output(prompt, thoughts, rest, (), "length", None, ended=False, marks=marks)


def _padded(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return so many tokens, the same ones over and over where there are too few."""
    return (tokens * (count // max(1, len(tokens)) + 1))[:count] if tokens else (" on",) * count


def _stopped(text: str, stop: Any) -> tuple[str, str | None]:
    for mark in [stop] if isinstance(stop, str) else stop or ():
        if mark in text:
            return text.partition(mark)[0], mark
    return text, None


def _prompt_ids(output: Output, request: JSON) -> list[int] | None:
    return list(output.prompt.ids) if request.get("return_token_ids") else None


def _chat_choice(output: Output, request: JSON) -> JSON:
    calls = [
        {"id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}", "type": "function", "function": {"name": n, "arguments": a}}
        for n, a in output.calls
    ]
    shown, chosen = request.get("include_reasoning", True), request.get("tool_choice", "auto") == "auto"
    message: JSON = {
        "role": "assistant",
        "content": "".join(output.text) or (None if output.thoughts or (calls and chosen) else ""),
        **dict.fromkeys(("refusal", "annotations", "audio", "function_call")),
        "reasoning": "".join(output.thoughts) or None if shown else None,
    }
    if calls:
        message["tool_calls"] = calls
    return {
        "index": 0,
        "message": message,
        "logprobs": chat_logprobs(output.tokens, request.get("top_logprobs") or 0) if request.get("logprobs") else None,
        "finish_reason": output.finish,
        "stop_reason": output.stopped_by,
        "token_ids": output.ids if request.get("return_token_ids") else None,
        "routed_experts": None,
    }


def _completion_choice(output: Output, request: JSON, index: int) -> JSON:
    echoed = output.prompt if request.get("echo") else None
    most, asked = request.get("logprobs"), request.get("prompt_logprobs")
    if asked is None and echoed:
        asked = most
    return {
        "index": index,
        "text": "".join((*(echoed.tokens if echoed else ()), *output.tokens)),
        "logprobs": None if most is None else completion_logprobs(echoed, output.tokens, most),
        "finish_reason": output.finish,
        "stop_reason": output.stopped_by,
        "token_ids": output.ids if request.get("return_token_ids") else None,
        "prompt_logprobs": None if asked is None else prompt_logprobs(output.prompt, asked),
        "prompt_token_ids": _prompt_ids(output, request),
        "routed_experts": None,
    }


def _run(outputs: list[Output]) -> None:
    """Have the engine make them."""
    for output in outputs:
        with running(len(output.prompt.ids)):
            generate(output.count)


def _deltas(output: Output) -> Iterator[tuple[JSON, str | None]]:
    """Yield what each chunk of a chat adds, and the token that it stands for."""
    for token in output.thoughts:
        yield {"reasoning": token}, token
    for token in output.text:
        yield {"content": token}, token
    for index, (name, given) in enumerate(output.calls):
        begun = {"id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}", "type": "function", "index": index}
        yield {"content": None, "tool_calls": [{**begun, "function": {"name": name}}]}, None
        for piece in pieces(given):
            yield {"content": None, "tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None


def _chat_events(output: Output, request: JSON, identity: JSON) -> Iterator[JSON]:
    first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    yield {**identity, "choices": [first], "prompt_token_ids": _prompt_ids(output, request), "prompt_text": None}
    deltas = [*_deltas(output)]
    if output.finish != "length" or not deltas:
        parsed = OPTIONS.tool_call_parser or output.calls or personality().thinks == "field"
        deltas.append(({} if parsed else {"content": ""}, None))
    most = request.get("top_logprobs") or 0
    with running(len(output.prompt.ids)):
        for place, (delta, token) in enumerate(deltas):
            told = chat_logprobs([token], most) if token and request.get("logprobs") else None
            choice = {"index": 0, "delta": delta, "logprobs": told, "finish_reason": None, "token_ids": None}
            if request.get("return_token_ids"):
                choice["token_ids"] = [id_of(token)] if token else [END] if output.ended else []
            left = len(deltas) - 1 - place
            yield from _event(output, request, {**identity, "choices": [choice]}, left)


def _completion_events(output: Output, request: JSON, identity: JSON) -> Iterator[JSON]:
    tokens = [*(output.prompt.tokens if request.get("echo") else ()), *output.tokens]
    if output.finish != "length" or not tokens:
        tokens.append("")
    most = request.get("logprobs")
    with running(len(output.prompt.ids)):
        for place, token in enumerate(tokens):
            told = None if most is None or not token else completion_logprobs(None, [token], most)
            choice = {"index": 0, "text": token, "logprobs": told, "finish_reason": None, "stop_reason": None}
            choice |= {"token_ids": None, "prompt_token_ids": None if place else _prompt_ids(output, request)}
            if request.get("return_token_ids"):
                choice["token_ids"] = [id_of(token)] if token else [END]
            yield from _event(output, request, {**identity, "choices": [choice]}, len(tokens) - 1 - place)


def _event(output: Output, request: JSON, event: JSON, left: int) -> Iterator[JSON]:
    """Yield a chunk, of which so many are left, with the end of the stream in the last one."""
    generate(1)
    usage = (request.get("stream_options") or {}).get("include_usage")
    if not left:
        event["choices"][0] |= {"finish_reason": output.finish, "stop_reason": output.stopped_by}
    closing = {} if left else {"system_fingerprint": FINGERPRINT}
    yield event if usage else {**event, **closing}
    if usage and not left:
        yield {**event, "choices": [], "usage": output.usage(thoughts=True), **closing}
