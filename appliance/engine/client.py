"""The engine's HTTP API, as far as the supervisor uses it."""

import asyncio
import json
from typing import Any

import aiohttp

from appliance.core.reply import ReplyError

TROUBLE = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
"""What a request ends with when there is no answer."""


class EngineClient:
    """Talks to one engine; proxies of the environment are not used."""

    def __init__(self, base_url: str, model: str, api_key: str | None = None) -> None:
        self._base_url = base_url
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def healthy(self) -> bool:
        """Tell whether /health says 200; an engine that does not listen yet is not."""
        try:
            async with self._session(5) as session, session.get(f"{self._base_url}/health") as reply:
                return reply.status == 200
        except TROUBLE:
            return False

    async def chat(self, ask: str, max_tokens: int, seconds: float) -> tuple[str, str]:
        """Ask one question greedily; return the answer's text and its finish_reason.

        Raises ReplyError when the engine answers with something else, or not within `seconds`.
        """
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": ask}],
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        try:
            url = f"{self._base_url}/v1/chat/completions"
            async with self._session(seconds) as session, session.post(url, json=body) as reply:
                return _answer(reply.status, await reply.text())
        except TROUBLE as error:
            raise ReplyError(f"no reply: {type(error).__name__} {error}".rstrip()) from None

    async def longest(self) -> int | None:
        """Return the tokens of the longest request that the engine takes; None where it does not say."""
        try:
            async with self._session(30) as session, session.get(f"{self._base_url}/v1/models") as reply:
                return _longest(await reply.text())
        except TROUBLE:
            return None

    def _session(self, seconds: float) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds), headers=self._headers)


def _longest(text: str) -> int | None:
    try:
        found: Any = json.loads(text)["data"][0]["max_model_len"]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, int) and found > 0 else None


def _answer(status: int, text: str) -> tuple[str, str]:
    if status != 200:
        raise ReplyError(f"HTTP {status}: {text[:300]}", final=400 <= status < 500 and status not in (408, 429))
    try:
        choice: Any = json.loads(text)["choices"][0]
        return str(choice["message"]["content"] or ""), str(choice["finish_reason"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise ReplyError(f"not a chat completion: {text[:300]}") from None
