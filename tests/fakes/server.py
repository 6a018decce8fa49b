"""The fake engine's HTTP server: routes, keys, and the faults that are about the transport."""

import email.parser
import http.server
import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.fakes import generation, pooling
from tests.fakes.core import running
from tests.fakes.knob import faults, number
from tests.fakes.metric import METRICS
from tests.fakes.option import OPTIONS
from tests.fakes.personality import personality
from tests.fakes.prompt import prompt_of, text_of
from tests.fakes.question import JSON
from tests.fakes.refusal import BUSY, LOST, Refusal
from tests.fakes.reply import Answer, Reply, Stream
from tests.fakes.request import check_chat, check_completion, names

PAGE = "<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>"
GUARDED = ("/v1", "/v2", "/inference", "/cohere")
BUSY_COUNT = itertools.count()


def models(_request: JSON) -> Answer:
    return Reply(200, {"object": "list", "data": [_card(name) for name in names()]})


def _card(name: str) -> JSON:
    allowed = {"create_engine": False, "sampling": True, "logprobs": True, "search_indices": False, "view": True}
    now = int(time.time())
    permission = {"id": f"modelperm-{secrets.token_hex(8)}", "object": "model_permission", "created": now}
    permission |= {f"allow_{what}": value for what, value in {**allowed, "fine_tuning": False}.items()}
    permission |= {"organization": "*", "group": None, "is_blocking": False}
    card = {"id": name, "object": "model", "created": now, "owned_by": "vllm", "root": OPTIONS.model, "parent": None}
    return {**card, "max_model_len": OPTIONS.max_model_len, "permission": [permission]}


def chat(request: JSON) -> Answer:
    check_chat(request)
    return generation.chat(request)


def completions(request: JSON) -> Answer:
    check_completion(request)
    return generation.completions(request)


def tokenize(request: JSON) -> Answer:
    if "messages" in request:
        check_chat(request)
    text = generation.prompt_text(request) if "messages" in request else request["prompt"]
    ids = list(prompt_of(text).ids)
    return Reply(200, {"count": len(ids), "max_model_len": OPTIONS.max_model_len, "tokens": ids, "token_strs": None})


def detokenize(request: JSON) -> Answer:
    return Reply(200, {"prompt": text_of(tuple(request["tokens"]))})


def metrics(_request: JSON) -> Answer:
    if "scrape" in faults():
        time.sleep(number("SCRAPE", 1))
    return Reply(200, METRICS.text(), "text/plain; version=1.0.0; charset=utf-8")


def pooled(answer: Callable[[JSON], Answer]) -> Callable[[JSON], Answer]:
    """Have the engine run what is answered with numbers, or from sound."""

    def ask(request: JSON) -> Answer:
        reply = answer(request)
        body = reply.body if isinstance(reply, Reply) else {}
        with running(body["usage"].get("prompt_tokens", 0)):
            return reply

    return ask


OPEN: dict[str, Callable[[JSON], Answer]] = {
    "/health": lambda _request: Reply(200, ""),
    "/ping": lambda _request: Reply(200, ""),
    "/version": lambda _request: Reply(200, {"version": "0.32.0"}),
    "/metrics": metrics,
    "/login": lambda _request: Reply(200, PAGE, "text/html"),
    "/v1/models": models,
}
"""What is read with GET."""

ASKED: dict[str, tuple[str, Callable[[JSON], Answer]]] = {
    "/v1/chat/completions": ("chat", chat),
    "/v1/completions": ("completions", completions),
    "/tokenize": ("tokenize", tokenize),
    "/detokenize": ("tokenize", detokenize),
    "/v1/embeddings": ("embed", pooled(pooling.embeddings)),
    **dict.fromkeys(("/rerank", "/v1/rerank", "/v2/rerank"), ("score", pooled(pooling.rerank))),
    **dict.fromkeys(("/score", "/v1/score"), ("score", pooled(pooling.score))),
    "/v1/audio/transcriptions": ("transcription", pooled(pooling.transcription)),
}
"""What is asked with POST: the task that a model must have, and who answers."""

NOT_FOUND = Reply(404, {"detail": "Not Found"})
WRONG_METHOD = Reply(405, {"detail": "Method Not Allowed"})
UNAUTHORIZED = Reply(401, {"error": "Unauthorized"})


