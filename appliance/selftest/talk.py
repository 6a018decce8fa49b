"""Asking a server in words, and the reading of its answers."""

import math
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from appliance.core.judge import Asked
from appliance.core.record import record
from appliance.core.reply import Reply, ReplyError, Trouble, shortened

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"

THOUGHT = re.compile(r"^.*</(?:[a-z]+:)?think(?:ing)?>|^.*\[/THINK\]", re.DOTALL)
"""Thoughts that no parser of the server took out; templates that open them leave only the end in the answer."""

LONGEST_TEXT = 1 << 20
"""Characters; the longest thoughts have a tenth of it."""

LARGEST_NUMBER = 1e30
"""Beyond it a sum of squares is no number."""

OPEN_THOUGHT = re.compile(r"^\s*(?:<(?:[a-z]+:)?think(?:ing)?>|\[THINK\])")


class Server(Protocol):
    """Whoever can be asked; each raises ReplyError when nothing whole came within `seconds`."""

    async def get(self, path: str, seconds: float) -> Reply:
        """Return what is at a path."""

    async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> Reply:
        """Return the reply to a JSON body."""

    async def upload(self, path: str, fields: Mapping[str, str], file: tuple[str, bytes], seconds: float) -> Reply:
        """Return the reply to a form with a file."""

    def stream(self, path: str, body: Mapping[str, Any], seconds: float) -> AsyncIterator[tuple[float, Any]]:
        """Yield each event with the seconds since the request."""


@record
class Answer:
    """What a model said."""

    text: str
    """The final answer, without thoughts."""
    thoughts: str
    content: str
    """What stands where the answer belongs, thoughts or not."""
    finish_reason: str
    calls: tuple[tuple[str, str], ...] = ()
    """Tools that were called, each with its arguments as text."""

    @property
    def still_thinking(self) -> bool:
        """Tell whether it was cut before the answer began."""
        return self.finish_reason == "length" and not self.text.strip() and bool(self.thoughts.strip())


