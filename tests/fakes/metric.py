"""What /metrics tells: vLLM's names, a few of them, and numbers of what was asked."""

import threading
from collections.abc import Iterator

from tests.fakes.knob import number, numbers
from tests.fakes.option import OPTIONS


class Metrics:
    """Counters of this server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.steps = 0
        self._running = 0
        self._asked = 0
        self._prompt = 0
        self._generated = 0

    def enter(self, prompt: int) -> None:
        """Count a request that runs from now on, and the tokens of its prompt."""
        with self._lock:
            self._running += 1
            self._prompt += prompt

    def generate(self, tokens: int) -> None:
        with self._lock:
            self._generated += tokens

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
            self._asked += 1

    def text(self) -> str:
        """Return the page; of a server without statistics it tells nothing of the engine."""
        if OPTIONS.disable_log_stats:
            return ""
        return "".join(
            f'# HELP {name} {name}.\n# TYPE {name} {kind}\n{name}{{engine="0",model_name="{OPTIONS.names[0]}"{more}}} '
            f"{float(value)}\n"
            for name, kind, more, value in (*self._load(), *self._drafts())
        )

    def _load(self) -> Iterator[tuple[str, str, str, float]]:
        """Yield the load; FAKE_RUNNING and FAKE_WAITING add other people's requests to it."""
        yield "vllm:num_requests_running", "gauge", "", self._running + number("RUNNING")
        yield "vllm:num_requests_waiting", "gauge", "", number("WAITING")
        yield "vllm:kv_cache_usage_perc", "gauge", "", 0
        yield "vllm:prompt_tokens_total", "counter", "", self._prompt
        yield "vllm:generation_tokens_total", "counter", "", self._generated
        yield "vllm:iteration_tokens_total_count", "counter", "", self.steps
        yield "vllm:request_success_total", "counter", ',finished_reason="stop"', self._asked

    def _drafts(self) -> Iterator[tuple[str, str, str, float]]:
        """Yield the drafter's counters: FAKE_ACCEPTED holds the share that is accepted at each position."""
        shares = numbers("ACCEPTED")
        if not shares:
            return
        drafts = int(self._generated / (1 + sum(shares)))
        accepted = [int(drafts * share) for share in shares]
        yield "vllm:spec_decode_num_drafts_total", "counter", "", drafts
        yield "vllm:spec_decode_num_draft_tokens_total", "counter", "", drafts * len(shares)
        yield "vllm:spec_decode_num_accepted_tokens_total", "counter", "", sum(accepted)
        for place, value in enumerate(accepted):
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            yield name, "counter", f',position="{place}"', value


METRICS = Metrics()
