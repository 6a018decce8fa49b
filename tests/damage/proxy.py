"""`python -m tests.damage.proxy --engine URL --port N --case CASE`: a faulty server before a sound one."""

import argparse
import asyncio
import json
from typing import Any

import aiohttp
from aiohttp import web

from tests.damage.fault import FAULTS, SOUND, Event, Fault, State, Turn
from tests.damage.table import draw_of, variant_of

TOGETHER = 0.2
"""Seconds for which a request waits for another one to change places with."""

WORDS = ("/v1/completions", "/v1/chat/completions")
"""Requests whose replies are spoilt; everything else is passed on."""

HIDDEN = {"content-length", "transfer-encoding", "content-encoding", "connection", "date", "server", "host"}
"""Headers that are made anew."""


def fault_of(case: str) -> Fault:
    """Return the fault that a case names."""
    return {**FAULTS, SOUND.name: SOUND}[variant_of(case)[0]]


class Proxy:
    """The faulty server."""

    def __init__(self, case: str, engine: str, second: str) -> None:
        self._fault = fault_of(case)
        self._state = State(draw_of(case))
        self._engine, self._second = engine, second
        self._open: list[Turn] = []
        self._number = 0
        self._waiting: asyncio.Future[dict[str, Any]] | None = None
        self._waiting_body: dict[str, Any] = {}

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """Answer anything else as the engine does."""
        data = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HIDDEN}
        url = self._engine + request.path_qs
        method = request.method
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=data, headers=headers) as reply,
        ):
            content = await reply.read()
        if request.path == "/v1/models" and self._fault.names and reply.status == 200:
            table = json.loads(content)
            table["data"] = [{**table["data"][0], "id": name} for name in self._fault.names]
            content = json.dumps(table).encode()
        return web.Response(status=reply.status, body=content, content_type=reply.content_type)

    async def speak(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for words, with the fault."""
        turn = Turn(path=request.path, body=await request.json(), number=self._number)
        self._number += 1
        for other in self._open:
            other.beside = turn.beside = True
        self._open.append(turn)
        try:
            body = await self._exchanged(turn.body) if self._fault.pairs else turn.body
            body = self._fault.ask(self._state, body) if self._fault.ask else body
            reply, events = await self._asked(turn, body)
        finally:
            self._open.remove(turn)
        if reply.status != 200:
            return web.json_response(events[0] if events else None, status=reply.status)
        events = self._fault.answer(self._state, turn, events)
        return await _stream(request, events) if turn.body.get("stream") else web.json_response(events[0])

    async def _asked(self, turn: Turn, body: dict[str, Any]) -> tuple[aiohttp.ClientResponse, list[Event]]:
        """Ask the engine, or the second one where the turn is its."""
        elsewhere = self._fault.second and self._fault.second(turn)
        url = (self._second if elsewhere else self._engine) + turn.path
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, json=body) as reply:
            return reply, _events(await reply.text(), streamed=reply.content_type == "text/event-stream")

    async def _exchanged(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of another request that came at the same time; its own where none came."""
        waiting = self._waiting
        if waiting and bool(self._waiting_body.get("stream")) == bool(body.get("stream")):
            self._waiting = None
            waiting.set_result(body)
            return self._waiting_body
        mine = self._waiting = asyncio.get_running_loop().create_future()
        self._waiting_body = body
        done, _ = await asyncio.wait({mine}, timeout=TOGETHER)
        self._waiting = None if self._waiting is mine else self._waiting
        return mine.result() if done else body


def _events(text: str, *, streamed: bool) -> list[Event]:
    if not streamed:
        return [json.loads(text)]
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def _stream(request: web.Request, events: list[Event]) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await reply.prepare(request)
    for event in events:
        await reply.write(f"data: {json.dumps(event)}\n\n".encode())
    await reply.write(b"data: [DONE]\n\n")
    return reply


def application(case: str, engine: str, second: str) -> web.Application:
    """Return the server of a case."""
    proxy = Proxy(case, engine, second)
    routes = web.Application(client_max_size=2**26)
    for path in WORDS:
        routes.router.add_post(path, proxy.speak)
    routes.router.add_route("*", "/{path:.*}", proxy.pass_on)
    return routes


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m tests.damage.proxy", description=__doc__)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--second", default="")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--case", required=True)
    options = parser.parse_args()
    served = application(options.case, options.engine, options.second)
    web.run_app(served, host="127.0.0.1", port=options.port, print=lambda *_: None)


if __name__ == "__main__":
    main()
