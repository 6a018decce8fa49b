"""The HTTP API of an engine, or of any server that speaks the same."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from appliance.core.reply import Reply, ReplyError, Trouble, shortened, trouble_of
from appliance.core.work import Work, work_in

TROUBLE = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
"""What a request ends with when there is no answer."""

LARGEST_REPLY = 1 << 26
"""Bytes; the logprobs of a prompt of a hundred thousand tokens come to a tenth of it."""


class EngineClient:
    """Talks to one server; proxies of the environment are not used, and no redirect is followed."""

    def __init__(self, base_url: str, api_key: str | None = None) -> None:
        self._base_url = base_url.rstrip("/")
        self._key = api_key or ""
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def healthy(self) -> bool:
        """Tell whether /health says 200; an engine that does not listen yet is not."""
        try:
            return (await self.get("/health", 5)).status == 200
        except ReplyError:
            return False

    async def busy(self) -> bool | None:
        """Tell whether requests run or wait, by /metrics; None where it does not say."""
        told = [work for work in await self.work(5) or () if not (work.running is None and work.waiting is None)]
        return any(work.busy for work in told) if told else None

    async def work(self, seconds: float) -> tuple[Work, ...] | None:
        """Return what /metrics says of each engine, which may be nothing; None when no reply came."""
        try:
            reply = await self.get("/metrics", seconds)
        except ReplyError:
            return None
        return work_in(reply.text) if reply.status == 200 else ()

    async def get(self, path: str, seconds: float) -> Reply:
        """Return what is at a path. Raises ReplyError when nothing whole came within `seconds`."""
        async with self._whole(seconds) as session, session.get(self._url(path), allow_redirects=False) as reply:
            return await self._reply(reply)

    async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> Reply:
        """Return the reply to a JSON body. Raises ReplyError when nothing whole came within `seconds`."""
        async with (
            self._whole(seconds) as session,
            session.post(self._url(path), json=body, allow_redirects=False) as reply,
        ):
            return await self._reply(reply)

    async def upload(self, path: str, fields: Mapping[str, str], file: tuple[str, bytes], seconds: float) -> Reply:
        """Return the reply to a form with a file: its name and content. Raises ReplyError as `post` does."""
        form = aiohttp.FormData()
        for name, value in fields.items():
            form.add_field(name, value)
        form.add_field("file", file[1], filename=file[0])
        async with (
            self._whole(seconds) as session,
            session.post(self._url(path), data=form, allow_redirects=False) as reply,
        ):
            return await self._reply(reply)

    async def stream(self, path: str, body: Mapping[str, Any], seconds: float) -> AsyncIterator[tuple[float, Any]]:
        """Yield each event of a stream with the seconds since the request, up to its end mark.

        Raises ReplyError when the stream ends without the mark, or is none.
        """
        loop = asyncio.get_running_loop()
        start, size = loop.time(), 0
        async with (
            self._whole(seconds) as session,
            session.post(self._url(path), json=body, allow_redirects=False) as reply,
        ):
            if reply.status != 200:
                text = (await self._reply(reply)).text
                raise ReplyError(f"HTTP {reply.status}: {shortened(text)}", trouble_of(reply.status))
            async for line in reply.content:
                size += len(line)
                if size > LARGEST_REPLY:
                    raise ReplyError(f"a stream of more than {LARGEST_REPLY} bytes", Trouble.GARBLED)
                if line.startswith(b"data:") and line[5:].strip() == b"[DONE]":
                    return
                if line.startswith(b"data:"):
                    yield loop.time() - start, _event(line)
            ends = "Content-Length" in reply.headers or reply.headers.get("Transfer-Encoding") == "chunked"
        # Where only the end of the connection ends a stream, the server may just be gone.
        raise ReplyError("a stream without its end mark", Trouble.GARBLED if ends else Trouble.BROKEN)

    def _url(self, path: str) -> str:
        return f"{self._base_url}{path}"

    @contextlib.asynccontextmanager
    async def _whole(self, seconds: float) -> AsyncIterator[aiohttp.ClientSession]:
        """Open a session of its own for one request, and turn its troubles into ReplyError."""
        # No time at all would mean no limit to aiohttp.
        timeout = aiohttp.ClientTimeout(total=max(seconds, 0.001))
        try:
            async with aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session:
                yield session
        except TROUBLE as error:
            if isinstance(error, asyncio.TimeoutError):
                raise ReplyError(f"no whole reply within {seconds:.3g} s", Trouble.BUSY) from None
            raise ReplyError(shortened(f"no reply: {type(error).__name__} {error}".rstrip()), Trouble.BUSY) from None
        except ValueError as error:
            raise ReplyError(shortened(f"not a reply: {error}"), Trouble.GARBLED) from None

    async def _reply(self, reply: aiohttp.ClientResponse) -> Reply:
        content = bytearray()
        async for chunk in reply.content.iter_chunked(1 << 16):
            content += chunk
            if len(content) > LARGEST_REPLY:
                raise ReplyError(f"a reply of more than {LARGEST_REPLY} bytes", Trouble.GARBLED)
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ReplyError(f"not UTF-8: byte {error.start} is {content[error.start]:#04x}", Trouble.GARBLED) from None
        # Some servers tell a refused key, and what they refuse is shown to people.
        refused = reply.status != 200 and self._key
        return Reply(status=reply.status, text=text.replace(self._key, "(hidden)") if refused else text)


def _event(line: bytes) -> Any:
    """Return one event; an engine that is lost sends an error as an event of a good stream."""
    try:
        found = json.loads(line[5:].decode("utf-8"))
    except (ValueError, RecursionError):
        raise ReplyError(f"an event that is not JSON: {shortened(repr(line))}", Trouble.GARBLED) from None
    if not isinstance(found, dict):
        raise ReplyError(f"an event that is no JSON object: {shortened(repr(line))}", Trouble.GARBLED)
    if found.get("error"):
        raise ReplyError(f"an error in the stream: {shortened(line[5:].decode('utf-8', 'replace'))}", Trouble.BROKEN)
    return found
