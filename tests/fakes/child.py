"""A process of the fake engine below the API server: EngineCore, or a worker.

    python child.py TITLE

It takes the name that vLLM gives to that process, says with a line that it is up, and makes one step of the engine for
each line that it reads: the line holds the seconds for which the step computes. Stopped or killed, it makes none. It
outlives the API server, as EngineCore does.
"""

import ctypes
import signal
import sys
import time
from pathlib import Path

LIFE = 600.0
"""Seconds that an orphan lives."""


def take_title(title: str) -> None:
    """Write a title over the own command line, which is what setproctitle does."""
    places = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    start, end = int(places[45]), int(places[46])
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, title.encode(), min(len(title), end - start - 1))


def compute(seconds: float) -> None:
    """Use a whole core for so long."""
    deadline = time.thread_time() + seconds
    while time.thread_time() < deadline:
        pass


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    take_title(sys.argv[1])
    print(flush=True)
    for line in sys.stdin:
        compute(float(line))
        print(flush=True)
    time.sleep(LIFE)


if __name__ == "__main__":
    main()