def refused(refusal: Refusal) -> Reply:
    return Reply(refusal.status, refusal.body)


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        answer = OPEN.get(self.path)
        if not self._allowed():
            self._send(UNAUTHORIZED)
        elif answer is None:
            task, _ = ASKED.get(self.path, ("", models))
            self._send(WRONG_METHOD if task in personality().tasks else NOT_FOUND)
        elif self.path.startswith(GUARDED):
            self._send(self._proxied() or answer({}))
        else:
            self._send(answer({}))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        task, answer = ASKED.get(self.path, ("", models))
        if not self._allowed():
            self._send(UNAUTHORIZED)
        elif task not in personality().tasks:
            self._send(WRONG_METHOD if self.path in OPEN else NOT_FOUND)
        elif self.path.startswith(GUARDED):
            self._send(self._proxied() or _hindered() or self._answer(answer, raw))
        else:
            self._send(self._answer(answer, raw))

    def _allowed(self) -> bool:
        scheme, _, key = self.headers.get("Authorization", "").partition(" ")
        return (
            not OPTIONS.api_key
            or not self.path.startswith(GUARDED)
            or (scheme.lower() == "bearer" and key in OPTIONS.api_key)
        )

    def _answer(self, answer: Callable[[JSON], Answer], raw: bytes) -> Answer:
        try:
            request = self._request(raw)
            _check_engine(request)
            return answer(request)
        except Refusal as refusal:
            return refused(refusal)

    def _request(self, raw: bytes) -> JSON:
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            return _form(kind, raw)
        try:
            found: JSON = json.loads(raw)
        except ValueError:
            message = "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.1', 'msg': 'JSON decode error'}"
            raise Refusal(400, message, "Bad Request", "body.1") from None
        return found

    def _proxied(self) -> Reply | None:
        """Return what a proxy says in place of the server."""
        found = faults()
        if "html" in found:
            return Reply(200, PAGE, "text/html")
        return Reply(302, "", "text/html", (("Location", "/login"),)) if "redirect" in found else None

    def _send(self, answer: Answer) -> None:
        found = faults() if self.path in ASKED and self.path.startswith(GUARDED) else frozenset()
        try:
            if isinstance(answer, Stream):
                self._send_stream(answer.events, found)
            elif "large" in found:
                self._send_without_end()
            else:
                self._send_whole(answer, found)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _head(self, status: int, kind: str, **headers: str) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _send_whole(self, reply: Reply, found: frozenset[str]) -> None:
        text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body, ensure_ascii=False)
        body = text.encode("latin-1", "replace") if "latin" in found else text.encode(errors="replace")
        headers = {"Content_Length": str(len(body)), **{name.replace("-", "_"): value for name, value in reply.headers}}
        self._head(reply.status, reply.kind if body or reply.headers else "", **headers)
        if "drop" in found:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)

    def _send_stream(self, events: Iterator[JSON], found: frozenset[str]) -> None:
        self._head(200, "text/event-stream; charset=utf-8", Transfer_Encoding="chunked")
        broken = found & {"drop", "truncated-stream", "lost", "abort"}
        try:
            for event in _halved(events) if broken else events:
                self._send_event(json.dumps(event, ensure_ascii=False), found)
        except Refusal as refusal:
            self._send_event(json.dumps(refusal.body), found)
        if "drop" in found:
            self.close_connection = True
            return
        if "lost" in found:
            self._send_event(json.dumps(LOST.body), found)
        if "abort" in found:
            ended = {"index": 0, "delta": {}, "text": "", "logprobs": None, "finish_reason": "abort", "token_ids": None}
            self._send_event(json.dumps({"id": "aborted", "choices": [ended]}), found)
        if "truncated-stream" not in found:
            self._send_event("[DONE]", found)
        self._send_chunk(b"")

    def _send_event(self, text: str, found: frozenset[str]) -> None:
        coded = text.encode("latin-1", "replace") if "latin" in found else text.encode(errors="replace")
        self._send_chunk(b"data: " + coded + b"\n\n")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _send_without_end(self) -> None:
        self._head(200, "application/json", Transfer_Encoding="chunked")
        self._send_chunk(b'{"id": "')
        while True:
            self._send_chunk(b"x" * 65536)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        print("INFO:     " + format % args, flush=True)


def _hindered() -> Reply | None:
    """Take the time that a fault takes; return what it answers in place of the model."""
    found = faults()
    if "slow" in found:
        time.sleep(number("SLOW", 1))
    if "hang" in found:
        METRICS.enter(1)
        time.sleep(600)
    if "busy" in found and (turn := next(BUSY_COUNT)) < number("BUSY", 1):
        return refused(BUSY) if turn % 2 == 0 else Reply(429, {"error": {**BUSY.body["error"], "code": 429}})
    if "refuse" in found:
        return refused(Refusal(400, "This model's maximum context length is 64 tokens."))
    if "error" in found:
        return refused(Refusal(500, "could not create a primitive", "InternalServerError"))
    return None


def _check_engine(request: JSON) -> None:
    """Refuse what the engine loses, and what JSON can't hold."""
    found = faults()
    if "lost" in found and not request.get("stream"):
        raise LOST
    if "refused-nan" in found and _asks_logprobs(request):
        raise Refusal(400, "Out of range float values are not JSON compliant")


def _asks_logprobs(request: JSON) -> bool:
    return request.get("prompt_logprobs") is not None or request.get("logprobs") not in (None, False)


def _halved(events: Iterator[JSON]) -> Iterator[JSON]:
    every = list(events)
    yield from every[: len(every) // 2]


def _form(kind: str, raw: bytes) -> JSON:
    """Return the fields of a multipart form; a file is bytes, everything else text."""
    message = email.parser.BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + raw)
    fields: dict[str, Any] = {}
    for part in message.walk():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content if part.get_filename() else content.decode()
    return fields


class Server(http.server.ThreadingHTTPServer):
    """Bound at once, listening only when loaded, as vLLM's."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
