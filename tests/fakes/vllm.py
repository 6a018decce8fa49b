"""A stand-in for `vllm serve`: the same processes, signals, lines and routes, and a knob for each way to fail.

What it does was seen in vLLM 0.32 on a CPU; tests/contract holds both against the same expectations.
Knobs are variables of the environment, FAKE_*.
"""

import argparse
import http.server
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LOG = Path(os.environ.get("FAKE_LOG", "/nonexistent"))
"""A log of a real start; its lines are printed in place of ours."""

ANSWERS = {"What is the capital of France?": "The capital of France is Paris."}


def knob(name: str, default: str = "") -> str:
    return os.environ.get(f"FAKE_{name}", default)


def answer(question: str) -> str:
    """Return what the demonstration model says, or what the knob makes of it."""
    if count := re.fullmatch(r"Count from (\d+) to (\d+)\.", question):
        right = " ".join(str(number) for number in range(int(count[1]), int(count[2]) + 1))
    else:
        right = ANSWERS.get(question, "I do not know.")
    return {"right": right, "wrong": right[::-1], "empty": ""}[knob("ANSWERS", "right")]


class Handler(http.server.BaseHTTPRequestHandler):
    """The routes that the supervisor uses."""

    def reply(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        known = {"/health": {}, "/v1/models": {"object": "list", "data": [{"id": OPTIONS.served_model_name}]}}
        self.reply(200 if self.path in known else 404, known.get(self.path, {"detail": "Not Found"}))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if request["model"] != OPTIONS.served_model_name:
            message = f"The model `{request['model']}` does not exist. Valid aliases: {OPTIONS.served_model_name}."
            self.reply(404, {"error": {"message": message, "type": "NotFoundError", "code": 404}})
        elif knob("ANSWERS") == "refuse":
            message = "This model's maximum context length is 64 tokens."
            self.reply(400, {"error": {"message": message, "type": "BadRequestError", "code": 400}})
        elif knob("ANSWERS") == "error":
            self.reply(500, {"error": {"message": "could not create a primitive", "code": 500}})
        else:
            self.chat(request)

    def chat(self, request: dict[str, object]) -> None:
        messages = request["messages"]
        assert isinstance(messages, list)
        words = answer(messages[-1]["content"])
        choice = {"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}
        self.reply(200, {"object": "chat.completion", "model": request["model"], "choices": [choice]})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        print("INFO:     " + format % args, flush=True)


class Server(http.server.ThreadingHTTPServer):
    """Bound at once, listening only when loaded, as vLLM's."""

    allow_reuse_address = True
    daemon_threads = True


def say(text: str, process: str = "APIServer", level: str = "INFO") -> None:
    print(f"({process} pid={os.getpid()}) {level} 11-30 21:00:00 [fake.py:1] {text}", flush=True)


def terms() -> "list[int]":
    """Count SIGTERMs: the first is swallowed while loading, the second ends the start as SIGINT would."""
    seen: list[int] = []

    def take(_number: int, _frame: object) -> None:
        seen.append(1)
        if knob("STUBBORN"):
            return
        if READY.is_set():
            say("[shutdown] API server: shutdown triggered")
            ENDING.set()
        elif len(seen) > 1:
            end_children()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGTERM, take)
    return seen


def child(name: str, escape: bool) -> "subprocess.Popen[bytes]":
    """Start a process that lives until it is killed, as EngineCore and its workers do."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    return subprocess.Popen([sys.executable, "-c", code, f"VLLM::{name}"], start_new_session=escape)


def end_children() -> None:
    for process in CHILDREN:
        process.kill()
        process.wait()


def load() -> None:
    """Print the lines of a start, in the time that the knob gives it."""
    log = LOG.read_text() if LOG.exists() else "(APIServer pid=1) INFO Starting to load model"
    lines = log.partition("INFO:     Started server process")[0].splitlines()
    pause = float(knob("LOAD_SECONDS", "0.2")) / len(lines)
    for line in lines:
        print(line, flush=True)
        time.sleep(pause)
    if knob("EXIT"):
        print("RuntimeError: Engine core initialization failed. See root cause above.", flush=True)
        end_children()
        sys.exit(int(knob("EXIT")))
    if knob("SILENT"):
        time.sleep(600)


def map_shared_memory() -> "mmap.mmap | None":
    """Make a segment that nobody unlinks, as an engine core does that is killed."""
    if not knob("SHM"):
        return None
    with Path("/dev/shm", f"psm_{knob('SHM')}").open("w+b") as segment:
        segment.truncate(mmap.PAGESIZE)
        return mmap.mmap(segment.fileno(), mmap.PAGESIZE)


def watch() -> None:
    """Exit with 0 when a child has died: that is what vLLM does when its engine core is lost."""
    while not ENDING.wait(0.1):
        if any(process.poll() is not None for process in CHILDREN):
            say("[shutdown] MPClient: engine core exited unexpectedly; starting cleanup", level="WARNING")
            ENDING.set()


def serve() -> None:
    terms()
    if knob("USAGE"):
        print("vllm: error: unrecognized arguments: --bogus-flag 1", file=sys.stderr, flush=True)
        sys.exit(2)
    server = Server((OPTIONS.host, int(knob("PORT", str(OPTIONS.port)))), Handler, bind_and_activate=False)
    server.server_bind()
    CHILDREN.extend([child("EngineCore", escape=False), child("Worker", escape=bool(knob("ESCAPE")))])
    segment = map_shared_memory()
    load()
    server.server_activate()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    READY.set()
    print("INFO:     Application startup complete.", flush=True)
    threading.Thread(target=watch, daemon=True).start()
    while not ENDING.wait(0.1):
        pass
    end_children()
    server.shutdown()
    if segment:
        segment.close()


READY, ENDING = threading.Event(), threading.Event()
CHILDREN: "list[subprocess.Popen[bytes]]" = []
PARSER = argparse.ArgumentParser(prog="vllm serve")
PARSER.add_argument("verb", choices=["serve"])
PARSER.add_argument("model")
PARSER.add_argument("--host")
PARSER.add_argument("--port", type=int)
PARSER.add_argument("--served-model-name")
OPTIONS = argparse.Namespace()

if __name__ == "__main__":
    OPTIONS, _ = PARSER.parse_known_args()
    serve()
