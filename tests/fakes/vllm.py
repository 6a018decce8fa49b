"""A stand-in for `vllm serve`: the same processes, signals, lines and routes, and a knob for each way to fail.

What it does was seen in vLLM 0.32 on a CPU; tests/contract holds both against the same expectations.
Knobs are variables of the environment, FAKE_*: those of the process are below; personality.py knows the models,
knob.py the faults.
"""

import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# It is run as a program, by a link to it: its modules are found from the root of the project.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.core import CORE
from tests.fakes.knob import knob
from tests.fakes.option import OPTIONS, read_options
from tests.fakes.server import Handler, Server

CHILD = Path(__file__).resolve().with_name("child.py")

LOG = Path(knob("LOG", "/nonexistent"))
"""A log of a real start; its lines are printed in place of ours."""


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
    command = [sys.executable, str(CHILD), f"VLLM::{name}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=escape)


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
    server = Server((OPTIONS.host or "", int(knob("PORT", str(OPTIONS.port)))), Handler, bind_and_activate=False)
    server.server_bind()
    CHILDREN.extend([child("EngineCore", escape=False), child("Worker", escape=bool(knob("ESCAPE")))])
    segment = map_shared_memory()
    load()
    CORE.begin(CHILDREN)
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


if __name__ == "__main__":
    read_options(sys.argv[1:])
    serve()
