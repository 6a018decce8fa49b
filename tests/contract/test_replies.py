"""What the fake engine answers, held against what the real vLLM answers to the same requests.

Left out, because nothing here can run them: a model that sees, and one that transcribes (the engine has no decoder of
sound). Their replies are as vLLM's source has them.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contract.reply import KEY, Ask, alike, metrics, told
from tests.rig import ROOT, reserved_port

DEMO = ROOT / "demo/model"
NAMES = ("--served-model-name", "demo", "too", "--api-key", KEY)
COMMON = (*NAMES, "--enforce-eager", "--dtype", "bfloat16", "--kv-cache-memory-bytes", "268435456")
TALKS = (*COMMON, "--max-model-len", "1024", "--distributed-executor-backend", "uni")
DRAFTER = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2}'
KINDS: dict[str, tuple[str, ...]] = {
    "demo": (*TALKS, "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    "thinking": (*TALKS, "--reasoning-parser", "qwen3", "--speculative-config", DRAFTER),
    "base": TALKS,
    "embedding": (*COMMON, "--runner", "pooling"),
    "rerank": (*COMMON, "--runner", "pooling"),
}
"""The models that the fake can be, each with the command line of both servers."""

KNOBS = {"base": {"FAKE_ANSWERS": "refused-nan"}, "thinking": {"FAKE_ACCEPTED": "0.5,0.3,0.1"}}
ENGINE = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
FRANCE = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
COUNT = {"prompt": "Count from 1 to 5.", "temperature": 0, "max_tokens": 2}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
UNIT = {"type": "object", "properties": {"unit": {"type": "string"}}, "required": ["unit"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": UNIT}}
NAMED = {"type": "function", "function": {"name": "weather"}}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
BLANK = {"logit_bias": {"223": -100, "201": -100}}
"""The ids of space and newline: the model, which knows no JSON, would write them until it is cut."""


def chat(**more: Any) -> Ask:
    return Ask(CHAT, {"model": "demo", "max_tokens": 20, **FRANCE, **more})


def completion(**more: Any) -> Ask:
    return Ask(COMPLETION, {"model": "demo", **COUNT, **more})


def without(ask: Ask, *keys: str) -> Ask:
    return Ask(ask.path, {key: value for key, value in ask.body.items() if key not in keys})


SERVER = {
    "health": Ask("/health"),
    "health without a key": Ask("/health", key=None),
    "models": Ask("/v1/models"),
    "models without a key": Ask("/v1/models", key=None),
    "models with another key": Ask("/v1/models", key="another"),
    "version": Ask("/version"),
    "a path that is none": Ask("/nowhere"),
    "a path that is none, without a key": Ask("/v1/nowhere", key=None),
    "a GET of a POST": Ask(CHAT),
    "a POST of a GET": Ask("/health", {}),
}
TALK = {
    "chat": chat(),
    "chat, cut": chat(max_tokens=2),
    "chat without max_tokens": without(chat(), "max_tokens"),
    "chat by another name": chat(model="too"),
    "chat without a name": without(chat(), "model"),
    "chat without a key": Ask(CHAT, chat().body, key=None),
    "chat in parts": chat(messages=[{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]),
    "chat, streamed": chat(stream=True),
    "chat, streamed and counted": chat(**USAGE),
    "chat, streamed and cut": chat(max_tokens=2, **USAGE),
    "chat, logprobs of the prompt": chat(max_tokens=1, prompt_logprobs=0, return_token_ids=True),
    "chat, more logprobs of the prompt": chat(max_tokens=1, prompt_logprobs=2),
    "chat, logprobs": chat(max_tokens=2, logprobs=True, top_logprobs=2),
    "chat, logprobs streamed": chat(max_tokens=2, logprobs=True, return_token_ids=True, stream=True),
    "chat, token ids": chat(return_token_ids=True),
    "chat, no thoughts": chat(chat_template_kwargs={"enable_thinking": False}),
    "chat, a stop text": chat(stop=["Paris"]),
    "chat, on and on": chat(ignore_eos=True),
    "chat, a choice": chat(structured_outputs={"choice": ["cold", "hot"]}),
    "chat, tools": chat(tools=[TOOL]),
    "chat, no tool": chat(tools=[TOOL], tool_choice="none"),
    "chat, some tool": chat(tools=[TOOL], tool_choice="required", max_tokens=100, **BLANK),
    "chat, some tool streamed": chat(tools=[TOOL], tool_choice="required", max_tokens=100, stream=True, **BLANK),
    "chat, this tool": chat(tools=[TOOL], tool_choice=NAMED, max_tokens=100, **BLANK),
    "chat, this tool streamed": chat(tools=[TOOL], tool_choice=NAMED, max_tokens=100, stream=True, **BLANK),
    "chat, another model": chat(model="other"),
    "chat, a picture": chat(messages=[{"role": "user", "content": [PICTURE]}]),
    "chat without messages": without(chat(), "messages"),
    "chat, an empty conversation": chat(messages=[]),
    "chat, not JSON": Ask(CHAT, b"{not json"),
    "chat, max_tokens too many": chat(max_tokens=100000),
    "chat, max_tokens too few": chat(max_tokens=0),
    "chat, more than there is room": chat(max_tokens=1023),
    "chat, a temperature below 0": chat(temperature=-1),
    "completion": completion(),
    "completion, to its end": completion(max_tokens=16),
    "completion, echoed": completion(echo=True),
    "completion, echoed with logprobs": completion(echo=True, logprobs=1),
    "completion, logprobs": completion(logprobs=2),
    "completion, logprobs of the prompt": completion(prompt_logprobs=0, return_token_ids=True),
    "completion, more logprobs of the prompt": completion(prompt_logprobs=2),
    "completion, too many logprobs of the prompt": completion(prompt_logprobs=21),
    "completion, logprobs of the prompt streamed": completion(prompt_logprobs=1, stream=True),
    "completion, streamed": completion(stream=True),
    "completion, streamed and counted": completion(max_tokens=16, **USAGE),
    "completion, token ids streamed": completion(stream=True, return_token_ids=True),
    "completion, several": completion(prompt=["a", "b"]),
    "completion, token ids given": completion(prompt=[65, 66, 67]),
    "completion of nothing": completion(prompt=""),
    "completion without a prompt": without(completion(), "prompt"),
    "completion of too long a text": completion(prompt="a " * 3000),
    "completion by another model": completion(model="other"),
    "tokens": Ask("/tokenize", {"model": "demo", "prompt": "What is"}),
    "tokens of a chat": Ask("/tokenize", {"model": "demo", **FRANCE}),
}
THINKING = {
    "thoughts, cut": chat(max_tokens=4),
    "thoughts, streamed": chat(max_tokens=4, **USAGE),
    "no thoughts": chat(chat_template_kwargs={"enable_thinking": False}),
    "hidden thoughts": chat(max_tokens=4, include_reasoning=False),
}
BASE = {
    "chat without a template": chat(),
    "chat without a template, streamed": chat(stream=True),
    "tokens of a chat without a template": Ask("/tokenize", {"model": "demo", **FRANCE}),
    "logprobs that are none": completion(logprobs=1),
    "logprobs of the prompt that are none": completion(prompt_logprobs=0),
    "completion": completion(),
}
POOLING = {
    "an embedding": Ask("/v1/embeddings", {"model": "demo", "input": "hello"}),
    "embeddings": Ask("/v1/embeddings", {"model": "demo", "input": ["hello", "there"]}),
    "an embedding of tokens": Ask("/v1/embeddings", {"model": "demo", "input": [65, 66]}),
    "an embedding in base64": Ask("/v1/embeddings", {"model": "demo", "input": "a", "encoding_format": "base64"}),
    "an embedding of nothing": Ask("/v1/embeddings", {"model": "demo", "input": []}),
    "an embedding of some width": Ask("/v1/embeddings", {"model": "demo", "input": "a", "dimensions": 8}),
    "an embedding by another model": Ask("/v1/embeddings", {"model": "other", "input": "a"}),
    "an embedding without input": Ask("/v1/embeddings", {"model": "demo"}),
    "ranks": Ask("/v1/rerank", {"model": "demo", "query": "hello", "documents": ["a", "hello there"]}),
    "ranks, short": Ask("/rerank", {"model": "demo", "query": "hello", "documents": ["a", "b"], "top_n": 1}),
    "ranks, Cohere's": Ask("/v2/rerank", {"model": "demo", "query": "hello", "documents": ["a"]}),
    "ranks of nothing": Ask("/rerank", {"model": "demo", "query": "hello", "documents": []}),
    "ranks without documents": Ask("/rerank", {"model": "demo", "query": "hello"}),
    "ranks by another model": Ask("/rerank", {"model": "other", "query": "hello", "documents": ["a"]}),
    "a score": Ask("/v1/score", {"model": "demo", "text_1": "a", "text_2": "b"}),
    "scores": Ask("/score", {"model": "demo", "queries": "a", "documents": ["b", "c"]}),
    "a score of nothing": Ask("/score", {"model": "demo"}),
    "a chat": chat(),
    "a completion": completion(),
    "a transcription": Ask("/v1/audio/transcriptions", {"model": "demo"}),
    "tokens": Ask("/tokenize", {"model": "demo", "prompt": "a"}),
    "a path that is none": Ask("/v1/nowhere", {}),
}
FOREIGN = {name: ask for name, ask in POOLING.items() if ask.path not in (CHAT, COMPLETION, "/tokenize")}
# The last kind's server tells its metrics too.
ASKS = {
    "demo": {**SERVER, **TALK, **FOREIGN},
    "base": BASE,
    "embedding": {**SERVER, **POOLING},
    "rerank": POOLING,
    "thinking": THINKING,
}


class Served:
    """A server that is up."""

    def __init__(self, command: list[str], port: int, log: Path, **environment: str) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self._log = log
        command = [*command, "--host", "127.0.0.1", "--port", str(port)]
        with log.open("w") as file:
            self._process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **environment}
            )

    def until_healthy(self) -> None:
        deadline = time.monotonic() + 240
        while not self._healthy():
            late = self._process.poll() is not None or time.monotonic() >= deadline
            assert not late, self._log.read_text()
            time.sleep(0.1)

    def _healthy(self) -> bool:
        try:
            return bool(urllib.request.urlopen(f"{self.base}/health", timeout=5).status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)


class Pairs:
    """The real server and the fake one, of one kind at a time."""

    def __init__(self, programs: tuple[list[str], list[str]], checkpoints: dict[str, Path], folder: Path) -> None:
        self._programs = programs
        self._checkpoints = checkpoints
        self._folder = folder
        self._kind = ""
        self._pair: tuple[Served, Served]
        self._open = ExitStack()

    def of(self, kind: str) -> tuple[Served, Served]:
        if kind != self._kind:
            self.close()
            self._kind, self._pair = kind, self._started(kind)
        return self._pair

    def _started(self, kind: str) -> tuple[Served, Served]:
        words = ["serve", str(self._checkpoints[kind]), *KINDS[kind]]
        environments = ENGINE, {"FAKE_MODEL": kind, "FAKE_LOAD_SECONDS": "0", **KNOBS.get(kind, {})}
        started = []
        for program, environment, name in zip(self._programs, environments, ("real", "fake"), strict=True):
            port = self._open.enter_context(reserved_port()).getsockname()[1]
            started.append(Served([*program, *words], port, self._folder / f"{kind}-{name}.log", **environment))
            self._open.callback(started[-1].close)
        for served in started:
            served.until_healthy()
        return started[0], started[1]

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def pairs(engines: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    folder = tmp_path_factory.mktemp("replies")
    python, program = str(engines / "current/bin/python"), str(engines / "current/bin/vllm")
    subprocess.run(
        [python, ROOT / "tests/contract/tiny.py", folder, DEMO],
        check=True,
        capture_output=True,
        env={**os.environ, **ENGINE},
    )
    checkpoints = {**{kind: folder / kind for kind in KINDS}, "demo": DEMO, "thinking": DEMO}
    pairs = Pairs(([python, program], [sys.executable, str(ROOT / "tests/fakes/vllm.py")]), checkpoints, folder)
    yield pairs
    pairs.close()


CASES = [pytest.param(kind, ask, id=f"{kind}, {name}") for kind, asks in ASKS.items() for name, ask in asks.items()]


@pytest.mark.parametrize(("kind", "ask"), CASES)
def test_the_fake_answers_as_the_real_one(pairs: Pairs, kind: str, ask: Ask) -> None:
    real, fake = (told(server.base, ask) for server in pairs.of(kind))
    assert alike(real, fake), f"real: {json.dumps(real.body, indent=1)}\nfake: {json.dumps(fake.body, indent=1)}"


def test_the_fake_counts_under_the_names_of_the_real_one(pairs: Pairs) -> None:
    real, fake = (metrics(server.base) for server in pairs.of("thinking"))
    assert fake.items() <= real.items()
    assert sum("spec_decode" in name for name in fake) == 4
