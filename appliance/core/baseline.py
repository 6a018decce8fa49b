"""What an operator accepted: how a model answered on this machine, for later starts to be held against."""

import math

from appliance.core.fingerprint import Reference
from appliance.core.record import record

FORMAT = 1


@record
class Identity:
    """What the answers come from."""

    source: str
    """The folder of the model, or the address of a server that is not ours."""
    checkpoint: str
    """A digest of its config.json and of the names and sizes of its weights."""
    engine: str
    hardware: str
    """The GPUs by name, or `cpu`."""
    settings: str = ""
    """A digest of what the engine was started with: precision, caches and batches change answers a little."""


@record
class Greedy:
    """What the model said to one text, greedily."""

    ask: str
    endpoint: str
    text: str


@record
class Baseline:
    """The answers of an accepted model. Raises ValueError for another version's."""

    format: int = FORMAT
    recorded: str
    """When, in ISO 8601."""
    model: str
    task: str
    identity: Identity
    reference: Reference | None = None
    """None for a model that gives no logprobs."""
    noise_mean: float = 0.0
    """Nats: how far the same texts lay from each other when they were asked again, also beside other requests."""
    noise_largest: float = 0.0
    greedy: tuple[Greedy, ...] = ()
    agreement: float = 1.0
    """The part of the greedy texts that came again."""
    vectors: tuple[tuple[float, ...], ...] = ()
    """What a model that answers with numbers made of fixed texts."""
    first_token: float | None = None
    """Seconds."""
    tokens_per_second: float | None = None

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, this version reads {FORMAT}")
        numbers = (self.noise_mean, self.noise_largest, self.agreement, *(n for vector in self.vectors for n in vector))
        if not all(map(math.isfinite, numbers)) or min(self.noise_mean, self.noise_largest, self.agreement) < 0:
            raise ValueError("a number in it that is none, or a noise or agreement below 0")
        if self.reference is None and not self.greedy and not self.vectors:
            raise ValueError("nothing in it that could be compared")


@record
class Accepted:
    """The judge of one part of a baseline; it is not declared in a file, but follows from what was recorded."""

    part: str
    """`logprobs`, `greedy`, `vectors` or `speed`."""
    baseline: Baseline
    now: Identity


def nearest(baselines: tuple[Baseline, ...], now: Identity) -> Baseline | None:
    """Return what was accepted for exactly this, else the newest for the same model; None where nothing was."""
    ours = [baseline for baseline in baselines if baseline.identity.source == now.source]
    exact = [baseline for baseline in ours if baseline.identity == now]
    return max(exact or ours, key=lambda baseline: baseline.recorded, default=None)


def differences(before: Identity, now: Identity) -> str:
    """Return what changed since, for a person; empty when nothing did."""
    names = ("checkpoint", "engine", "hardware", "settings")
    pairs = ((name, getattr(before, name), getattr(now, name)) for name in names)
    return ", ".join(f"{name} {old}, now {new}" for name, old, new in pairs if old != new)
