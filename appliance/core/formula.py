"""The named formulas of the recipes: what follows from other values or from the machine."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from appliance.core import fabric, fitting, shape
from appliance.core.facts import Facts
from appliance.core.kind import UnfitError

GRAPH_CEILING = 512
"""Tokens; vLLM captures no larger CUDA graph by itself."""

DEEPEST = 64
"""Drafted tokens in a step; no drafter comes near it."""

MOST_REQUESTS = 1 << 16
"""At once; the list of graphs grows with them."""


def total(*parts: int | None) -> int:
    """Return the sum of the parts that are set.

    >>> total(27917287424, None), total(27917287424, 2147483648)
    (27917287424, 30064771072)
    """
    return sum(part for part in parts if part is not None)


def joined(*parts: object) -> str | None:
    """Return the parts side by side, lists by commas; None when one is not set.

    >>> joined([0, 1, 2, 3]), joined("8002", "/v1"), joined(None)
    ('0,1,2,3', '8002/v1', None)
    """
    if None in parts:
        return None
    return "".join(",".join(map(str, part)) if isinstance(part, (list, tuple)) else str(part) for part in parts)


def first_of(*parts: object) -> Any:
    """Return the first part that is set; None when none is.

    >>> first_of(None, "glm53")
    'glm53'
    """
    return next((part for part in parts if part is not None), None)


def graph_sizes(requests: int, draft_tokens: int) -> list[int]:
    """Return the CUDA graph sizes, in tokens, that cover every decode batch of a drafting engine.

    A request decodes `draft_tokens` + 1 tokens a step, so batches come in multiples of that, up to `requests` of them;
    1 and 2, and for deeper drafts every power of two below the step, serve small mixed batches.

    >>> graph_sizes(4, 3)
    [1, 2, 4, 8, 12, 16]
    >>> graph_sizes(10, 3)[-1], graph_sizes(1, 3), graph_sizes(3, 0)
    (40, [1, 2, 4], [1, 2, 3])
    """
    if not 1 <= requests <= MOST_REQUESTS:
        raise UnfitError(f"max_num_seqs is {requests}, wants a number from 1 to {MOST_REQUESTS}")
    step = draft_tokens + 1
    small = [size for size in (1, 2, 4) if size <= max(step, 1)]
    return sorted({*small, *(step * count for count in range(1, requests + 1))})


def graph_ceiling(requests: int, draft_tokens: int | None, speculative: Mapping[str, Any] | None) -> int | None:
    """Return the largest CUDA graph that a decode step can fill, in tokens; None leaves it to vLLM.

    vLLM adds the sizes of a draft width that varies with the batch only where it picks the ceiling itself.

    >>> graph_ceiling(4, 7, {}), graph_ceiling(128, 7, {}), graph_ceiling(32, None, None)
    (32, 512, 32)
    >>> graph_ceiling(4, 7, {"num_speculative_tokens_per_batch_size": [[1, 4, 7]]}) is None
    True
    """
    if isinstance(speculative, dict) and "num_speculative_tokens_per_batch_size" in speculative:
        return None
    return min(requests * ((draft_tokens or 0) + 1), GRAPH_CEILING)


def prefill_threshold(reserve: int | None, budget: int, block: int) -> int:
    """Return how many tokens of a step one long prompt may take: a block, or what a reserve for decoding leaves.

    Whole multiples of 4 tokens. Raises UnfitError when the reserve leaves less than 4.

    >>> prefill_threshold(None, 16384, 2304), prefill_threshold(1030, 8192, 2304)
    (2304, 7160)
    """
    if reserve is None:
        return block
    left = (budget - reserve) // 4 * 4
    if left < 4:
        raise UnfitError(f"a reserve of {reserve} of {budget} tokens leaves {left} for prefill, at least 4 are needed")
    return left


def speculative_config(
    method: str, drafter: str | None, tokens: int | None, extra: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return vLLM's speculative config: method, drafter and depth, and further keys; None without speculation.

    Draft widths for batch sizes are capped at the depth. Raises UnfitError for keys that would contradict.

    >>> speculative_config("mtp", None, 4, None)
    {'method': 'mtp', 'num_speculative_tokens': 4}
    >>> speculative_config("dflash", "/d", 5, {"num_speculative_tokens_per_batch_size": [[1, 4, 9]]})["model"]
    '/d'
    >>> speculative_config("none", None, None, None) is None
    True
    """
    if extra is not None and method != "dflash":
        raise UnfitError(f'it is made for "dflash", and the method is "{method}"; remove one of them')
    if method == "none":
        return None
    config: dict[str, Any] = {"method": method}
    if method == "dflash":
        config["model"] = drafter
    config["num_speculative_tokens"] = tokens
    extra = json.loads(json.dumps(extra or {}))
    if fixed := sorted(set(extra) & {"method", "model", "num_speculative_tokens"}):
        raise UnfitError(f"it must not set {', '.join(fixed)}: use spec_method, drafter and spec_tokens")
    widths = extra.get("num_speculative_tokens_per_batch_size", [])
    if not isinstance(widths, list) or not all(_is_width(row) for row in widths):
        raise UnfitError("num_speculative_tokens_per_batch_size wants rows of three numbers: from, to, tokens")
    for row in widths:
        row[2] = min(row[2], tokens or 0)
    return {**config, **extra}


