"""What a server's /metrics says of its requests, engine by engine."""

import math
import re
from collections.abc import Iterator

from appliance.core.record import record

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"

PROGRESS = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:iteration_tokens_total_count",
    "vllm:request_success_total",
)
"""Counters of vLLM 0.32 that move when requests do; --disable-log-stats takes all of them away."""

AWAKE = "vllm:engine_sleep_state"

LABELS = r'\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\}'
SAMPLE = re.compile(
    rf"^(?P<name>{'|'.join(map(re.escape, (RUNNING, WAITING, *PROGRESS, AWAKE)))})(?:{LABELS})?"
    r" (?P<value>\S+)(?: -?\d+)?\r?$",
    re.MULTILINE,
)
"""One line of Prometheus' text format; a value in quotes may hold brackets."""

ENGINE = re.compile(r'(?:^|,)\s*engine="((?:[^"\\]|\\.)*)"')
IS_AWAKE = 'sleep_state="awake"'


@record
class Work:
    """The requests of one engine: one of several where they share the requests of a server."""

    engine: str
    running: float | None = None
    """Requests that it works on; None where that is not told."""
    waiting: float | None = None
    done: tuple[tuple[str, float], ...] = ()
    """Counters of what it has done since its start, by name; each is summed over its other labels."""
    asleep: bool = False
    """An operator took its weights away for a while: it is up, and answers nobody."""

    @property
    def busy(self) -> bool:
        """Tell whether it has requests to work on."""
        return bool((self.running or 0) > 0 or (self.waiting or 0) > 0)

    def moved_since(self, before: "Work") -> bool:
        """Tell whether any counter is larger than it was; one that fell was begun anew, which is no progress."""
        earlier = dict(before.done)
        return any(value > earlier[name] for name, value in self.done if name in earlier)


def work_in(metrics: str) -> tuple[Work, ...]:
    r"""Return what each engine has to do and has done; nothing where the page does not tell.

    >>> work_in('vllm:num_requests_running{engine="0"} 2.0\nvllm:prompt_tokens_total{engine="0"} 7.0\n')[0].done
    (('vllm:prompt_tokens_total', 7.0),)
    """
    sums: dict[str, dict[str, float]] = {}
    for engine, name, value in _samples(metrics):
        found = sums.setdefault(engine, {})
        found[name] = found.get(name, 0.0) + value
    return tuple(
        Work(
            engine=engine,
            running=found.get(RUNNING),
            waiting=found.get(WAITING),
            done=tuple((name, found[name]) for name in PROGRESS if name in found),
            asleep=found.get(AWAKE) == 0,
        )
        for engine, found in sorted(sums.items())
    )


def _samples(metrics: str) -> Iterator[tuple[str, str, float]]:
    """Yield the engine, the name and the value of each line that counts."""
    for sample in SAMPLE.finditer(metrics):
        labels = sample["labels"] or ""
        value = _number(sample["value"])
        if value is None or (sample["name"] == AWAKE and IS_AWAKE not in labels):
            continue
        engine = ENGINE.search(labels)
        yield engine[1] if engine else "", sample["name"], value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
