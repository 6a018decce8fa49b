"""How any model is fitted to a machine: which GPUs, how many of them, and how much of their memory.

Memory is in bytes throughout. Line numbers are of vLLM 0.32.0.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from appliance.core.facts import Facts, GpuFacts
from appliance.core.kind import NotYetError, UnfitError
from appliance.core.record import record
from appliance.core.shape import Demand, Shape, number_of

MIB, GIB = 1 << 20, 1 << 30

SHORT = 4096
"""Tokens of a request that must fit at the least; vLLM shortens max_model_len = -1 to what does."""

LEAST_CACHE = 256 * MIB
"""KV cache below which nothing is served on a CPU."""

CONTEXT = 3 * GIB // 4
"""What CUDA takes of a GPU before vLLM measures what is free (0.63 GiB on an RTX 3090, rounded up)."""

UNIFIED_NAMES = re.compile(r"\b(GB10|GH200|Thor|Orin)\b")
UNIFIED_CAPABILITIES = ("12.1", "11.0", "8.7")
"""GPUs that have no memory of their own: GB10, Thor, Orin."""

NO_DRIVER = ("not installed", "not found", "not loaded", "no library", "there is no", "there is none")
"""What a reading says on a machine without a driver for GPUs."""


@record
class Accelerator:
    """The GPUs that an engine may use: of one kind, unless a person named them."""

    gpus: tuple[GpuFacts, ...]
    names: tuple[str, ...]
    """As CUDA_VISIBLE_DEVICES takes them."""
    total: int | None
    """Memory of the smallest; of the machine where it is shared with the CPU."""
    free: int | None
    """Of the one with the least; None where it is unknown, or our own engine still holds some."""
    unified: bool


@record
class Case:
    """A model on GPUs."""

    accelerator: Accelerator
    demand: Demand
    room: int | None
    """For weights and KV cache on each GPU."""
    cache: int | None
    """KV cache on each GPU where a person set it."""
    stages: int
    replicas: int


def device_of(facts: Facts) -> str:
    """Return what the engine computes on, cpu or cuda; without an engine, what the machine has.

    Raises NotYetError where a driver is there and does not answer.
    """
    if facts.engine is not None:
        return facts.engine.device
    reason = facts.why_unread("gpus")
    if facts.gpus is None and reason and not any(word in reason.lower() for word in NO_DRIVER):
        raise NotYetError(f"the GPUs could not be read: {reason}")
    return "cuda" if facts.gpus else "cpu"


def accelerator(facts: Facts, devices: Sequence[str] | None, count: int | None) -> Accelerator | None:
    """Return the GPUs to use: those that a person named, else those of the kind of which there is most memory.

    At most `count`. None where the engine computes on the CPU. Raises NotYetError where GPUs may still come, and
    UnfitError for a name that no GPU has.
    """
    if device_of(facts) == "cpu":
        return None
    if not facts.gpus:
        raise NotYetError(f"the engine needs a GPU, none was found: {facts.why_unread('gpus') or _none_found(facts)}")
    if count and count > len(facts.gpus):
        raise UnfitError(f"[gpu] count wants {count} GPUs, this machine has {len(facts.gpus)}")
    named = [_gpu(facts.gpus, device) for device in devices or ()]
    gpus = (named or _of_one_kind(facts.gpus))[:count]
    unified = all(_is_unified(gpu) for gpu in gpus)
    totals = [gpu.memory_total for gpu in gpus]
    return Accelerator(
        gpus=tuple(gpus),
        names=tuple((devices or [str(gpu.index) for gpu in gpus])[: len(gpus)]),
        total=facts.memory_total if unified else _least(totals),
        free=_free(facts, gpus, unified=unified),
        unified=unified,
    )


def _free(facts: Facts, gpus: Sequence[GpuFacts], *, unified: bool) -> int | None:
    """Return what is free on the GPU with the least, with what our own running engine will give back."""
    if unified:
        return None if facts.engine_runs else facts.memory_available
    if not facts.engine_runs:
        return _least(gpu.memory_free for gpu in gpus)
    known = ((gpu.memory_free, gpu.memory_ours) for gpu in gpus)
    return _least(None if free is None or ours is None else free + ours for free, ours in known)


def too_much_wanted(accelerator: Accelerator | None, utilization: float | None) -> str | None:
    """Tell when a person's share of the memory is more than is free now: vLLM then ends after its import."""
    if accelerator is None or not utilization or not accelerator.free or not accelerator.total:
        return None
    wanted = utilization * accelerator.total
    if wanted <= accelerator.free:
        return None
    return (
        f"gpu_memory_utilization of {utilization} is {wanted / GIB:.1f} GiB of the GPU, "
        f"{accelerator.free / GIB:.1f} GiB are free"
    )


