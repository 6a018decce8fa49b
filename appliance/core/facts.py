"""What was found on the machine: one snapshot for each attempt to start."""

from appliance.core.record import record


@record
class Unread:
    """Something that could not be found out, and why."""

    what: str
    reason: str


@record
class EngineFacts:
    """An installed vLLM."""

    id: str
    folder: str
    vllm: str
    """Version of vLLM, as it tells it: `0.32.0+cpu`."""
    torch: str
    device: str
    """What it computes on: `cpu` or `cuda`."""


@record
class WeightFile:
    """One file of weights."""

    name: str
    bytes: int
    """Size on disk."""
    fault: str | None
    """What is wrong with its header; None when it describes the file exactly."""


@record
class CheckpointFacts:
    """A folder that should hold a model."""

    folder: str
    architecture: str | None
    max_position_embeddings: int | None
    weights: tuple[WeightFile, ...]
    missing: tuple[str, ...]
    """Files that must be there and are not."""


@record
class GpuFacts:
    """One GPU as NVML tells it."""

    index: int
    uuid: str
    name: str
    memory_total: int
    """Bytes."""
    memory_free: int
    """Bytes."""


@record
class PortFacts:
    """Whether the address of the API can be listened on."""

    host: str
    port: int
    fault: str | None
    """What the kernel says when it can't; None when it can."""
    transient: bool
    """True when waiting can help: an address not yet assigned, a port still held."""


@record
class Facts:
    """The machine, as far as the plan and the checks need it."""

    engine: EngineFacts | None
    checkpoint: CheckpointFacts | None
    gpus: tuple[GpuFacts, ...] | None
    memory_total: int | None
    """Bytes of main memory."""
    memory_available: int | None
    """Bytes that can be had without swapping."""
    port: PortFacts | None
    unread: tuple[Unread, ...]

    def why_unread(self, what: str) -> str:
        """Return why something is unknown; empty when nothing was noted."""
        return next((entry.reason for entry in self.unread if entry.what == what), "")
