"""What the server refuses before it asks the model, with vLLM's words."""

from collections.abc import Iterator
from typing import Any

from tests.fakes.knob import faults
from tests.fakes.option import OPTIONS
from tests.fakes.personality import personality
from tests.fakes.question import JSON
from tests.fakes.refusal import Refusal, missing, misused

TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the "
    "tokenizer does not define one."
)


def names() -> list[str]:
    """Return the names that the model is served under."""
    return ["another-model"] if "names" in faults() else OPTIONS.names


def the_model(request: JSON) -> str:
    """Return the model's name in a request; without one it is the first of those that are served."""
    return str(request.get("model") or names()[0])


def check_model(request: JSON) -> None:
    if the_model(request) not in names():
        aliases = ", ".join(names())
        message = f"The model `{request['model']}` does not exist. Valid aliases: {aliases}."
        raise Refusal(404, message, "NotFoundError", "model")


def check_chat(request: JSON) -> None:
    """Refuse a chat completion that this model, or any, can't answer."""
    if "messages" not in request:
        raise missing("messages")
    check_model(request)
    if not personality().template:
        raise Refusal(400, TEMPLATE)
    if not request["messages"]:
        raise Refusal(400, "Cannot apply chat template to an empty conversation. Provide at least one message.")
    if not personality().sees and any(part.get("type") == "image_url" for part in _parts(request["messages"])):
        raise Refusal(400, f"{the_model(request)} is not a multimodal model")
    _check_tools(request)
    check_sampling(request)


def check_completion(request: JSON) -> None:
    """Refuse a completion that no model can answer."""
    check_model(request)
    if not request.get("prompt"):
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise Refusal(400, message, param="prompt")
    check_sampling(request)


def check_sampling(request: JSON) -> None:
    if (request.get("temperature") or 0) < 0:
        value = float(request["temperature"])
        raise misused("temperature", f"temperature must be non-negative, got {value}.", value)
    if (request.get("prompt_logprobs") or 0) > 0 and request.get("stream"):
        message = "`prompt_logprobs` are not available when `stream=True`. (parameter=prompt_logprobs)"
        raise Refusal(400, message, param="prompt_logprobs")
    if (request.get("prompt_logprobs") or 0) > 20:
        value = request["prompt_logprobs"]
        raise misused("prompt_logprobs", f"Requested prompt logprobs of {value}, which is greater than max allowed: 20",
                      value)  # fmt: skip


def most_tokens(request: JSON, prompt: int) -> int:
    """Return how many tokens may be generated after a prompt of so many."""
    longest = OPTIONS.max_model_len
    asked = request.get("max_completion_tokens")
    asked = request.get("max_tokens") if asked is None else asked
    if prompt >= longest:
        message = (
            f"This model's maximum context length is {longest} tokens. However, your prompt contains at least {prompt} "
            "input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the "
            "input prompt."
        )
        raise misused("input_tokens", message, prompt)
    if asked is None:
        return longest - prompt if "messages" in request else min(16, longest - prompt)
    if asked < 1:
        raise misused("max_tokens", f"max_tokens must be at least 1, got {asked}.", asked)
    if asked > longest:
        message = (
            f"max_tokens={asked} cannot be greater than max_model_len={longest}. Please request fewer output tokens."
        )
        raise misused("max_tokens", message, asked)
    return int(min(asked, longest - prompt))


def _parts(messages: Any) -> Iterator[JSON]:
    for message in messages:
        if isinstance(message.get("content"), list):
            yield from message["content"]


def _check_tools(request: JSON) -> None:
    if not request.get("tools") or personality().calls or OPTIONS.tool_call_parser:
        return
    choice = request.get("tool_choice", "auto")
    if choice == "auto":
        needed = "--enable-auto-tool-choice and --tool-call-parser"
        raise Refusal(400, f'"auto" tool choice requires {needed} to be set')
    if choice != "none":
        named = f'function "{choice["function"]["name"]}"' if isinstance(choice, dict) else f'"{choice}"'
        raise Refusal(400, f"tool_choice={named} requires --tool-call-parser to be set")
