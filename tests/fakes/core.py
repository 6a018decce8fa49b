"""The fake engine's loop: a request goes on only when every process of the engine makes its step.

So it is with vLLM: a process that is stopped, or that computes for minutes, holds up all requests, and the counters of
/metrics stand still, while /health and /metrics themselves are answered by another process.
"""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from tests.fakes.knob import faults, number
from tests.fakes.metric import METRICS
from tests.fakes.refusal import LOST

Child = subprocess.Popen[bytes]


class Core:
    """Makes the steps, one at a time, each for all requests that wait for one."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._waiting: list[threading.Event] = []
        self._children: Sequence[Child] = ()
        self._seconds = 0.0
        self._lost = False

    def begin(self, children: Sequence[Child]) -> None:
        """Wait until these processes are up, and make steps with them from now on."""
        for child in children:
            assert child.stdout
            child.stdout.readline()
        self._children = children
        threading.Thread(target=self._loop, daemon=True).start()

    def step(self, seconds: float = 0.0) -> None:
        """Wait for a whole step, in which EngineCore computes for so long. Raises Refusal when the engine is lost."""
        done = threading.Event()
        with self._turn:
            if self._lost:
                raise LOST
            self._seconds = max(self._seconds, seconds)
            self._waiting.append(done)
            self._turn.notify()
        done.wait()
        if self._lost:
            raise LOST

    def _loop(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._waiting)
                waiting, self._waiting = self._waiting, []
                seconds, self._seconds = self._seconds, 0.0
            self._lost = not self._made(seconds)
            METRICS.steps += not self._lost
            for done in waiting:
                done.set()
            if self._lost:
                with self._turn:
                    for done in self._waiting:
                        done.set()
                return

    def _made(self, seconds: float) -> bool:
        """Have every process make its part; tell whether all of them live."""
        for child, part in zip(self._children, (seconds, *[0.0] * len(self._children)), strict=False):
            assert child.stdin
            assert child.stdout
            try:
                child.stdin.write(f"{part}\n".encode())
                child.stdin.flush()
            except OSError:
                return False
            if not child.stdout.readline():
                return False
        return True


CORE = Core()


@contextlib.contextmanager
def running(prompt: int) -> Iterator[None]:
    """Run a request from its first step on, in which its prompt of so many tokens is computed."""
    time.sleep(number("FIRST"))
    CORE.step(number("GRIND", 1) if "grind" in faults() else 0.0)
    METRICS.enter(prompt)
    try:
        yield
    finally:
        METRICS.leave()


def generate(tokens: int) -> None:
    """Generate tokens, one a step where FAKE_SPEED says how many a second, else all of them at once."""
    speed = number("SPEED")
    for _ in range(tokens if speed else 1):
        if speed:
            time.sleep(1 / speed)
            CORE.step()
        METRICS.generate(1 if speed else tokens)