def _is_width(row: object) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(type(number) is int for number in row)


def draft_depth(speculative: Mapping[str, Any] | str | None) -> int:
    """Return how many tokens a speculative config drafts in a step. Raises UnfitError for what is no such number.

    >>> draft_depth({"method": "mtp", "num_speculative_tokens": 3}), draft_depth(None)
    (3, 0)
    """
    if not isinstance(speculative, dict):
        return 0
    depth = speculative.get("num_speculative_tokens") or 0
    if type(depth) is not int or not 0 <= depth <= DEEPEST:
        raise UnfitError(f"num_speculative_tokens is {depth}, wants a whole number from 1 to {DEEPEST}")
    return depth


def cache_kind(capability: str | None, kv_cache_dtype: str) -> str:
    """Return what compiled kernels depend on whatever the settings are: the GPU and the type of the KV cache.

    >>> cache_kind("12.1", "fp8_e4m3"), cache_kind(None, "auto")
    ('121-fp8_e4m3', 'unknown-auto')
    """
    return f"{(capability or 'unknown').replace('.', '')}-{kv_cache_dtype}"


def options_digest(nodes: int, mtp: int, method: str, length: int, sizes: Sequence[int]) -> str:
    """Return 8 digits of the sha256 of the settings on which vLLM's compiled graphs depend.

    >>> options_digest(2, 1, "dflash", 163840, [8, 16, 32, 64, 96, 128, 192, 256])
    '70cf5e85'
    """
    text = f"tp={nodes} mtp={mtp} spec={method} len={length} cg={' '.join(map(str, sizes))}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def memory_per_rank(weights: int, ranks: int, kv_cache: int, rest: int) -> int:
    """Return the bytes that one rank needs: its share of the weights, its KV cache, and the rest.

    The rest is CUDA graphs, activations, communication buffers and the processes themselves.

    >>> memory_per_rank(182 << 30, 4, 26 << 30, 30 << 30) >> 30
    101
    """
    return weights // ranks + kv_cache + rest


def pool_overcommitted(requests: int, length: int, pool: int) -> str | None:
    """Tell when full-length requests do not fit the KV pool together; they are then preempted, not refused.

    The pool is in tokens. A warning from twice its size on: below, it is the normal way to share one.

    >>> pool_overcommitted(4, 262144, 924993) is None, pool_overcommitted(8, 262144, 924993)
    (True, '8 requests of 262144 tokens want 2097152, the KV pool holds 924993: full-length requests preempt')
    """
    wanted = requests * length
    if wanted <= 2 * pool:
        return None
    return (
        f"{requests} requests of {length} tokens want {wanted}, the KV pool holds {pool}: full-length requests preempt"
    )


def batch_too_small(batch: int, requests: int) -> str | None:
    """Tell when a step can't hold one token of every request: vLLM refuses that after its import.

    >>> batch_too_small(3, 4)
    'max_num_batched_tokens is 3 and must be at least max_num_seqs, which is 4'
    """
    if batch >= requests:
        return None
    return f"max_num_batched_tokens is {batch} and must be at least max_num_seqs, which is {requests}"


def threshold_too_large(threshold: int, budget: int) -> str | None:
    """Tell when one long prompt may take a whole step: running requests then wait for all of its prefill.

    >>> threshold_too_large(2304, 16384) is None, threshold_too_large(16384, 16384)
    (True, 'long_prefill_token_threshold is 16384 of 16384 tokens of a step: one long prompt makes all others wait')
    """
    if threshold < budget:
        return None
    text = f"long_prefill_token_threshold is {threshold} of {budget} tokens of a step"
    return f"{text}: one long prompt makes all others wait"


def drafter_depth(method: str, tokens: int | None) -> str | None:
    """Tell when the DFlash2 drafter is asked for another depth than its block less one, which it refuses at its load.

    >>> drafter_depth("dflash", 7) is None, drafter_depth("dflash", 5)
    (True, 'spec_tokens is 5, and the DFlash2 drafter takes only 7')
    """
    return (
        f"spec_tokens is {tokens}, and the DFlash2 drafter takes only 7" if method == "dflash" and tokens != 7 else None
    )