def _none_found(facts: Facts) -> str:
    return "nobody looked for one" if facts.gpus is None else "the driver has none"


def _gpu(gpus: Iterable[GpuFacts], device: str) -> GpuFacts:
    if device.startswith("MIG-"):
        return GpuFacts(index=0, name=device, uuid=device)
    found = next((gpu for gpu in gpus if device in (str(gpu.index), gpu.uuid)), None)
    if found is None:
        raise UnfitError(f"[gpu] devices names {device}, found {', '.join(str(gpu.index) for gpu in gpus)}")
    return found


def _of_one_kind(gpus: Iterable[GpuFacts]) -> list[GpuFacts]:
    def kind(gpu: GpuFacts) -> tuple[str, str]:
        return gpu.name, gpu.compute_capability or ""

    kinds = [list(group) for _, group in groupby(sorted(gpus, key=lambda gpu: (kind(gpu), gpu.index)), key=kind)]
    return max(kinds, key=lambda group: (sum(gpu.memory_total or 0 for gpu in group), len(group)))


def _is_unified(gpu: GpuFacts) -> bool:
    named = UNIFIED_NAMES.search(gpu.name) or gpu.compute_capability in UNIFIED_CAPABILITIES
    return gpu.memory_total is None and bool(named)


def _least(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    return min((size for size in known if size), default=None) if all(known) else None


def utilization(accelerator: Accelerator | None) -> float | None:
    """Return the share of each GPU's memory that vLLM may take, of its total, in hundredths; None without a GPU.

    vLLM refuses to start unless the share is free after CUDA's context (gpu_worker.py:534): hence 0.75 GiB less than is
    free, at most its own default of 0.92, and 0.90 where nobody knows what is free. Where CPU and GPU share one memory
    the rest of the machine keeps 8 GiB or 7 %, and at most 0.80 is taken: compiling kernels takes 20 to 30 GiB for a
    while. Raises NotYetError below 0.10, for memory may become free, and UnfitError where the total is unknown.
    """
    if accelerator is None:
        return None
    total, free = accelerator.total, accelerator.free
    names = f"GPU {', '.join(accelerator.names)} ({accelerator.gpus[0].name})"
    if total is None:
        raise UnfitError(f"the memory of {names} is unknown; set gpu_memory_utilization in [vllm]")
    most = 0.80 if accelerator.unified else 0.92
    kept = max(8 * GIB, total * 7 // 100) if accelerator.unified else CONTEXT
    if free is None:
        return min(most, 0.90)
    share = min(most, (free - kept) * 100 // total / 100)
    if share < 0.10:
        raise NotYetError(
            f"{free / GIB:.1f} of {total / GIB:.1f} GiB of memory are free on {names}, too little to serve"
        )
    return share


def room(accelerator: Accelerator | None, utilization: float | str | None, offload: float | str | None) -> int | None:
    """Return the bytes on each GPU for weights and KV cache; None when nobody knows.

    Beside them stand activations, CUDA graphs and the context: 1.25 GiB and 3 % of the total (a rig with RTX 3090 took
    1.8 GiB, 1.97 by this). CUDA sees less than the driver's total: what an idle GPU has free, else 97 % of it. What is
    offloaded to main memory, in GiB a GPU, counts as room.
    """
    share = number_of(utilization)
    if accelerator is None or accelerator.total is None or share is None:
        return None
    total, free = accelerator.total, accelerator.free
    idle = free is not None and free >= total * 9 // 10
    visible = total if accelerator.unified else free if idle and free else total * 97 // 100
    return int(share * visible) - 5 * GIB // 4 - total * 3 // 100 + int((number_of(offload) or 0) * GIB)


def case(
    accelerator: Accelerator | None, demand: Demand | None, room: int | None, cache: Any, split: tuple[int, int] | None
) -> Case | None:
    """Put together what the choice of GPUs depends on; None on a CPU."""
    if accelerator is None or demand is None:
        return None
    given, (stages, replicas) = number_of(cache), split or (1, 1)
    size = int(given) if given else None
    return Case(
        accelerator=accelerator, demand=demand, room=room, cache=size, stages=max(stages, 1), replicas=max(replicas, 1)
    )


def split(stages: int | None, replicas: int | None) -> tuple[int, int]:
    """Return into how many stages the layers are split and how often the model is loaded.

    >>> split(None, 2)
    (1, 2)
    """
    return stages or 1, replicas or 1


def valid_tp(tp: int, shape: Shape) -> str | None:
    """Return why a model can't be split over a number of GPUs; None when it can. What is unknown does not object.

    >>> valid_tp(3, Shape(heads=32)), valid_tp(4, Shape(heads=32, kv_heads=2))
    ('32 attention heads do not divide by 3', None)
    """
    return next(_objections(tp, shape), None)


def _objections(tp: int, shape: Shape) -> Iterator[str]:
    """Yield what stands against a split.

    Sources: config/model.py:1546, layers/linear.py:494 and 1053, fused_moe/config.py:1341, mamba_mixer2.py:315.
    """
    whole = {
        "attention heads": shape.heads,
        "columns of the MLP": shape.intermediate,
        "columns of an expert": shape.moe_intermediate,
        "heads of the state space": shape.mamba_heads,
        "heads of the vision tower": shape.vision_heads,
        "rows of the padded vocabulary": shape.vocabulary and -(-shape.vocabulary // 64) * 64,
    }
    yield from (f"{count} {what} do not divide by {tp}" for what, count in whole.items() if count and count % tp)
    kv, groups = shape.kv_heads, shape.mamba_groups
    if kv and not shape.mla and (tp % kv if tp >= kv else kv % tp):
        yield f"{kv} KV heads can be neither split over {tp} GPUs nor copied evenly"
    if groups and groups > 1 and groups % tp:
        yield f"{groups} groups of the state space do not divide by {tp}"
    yield from _torn_groups(tp, shape)


def _torn_groups(tp: int, shape: Shape) -> Iterator[str]:
    """Yield what would part weights that share a scale.

    Sources: auto_awq.py:819 (what a row-parallel layer takes in), fp8_utils.py:1296 (both sides of every layer).
    """
    group = shape.group or 1
    sides = {
        "the attention's output": (shape.heads or 0) * (shape.head_dim or 0),
        "the MLP": shape.intermediate or 0,
        "an expert": shape.moe_intermediate or 0,
    }
    if shape.blocks and not shape.mla:
        sides["keys and values"] = max((shape.kv_heads or 0), tp) * (shape.head_dim or 0)
    for what, side in sides.items():
        if side % (tp * group):
            yield f"{side} columns of {what} on {tp} GPUs tear groups of {group} quantized weights"


def needed(case: Case, tp: int, tokens: int) -> int:
    """Return the bytes on each GPU for weights and the KV cache of one request; 0 where the weights are unknown.

    KV heads are split over the GPUs as far as they go; a latent cache is on each of them whole.
    """
    demand, shape = case.demand, case.demand.shape
    if demand.loaded is None:
        return 0
    parts = 1 if shape.mla else min(tp, shape.kv_heads or 1)
    cache = demand.token * min(tokens, demand.tokens) // parts // case.stages if case.cache is None else case.cache
    return demand.loaded // (tp * case.stages) + cache


def candidates(case: Case) -> list[int]:
    """Return the powers of two that a model can be split by, up to the GPUs there are; 1 at the least."""
    most = len(case.accelerator.gpus) // (case.stages * case.replicas)
    powers = [1 << bit for bit in range(max(most, 1).bit_length())]
    return [tp for tp in powers if valid_tp(tp, case.demand.shape) is None] or [1]


def choose_tp(case: Case | None) -> int:
    """Return over how many GPUs to split a model: as few as hold it with one request of full length.

    Where none do, the most; there vLLM shortens the requests. Few GPUs have little traffic between them.
    """
    if case is None or case.room is None:
        return 1
    possible = candidates(case)
    return next((tp for tp in possible if needed(case, tp, case.demand.tokens) <= case.room), possible[-1])


def misfit(case: Case | None, tp: int | None) -> str | None:
    """Tell why a model can't be served by GPUs split as they are; None when it can, or nobody knows."""
    if case is None or not isinstance(tp, int):
        return None
    gpus, wanted = case.accelerator.gpus, tp * case.stages * case.replicas
    if tp < 1 or wanted > len(gpus):
        return f"{wanted} GPUs are wanted, {len(gpus)} can be used"
    if reason := valid_tp(tp, case.demand.shape):
        return f"the model can't be split over {tp} GPUs: {reason}"
    if case.room is None or needed(case, tp, SHORT) <= case.room:
        return None
    unified, ranks = case.accelerator.unified, tp * case.stages
    held = (case.accelerator.total or 0) if unified else sum(gpu.memory_total or 0 for gpu in gpus)
    where = "memory, shared by GPU and CPU" if unified else f"memory on {len(gpus)} GPU{'s' * (len(gpus) > 1)}"
    few = f", by {ranks} of them together" if ranks < len(gpus) else ""
    return (
        f"does not fit: {(case.demand.loaded or 0) / GIB:.1f} GiB of weights, {held / GIB:.1f} GiB of {where}; "
        f"{max(case.room, 0) * ranks / GIB:.1f} GiB of it are usable for weights and KV cache{few}"
    )


def visible_devices(accelerator: Accelerator | None, tp: int | None, split: tuple[int, int] | None) -> str | None:
    """Return the GPUs that the engine may see: the first of the usable ones, as many as it needs."""
    if accelerator is None or not isinstance(tp, int):
        return None
    stages, replicas = split or (1, 1)
    return ",".join(accelerator.names[: tp * stages * replicas])


def device_order(accelerator: Accelerator | None) -> str | None:
    """Return the order in which indexes of GPUs count, that of nvidia-smi; None without a GPU."""
    return None if accelerator is None else "PCI_BUS_ID"


def without_custom_all_reduce(accelerator: Accelerator | None, tp: int | None) -> bool | None:
    """Tell to keep vLLM's own all-reduce off on GeForce: a patched driver promises peer access and gives wrong data."""
    split_up = accelerator is not None and isinstance(tp, int) and tp > 1
    return True if split_up and accelerator and "GeForce" in accelerator.gpus[0].name else None


def cpu_memory(facts: Facts) -> int | None:
    """Return what an engine on the CPU can have: vLLM binds to the first NUMA node, however much the machine has."""
    available = facts.memory_available
    if facts.engine_runs and facts.memory_total is not None:
        available = facts.memory_total * 9 // 10
    first = facts.numa[0].memory_total if facts.numa else None
    return min(size for size in (available, first) if size is not None) if available is not None else None


def cpu_room(facts: Facts) -> int | None:
    """Return the bytes for weights and KV cache on a CPU: 3 GiB for the processes and 5 % stay free."""
    memory = cpu_memory(facts)
    return None if memory is None else memory - 3 * GIB - memory * 5 // 100


def cpu_cache(facts: Facts, demand: Demand | None) -> int | None:
    """Return the KV cache of an engine on the CPU: half of what the weights leave, 256 MiB to 4 GiB; None with a GPU.

    vLLM alone takes 92 % of its NUMA node and touches it all at once (cpu_worker.py:204). Raises UnfitError where the
    memory is unknown.
    """
    if device_of(facts) != "cpu":
        return None
    room = cpu_room(facts)
    if room is None:
        raise UnfitError(f"the available memory is unknown: {facts.why_unread('memory_available')}")
    left = room - ((demand.loaded if demand else None) or 0)
    return min(max(left // 2, LEAST_CACHE), 4 * GIB) // MIB * MIB


def cpu_misfit(facts: Facts, demand: Demand | None, cache: Any) -> str | None:
    """Tell why a model can't be served from main memory; None when it can, or with a GPU."""
    room, memory, size = cpu_room(facts), cpu_memory(facts), number_of(cache)
    if size is None or room is None or memory is None or demand is None or demand.loaded is None:
        return None
    if device_of(facts) != "cpu" or (demand.loaded + LEAST_CACHE <= room and demand.loaded + size <= memory):
        return None
    return (
        f"does not fit: {demand.loaded / GIB:.1f} GiB of weights, {size / GIB:.2f} GiB of KV cache, "
        f"{memory / GIB:.1f} GiB of main memory on the engine's node; {max(room, 0) / GIB:.1f} GiB are usable"
    )
