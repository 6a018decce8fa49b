"""A fake engine without a supervisor, and the asking of it."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from appliance.core.document import Reader, document_of
from appliance.core.question import Question, questions_of
from appliance.engine.client import EngineClient
from appliance.selftest.examination import Examination, examined
from appliance.selftest.verdict import Verdict
from tests.component.rig import FAKE
from tests.rig import reserved_port

PATIENCE = 20.0
"""Seconds for the start of a fake engine."""

SHORT = 0.9
"""Seconds of a budget in which nothing can be asked twice: the first pause is longer."""


class FakeServer:
    """A fake engine that serves a model of one personality, by that name, with answers that can be turned."""

    def __init__(self, folder: Path, personality: str, *options: str, **knobs: str | int) -> None:
        self.name = personality
        self.file = folder / "answers"
        self.turn("right")
        self._holder = reserved_port()
        self.base = f"http://127.0.0.1:{self._holder.getsockname()[1]}"
        program = folder / "vllm"
        program.symlink_to(FAKE)
        words = [sys.executable, str(program), "serve", "model", "--port", self.base.rpartition(":")[2]]
        words += ["--host", "127.0.0.1", "--served-model-name", personality, "--max-model-len", "8192", *options]
        chosen = {"MODEL": personality, "ANSWERS_FILE": self.file, "LOAD_SECONDS": "0.01", **knobs}
        environment = {**os.environ, **{f"FAKE_{name}": str(value) for name, value in chosen.items()}}
        log = (folder / "log").open("w")
        self._process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
        log.close()

    @property
    def log(self) -> str:
        """What it printed."""
        return (self.file.parent / "log").read_text()

    def processes(self, title: str = "") -> list[psutil.Process]:
        """Return its processes that have something in their command line, the API server first."""
        own = psutil.Process(self._process.pid)
        return [one for one in (own, *own.children(recursive=True)) if title in " ".join(one.cmdline())]

    def turn(self, faults: str) -> None:
        """Put other faults in force, at once."""
        draft = self.file.with_suffix(".new")
        draft.write_text(faults)
        draft.replace(self.file)

    def until_listening(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"{self.base}/health", timeout=PATIENCE):
                    return
            except urllib.error.URLError:
                assert time.monotonic() < deadline, f"{self.name} does not listen"
                assert self._process.poll() is None, f"{self.name} did not start"
                time.sleep(0.02)

    def asked(
        self, questions: Sequence[Question], faults: str = "right", key: str | None = None, budget: float = 30.0
    ) -> list[Verdict]:
        """Ask, with faults in force."""
        self.turn(faults)
        examination = Examination(model=self.name, questions=tuple(questions), budget=budget)

        async def all_of_it() -> list[Verdict]:
            return [verdict async for verdict in examined(examination, EngineClient(self.base, key))]

        try:
            return asyncio.run(all_of_it())
        finally:
            self.turn("right")

    def close(self) -> None:
        # It ends its children.
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._holder.close()


class Servers:
    """Fake engines, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[object, FakeServer] = {}

    def of(self, personality: str, *options: str, **knobs: str | int) -> FakeServer:
        """Return the server of a personality, options and knobs."""
        name = (personality, options, *sorted(knobs.items()))
        if name not in self._known:
            folder = self._folder / str(len(self._known))
            folder.mkdir()
            self._known[name] = FakeServer(folder, personality, *options, **knobs)
            self._known[name].until_listening()
        return self._known[name]

    @classmethod
    @contextlib.contextmanager
    def below(cls, folder: Path) -> Iterator["Servers"]:
        """Open a set of servers, and end all of them afterwards."""
        servers = cls(folder)
        try:
            yield servers
        finally:
            for server in servers._known.values():
                server.close()


def questions(text: str) -> tuple[Question, ...]:
    """Read questions in TOML."""
    reader = Reader(document_of(text, "questions.toml"))
    found = questions_of(reader)
    assert not reader.problems
    return found


def question(judge: str, keys: str = "") -> Question:
    """Return one question, which waits a second for a reply unless its keys say something else."""
    patience = "" if "timeout" in keys else 'timeout = "1s"'
    return questions(f'[[question]]\nname = "{judge}"\njudge = "{judge}"\n{patience}\n{keys}')[0]


def told(verdict: Verdict) -> str:
    said = verdict.judgement
    return f"{verdict.outcome}: {said.why} | {said.found}"
