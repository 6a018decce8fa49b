"""What was found on the machine: one snapshot for each attempt to start."""

import dataclasses

from appliance.core.option import OptionList
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
    tree: str | None = None
    """Source tree that lies ahead of the environment on PYTHONPATH; None for an engine of wheels."""
    options: OptionList | None = None
    """Its own flags and variables; None when they are those of the list that is shipped for its version."""


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
    """As that machine names it, also when it was read below another root."""
    architecture: str | None
    max_position_embeddings: int | None
    weights: tuple[WeightFile, ...]
    missing: tuple[str, ...]
    """Files that must be there and are not."""
    config: str | None = None
    """The text of config.json, as one line of JSON; None when it is not there or not a table."""


@record
class GpuFacts:
    """One GPU, as NVML or nvidia-smi tells it."""

    index: int
    """Position in PCI order."""
    name: str
    uuid: str | None = None
    memory_total: int | None = None
    """Bytes; None where GPU and CPU share one memory (GB10 says [N/A])."""
    memory_free: int | None = None
    """Bytes."""
    memory_ours: int | None = None
    """Bytes that our own running engine holds; None when it does not run, or the driver does not tell."""
    compute_capability: str | None = None
    """`9.0`, `12.1`."""
    pci_address: str | None = None
    """`0000:01:00.0`."""
    numa_node: int | None = None


@record
class NumaNode:
    """A part of the machine whose processors and memory are near to each other."""

    index: int
    cpus: str
    """The kernel's list, `0-15,32-47`."""
    memory_total: int | None
    """Bytes."""


@record
class Address:
    """An address of an interface."""

    interface: str
    address: str
    prefix: int
    """Bits of the network part."""
    scope: str
    """`global`, `link` or `host`."""


@record
class Gid:
    """One entry of the table of an RDMA port."""

    index: int
    kind: str
    """`RoCE v2`, `IB/RoCE v1`."""
    gid: str
    """`0000:0000:0000:0000:0000:ffff:0a0a:010b`."""
    interface: str | None


@record
class RdmaPort:
    """A port of an RDMA device."""

    device: str
    port: int
    state: str | None
    """`ACTIVE`, `DOWN`."""
    physical_state: str | None
    """`LinkUp`, `Disabled`."""
    rate: float | None
    """Gb/s."""
    pci_address: str | None
    gids: tuple[Gid, ...]
    """Those that hold an address."""


@record
class FileSystem:
    """A mounted file system that something of ours lies on."""

    mount: str
    kind: str
    """`ext4`, `nfs4`, `tmpfs`."""
    total: int | None
    """Bytes."""
    free: int | None
    """Bytes that an ordinary user can still write."""


@record
class FileFacts:
    """Whether one file is there."""

    path: str
    """As that machine names it."""
    exists: bool


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
    """The one that was asked for."""
    gpus: tuple[GpuFacts, ...] | None
    memory_total: int | None
    """Bytes of main memory."""
    memory_available: int | None
    """Bytes that can be had without swapping."""
    port: PortFacts | None
    unread: tuple[Unread, ...]
    checkpoints: tuple[CheckpointFacts, ...] = ()
    """Others that were found."""
    engine_runs: bool = False
    """True while our own engine runs: what it holds of the memory will be free for the next."""
    driver_cuda: str | None = None
    """CUDA level of the driver, `13.0`."""
    nvcc_cuda: str | None = None
    """CUDA release of the compiler that the first start would use, `13.0`."""
    numa: tuple[NumaNode, ...] | None = None
    addresses: tuple[Address, ...] | None = None
    """In the kernel's order."""
    rdma: tuple[RdmaPort, ...] | None = None
    """Empty on a machine without an RDMA device."""
    file_systems: tuple[FileSystem, ...] | None = None
    files: tuple[FileFacts, ...] = ()
    """Files that were looked for, there or not."""
    searched: tuple[str, ...] = ()
    """Folders below which every file is in `files`."""

    def why_unread(self, what: str) -> str:
        """Return why something is unknown; empty when nothing was noted."""
        return next((entry.reason for entry in self.unread if entry.what == what), "")

    def has_file(self, path: str) -> bool | None:
        """Tell whether a file was there; None when nobody looked."""
        if (known := next((file.exists for file in self.files if file.path == path), None)) is not None:
            return known
        below = any(path.startswith(f"{folder.rstrip('/')}/") for folder in self.searched)
        return False if below else None

    def asked_for(self, folder: str | None) -> "Facts":
        """Return the same facts with a checkpoint that was found as the one that was asked for."""
        if self.checkpoint is not None or folder is None or self.why_unread("checkpoint"):
            return self
        found, unread = self.about(folder), self.unread
        if found is None and self.has_file(f"{folder}/config.json") is False:
            unread = (*unread, Unread(what="checkpoint", reason=f"there is no {folder}/config.json"))
        return dataclasses.replace(self, checkpoint=found, unread=unread)

    def about(self, folder: str | None) -> CheckpointFacts | None:
        """Return what is known of a checkpoint's folder."""
        known = (*((self.checkpoint,) if self.checkpoint else ()), *self.checkpoints)
        return next((checkpoint for checkpoint in known if checkpoint.folder == folder), None)