def below_one(*numbers: int | None) -> str | None:
    """Tell when a count is not positive.

    >>> below_one(4, 0)
    'found 0, wants a whole number of at least 1'
    """
    given = (number for number in numbers if number is not None)
    bad = next((number for number in given if not isinstance(number, int) or number < 1), None)
    return None if bad is None else f"found {bad}, wants a whole number of at least 1"


def many_graphs(sizes: Mapping[str, Any]) -> str | None:
    """Tell when more than 8 CUDA graphs are captured: each costs time at the start and GPU memory.

    >>> many_graphs({"cudagraph_capture_sizes": [1, 2, 4]}) is None
    True
    """
    count = len(sizes.get("cudagraph_capture_sizes") or ()) if isinstance(sizes, dict) else 0
    return f"{count} CUDA graphs: capture time and GPU memory grow with each" if count > 8 else None


def graphs_beyond(sizes: Sequence[int] | int | None, requests: int, draft_tokens: int) -> str | None:
    """Tell when the largest captured graph is larger than any decode step: vLLM then decodes without it, silently.

    >>> graphs_beyond([8, 512], 32, 7)
    'the largest graph of 512 tokens exceeds max_num_seqs x (1 + draft) = 256: decoding above that runs without graphs'
    """
    ceiling = requests * (draft_tokens + 1)
    sizes = [sizes] if isinstance(sizes, int) else sizes
    if not sizes or max(sizes) <= ceiling:
        return None
    return (
        f"the largest graph of {max(sizes)} tokens exceeds max_num_seqs x (1 + draft) = {ceiling}: "
        "decoding above that runs without graphs"
    )


def gpus_missing(devices: Sequence[str] | None, tp: int, pp: int) -> str | None:
    """Tell when there are fewer GPUs than the model is split over; vLLM takes the first of more.

    >>> gpus_missing(["0", "1"], 2, 2)
    'found 2 GPUs, tensor_parallel_size x pipeline_parallel_size is 4'
    """
    if devices is None or len(devices) >= tp * pp:
        return None
    return f"found {len(devices)} GPUs, tensor_parallel_size x pipeline_parallel_size is {tp * pp}"


def compiler_too_new(facts: Facts) -> str | None:
    """Tell when the CUDA compiler is newer than the driver: what it compiles at the first start would be rejected."""
    compiler, driver = facts.nvcc_cuda, facts.driver_cuda
    if compiler is None or driver is None or _release(compiler) <= _release(driver):
        return None
    return f"nvcc is of CUDA {compiler}, the driver of CUDA {driver}: kernels compiled at the first start are rejected"


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def unequal_ranks(tp: int, nodes: int) -> str | None:
    """Tell when the model is not split over every machine of the group, one part each.

    >>> unequal_ranks(2, 4)
    'tensor_parallel_size is 2 on 4 machines, wants one rank for each: set [cluster] nodes'
    """
    if tp == nodes:
        return None
    return f"tensor_parallel_size is {tp} on {nodes} machines, wants one rank for each: set [cluster] nodes"


def worker_here(facts: Facts, cluster: fabric.Cluster) -> str | None:
    """Tell when another machine is the head: vLLM is started there. Raises UnfitError when the file contradicts."""
    if fabric.role_of(facts, cluster) == "head":
        return None
    return (
        f"this machine is a worker of {cluster.head or 'an elected head'}, where the plan is made; joining comes later"
    )


FORMULAS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(total, joined, first_of, graph_sizes, graph_ceiling, prefill_threshold, speculative_config, draft_depth),
        *(cache_kind, options_digest, memory_per_rank, pool_overcommitted, batch_too_small, below_one, many_graphs),
        *(threshold_too_large, drafter_depth, gpus_missing, unequal_ranks, fabric.single_rail),
        *(graphs_beyond, compiler_too_new, worker_here, fabric.host_address, fabric.host_interface),
        *(fabric.exact_interface, fabric.rdma_devices, fabric.gid_index, fabric.ray_address),
        *(shape.demand, shape.longest, shape.when_multimodal, shape.senses_limit, fitting.accelerator, fitting.split),
        *(fitting.utilization, fitting.room, fitting.case, fitting.choose_tp, fitting.misfit, fitting.cpu_cache),
        *(fitting.cpu_misfit, fitting.visible_devices, fitting.device_order, fitting.without_custom_all_reduce),
        *(fitting.too_much_wanted,),
    )
}
"""Every formula that a recipe can name."""