@record
class Talk:
    """A model on a server, and how it is asked."""

    server: Server
    model: str
    seconds: float
    """The longest time for one reply."""
    longest: int | None = None
    """Tokens of the longest request that the server takes; None where it does not say."""

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Return the JSON object that answers a request. Raises ReplyError."""
        return _whole(await self.server.post(path, {"model": self.model, **body}, self.seconds))

    async def upload(self, path: str, file: tuple[str, bytes]) -> dict[str, Any]:
        """Return the JSON object that answers a form with a file. Raises ReplyError."""
        return _whole(await self.server.upload(path, {"model": self.model}, file, self.seconds))

    async def said(self, asked: Asked, **more: Any) -> Answer:
        """Ask greedily; an answer that is cut, as in thoughts, seen or not, is asked for once more, without thinking.

        Raises ReplyError.
        """
        answer = await self.once(asked, **more)
        if answer.finish_reason != "length" or asked.endpoint == "completion" or asked.thinking is not None:
            return answer
        try:
            return await self.once(asked, **more, **thinking(False))
        except ReplyError as error:
            if error.trouble is Trouble.REFUSED:
                return answer
            raise

    async def tokens_of(self, text: str) -> int | None:
        """Return how many tokens a text has; None where the server does not tell. Raises ReplyError."""
        try:
            found = (await self.post("/tokenize", prompt=text)).get("count")
        except ReplyError as error:
            if error.trouble in (Trouble.REFUSED, Trouble.LOCKED):
                return None
            raise
        return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None

    async def once(self, asked: Asked, **more: Any) -> Answer:
        """Ask once. Raises ReplyError."""
        path, body = self.request(asked)
        return answer_in(await self.post(path, **{**body, **more}))

    def request(self, asked: Asked) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of a question, without the model's name."""
        body: dict[str, Any] = {"max_tokens": self.at_most(asked.max_tokens), "temperature": 0}
        if asked.endpoint == "completion":
            return COMPLETION, {**body, "prompt": asked.ask}
        system = [{"role": "system", "content": asked.system}] if asked.system else []
        body["messages"] = [*system, {"role": "user", "content": asked.ask}]
        return CHAT, {**body, **thinking(asked.thinking)}

    def at_most(self, tokens: int) -> int:
        """Return how long an answer may be: at most half of what a request may be."""
        return max(1, min(tokens, self.longest // 2)) if self.longest else tokens


def _whole(reply: Reply) -> dict[str, Any]:
    """Return the JSON object of a reply. Raises ReplyError, also where a gateway packs an error into a good one."""
    table = reply.table()
    error = table.get("error") or (table.get("message", "an error") if table.get("object") == "error" else None)
    if error and not table.get("choices"):
        raise ReplyError(f"an error in a good reply: {told(error)}", Trouble.BROKEN)
    return table


def thinking(wanted: bool | None) -> dict[str, Any]:
    """Return what tells a chat template to think or not, by the names that templates have for it."""
    if wanted is None:
        return {}
    return {"chat_template_kwargs": {"enable_thinking": wanted, "thinking": wanted}}


def told(found: object) -> str:
    """Return something that a server sent as a message shows it."""
    try:
        return shortened(str(found))
    except RecursionError:
        return "something that is nested too deeply"


def answer_in(table: Mapping[str, Any]) -> Answer:
    """Read an answer of either endpoint. Raises ReplyError when it is none."""
    try:
        choice = table["choices"][0]
        message = choice.get("message") or {"content": choice["text"]}
        calls = tuple(
            (str(call["function"]["name"]), str(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        )
        thoughts = text_in(message.get("reasoning") or message.get("reasoning_content"))
        content = text_in(message.get("content") if calls or thoughts else message["content"])
        reason = ending_in(choice["finish_reason"])
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ReplyError(f"not an answer: {told(dict(table))}", Trouble.GARBLED) from None
    final, inline = parted(content)
    return Answer(text=final, thoughts=f"{thoughts}{inline}", content=content, finish_reason=reason, calls=calls)


def text_in(found: object) -> str:
    """Return a text of a reply, where null is none. Raises TypeError for anything else, and ReplyError for too much."""
    text = found if found is not None else ""
    if not isinstance(text, str):
        raise TypeError
    if len(text) > LONGEST_TEXT:
        raise ReplyError(f"a text of {len(text)} characters", Trouble.GARBLED)
    return text


def ending_in(found: object) -> str:
    """Return a finish_reason. Raises ReplyError where the server gave the request up, as it does when it ends."""
    if found in ("abort", "error"):
        raise ReplyError(f'the server gave up: finish_reason "{found}"', Trouble.BROKEN)
    return shortened(str(found), 40)


def parted(content: str) -> tuple[str, str]:
    """Return the final answer in a content, and the thoughts before it.

    >>> parted("<think>hm</think>Paris"), parted("<think>hm"), parted("Paris")
    (('Paris', '<think>hm</think>'), ('', '<think>hm'), ('Paris', ''))
    """
    if thought := THOUGHT.match(content):
        return content[thought.end() :], thought[0]
    return ("", content) if OPEN_THOUGHT.match(content) else (content, "")


def vector_in(value: object) -> tuple[float, ...]:
    """Return a list of numbers. Raises ReplyError when it is none."""
    if not isinstance(value, list) or not value or not all(isinstance(item, (int, float)) for item in value):
        raise ReplyError(f"not a list of numbers: {told(value)}", Trouble.GARBLED)
    return tuple(number_in(item) for item in value)


def number_in(value: object) -> float:
    """Return a number of a reply; what is none, or larger than any that a model means, is not a number.

    >>> number_in(2), number_in(10**400), number_in("2"), number_in(True)
    (2.0, nan, nan, nan)
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) <= LARGEST_NUMBER:
        return math.nan
    return float(value)
