"""The real vLLM and the fake one, held against the same expectations."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from appliance.core.progress import progress_of
from tests.component.rig import FakeRig
from tests.contract.service import RealRig
from tests.rig import ROOT, Rig

SWALLOWED = "Initializing a V1 LLM engine"
"""From this line on vLLM swallows the first SIGTERM."""


class Engine:
    """One engine, started by its plan and without the supervisor."""

    def __init__(self, rig: Rig) -> None:
        plan = self._plan(rig)
        self.port = rig.port
        self.log = rig.folder / "engine.log"
        environment = {**os.environ, **plan["env"]}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                plan["argv"], env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    @staticmethod
    def _plan(rig: Rig) -> dict[str, Any]:
        command = [sys.executable, "-m", "appliance.cli.main", "plan", "--config", str(rig.config), "--json"]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
        plan: dict[str, Any] = json.loads(printed)
        return plan

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 240
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}; log:\n{self.log.read_text()}"
            time.sleep(0.05)

    def until_printed(self, text: str) -> None:
        self.until(lambda: text in self.log.read_text(), f'"{text}"')

    def get(self, path: str) -> tuple[int, Any]:
        return self._reply(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}"))

    def chat(self, **request: object) -> tuple[int, Any]:
        body = {"model": "demo", "temperature": 0, "max_tokens": 64, **request}
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        headers = {"Content-Type": "application/json"}
        return self._reply(urllib.request.Request(url, json.dumps(body).encode(), headers))

    def _reply(self, request: urllib.request.Request) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")
        except urllib.error.URLError:
            return 0, None

    def until_healthy(self) -> None:
        self.until(lambda: self.get("/health")[0] == 200, "/health")

    def child(self, title: str) -> psutil.Process:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return next(child for child in children if title in " ".join(child.cmdline()))

    def close(self) -> None:
        members = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        for member in members:
            member.kill()
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=["fake", "vllm"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "fake":
        rig: Rig = FakeRig(tmp_path)
        rig.write(LOAD_SECONDS=6)  # type: ignore[call-arg]  # the fake's knob
    else:
        rig = RealRig(tmp_path, request.getfixturevalue("engines"))
    engine = Engine(rig)
    yield engine
    engine.close()
    rig.close()


def test_an_engine_starts_answers_and_stops(engine: Engine) -> None:
    engine.until_printed("non-default args:")
    engine.until(lambda: port_bound(engine.port), "the port to be bound")
    assert engine.get("/health") == (0, None), "bound, but not listening before it is loaded"
    engine.until_healthy()
    told = [progress for line in engine.log.read_text().splitlines() if (progress := progress_of(line))]
    steps = ("arguments accepted", "architecture Qwen3ForCausalLM", "loading weights", "starting the API server")
    assert all(step in told for step in steps)

    status, models = engine.get("/v1/models")
    assert (status, [model["id"] for model in models["data"]]) == (200, ["demo"])
    question = {"role": "user", "content": "What is the capital of France?"}
    status, reply = engine.chat(messages=[question])
    choice = reply["choices"][0]
    assert (status, choice["message"]["content"]) == (200, "The capital of France is Paris.")
    assert choice["finish_reason"] == "stop"
    status, reply = engine.chat(model="other", messages=[question])
    assert (status, reply["error"]["message"].split(". ")[0]) == (404, "The model `other` does not exist")
    assert engine.get("/nowhere")[0] == 404

    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(30) == 0
    assert "[shutdown] API server: shutdown triggered" in engine.log.read_text()


def port_bound(port: int) -> bool:
    """Tell whether some process holds the port, which a connection can't tell before it listens."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def test_an_engine_whose_core_is_killed_leaves_with_status_0(engine: Engine) -> None:
    engine.until_healthy()
    engine.child("VLLM::EngineCore").kill()
    assert engine.process.wait(60) == 0
    assert "engine core exited unexpectedly" in engine.log.read_text()


def test_the_first_sigterm_while_loading_is_swallowed_and_the_second_is_not(engine: Engine) -> None:
    engine.until_printed(SWALLOWED)
    engine.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert engine.process.poll() is None
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(60) == -signal.SIGINT
