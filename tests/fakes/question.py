"""What a request asks: its texts, images, tools and schema, and the prompt that the template makes of it."""

import base64
import dataclasses
import re
import time
from typing import Any

from tests.fakes.knob import faults

JSON = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Question:
    """One request to a model that talks, as a personality sees it."""

    text: str
    """The last user message; of a completion, the prompt."""
    context: str = ""
    """All texts of the conversation."""
    images: tuple[bytes, ...] = ()
    tools: tuple[JSON, ...] = ()
    """The functions that may be called."""
    must_call: bool = False
    schema: JSON | None = None
    """What the answer must fit; an empty one is any object."""
    choices: tuple[str, ...] = ()
    """The answer must be one of these."""
    think: bool = True


def question_of(request: JSON) -> Question:
    """Return what a chat completion asks."""
    texts, images = zip(*(_parts(message.get("content")) for message in request["messages"]), strict=True)
    users = [t for t, m in zip(texts, request["messages"], strict=True) if m["role"] == "user"]
    schema, choices = _form(request)
    return Question(
        text=users[-1] if users else texts[-1],
        context="\n".join(texts),
        images=tuple(image for some in images for image in some),
        tools=_tools(request),
        must_call=request.get("tool_choice", "auto") not in ("auto", "none"),
        schema=schema,
        choices=choices,
        think=bool((request.get("chat_template_kwargs") or {}).get("enable_thinking", True)),
    )


def rendered(request: JSON) -> str:
    """Return the prompt of a chat completion."""
    lines = [f"<|im_start|>{m['role']}\n{_parts(m.get('content'))[0]}<|im_end|>\n" for m in request["messages"]]
    begun = "" if request.get("add_generation_prompt") is False else "<|im_start|>assistant\n"
    dated = f"<|im_start|>system\nToday is {time.strftime('%d %B %Y')}.<|im_end|>\n" if "dated" in faults() else ""
    return dated + "".join(lines) + begun


def _parts(content: Any) -> tuple[str, list[bytes]]:
    if isinstance(content, str) or content is None:
        return content or "", []
    text = "\n".join(part["text"] for part in content if part.get("type") == "text")
    urls = [part["image_url"]["url"] for part in content if part.get("type") == "image_url"]
    return text, [base64.b64decode(re.sub(r"^data:[^,]*,", "", url)) for url in urls]


def _tools(request: JSON) -> tuple[JSON, ...]:
    choice = request.get("tool_choice", "auto")
    functions = [tool["function"] for tool in request.get("tools") or ()]
    if choice == "none":
        return ()
    if isinstance(choice, dict):
        return tuple(function for function in functions if function["name"] == choice["function"]["name"])
    return tuple(functions)


def _form(request: JSON) -> tuple[JSON | None, tuple[str, ...]]:
    asked = request.get("response_format") or {}
    outputs = request.get("structured_outputs") or {}
    if asked.get("type") == "json_schema":
        return asked["json_schema"].get("schema") or {}, ()
    if asked.get("type") == "json_object" or outputs.get("json_object"):
        return {}, ()
    return outputs.get("json"), tuple(outputs.get("choice") or ())
