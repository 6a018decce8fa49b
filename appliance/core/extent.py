"""How large or small the values of some flags may be: vLLM says so late or not at all, and formulas count with them."""

from collections.abc import Mapping

from appliance.core.kind import shown
from appliance.core.problem import Problem, place_of
from appliance.core.resolution import meant
from appliance.core.setting import Setting

RANKS = (1, 1024)
BYTES = (0, 1 << 50)
TOKENS = (1, 1 << 31)

EXTENTS: Mapping[str, tuple[float, float]] = {
    "tensor_parallel_size": RANKS,
    "pipeline_parallel_size": RANKS,
    "data_parallel_size": RANKS,
    "max_model_len": TOKENS,
    "max_num_seqs": (1, 1 << 16),
    "max_num_batched_tokens": TOKENS,
    "block_size": TOKENS,
    "gpu_memory_utilization": (0.01, 1),
    "kv_cache_memory_bytes": BYTES,
    "cpu_offload_gb": (0, 1 << 20),
    "max_cudagraph_capture_size": TOKENS,
    "long_prefill_token_threshold": (0, 1 << 31),
}
"""The least and the most that makes sense, whatever the model and the machine."""


def out_of_extent(settings: tuple[Setting, ...]) -> tuple[Problem, ...]:
    """Return the flags whose numbers make no sense; what is no number is another check's matter."""
    problems = []
    for setting in settings:
        value, extent = meant(setting), EXTENTS.get(setting.name)
        if extent is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        least, most = extent
        if setting.name == "max_model_len" and value == -1:
            continue
        if not least <= value <= most:
            file, line = place_of(setting.origin)
            what = f"found {shown(setting.value)}, wants a number from {least:.15g} to {most:.15g}"
            problems.append(Problem(file=file, line=line, key=f"[vllm] {setting.name}", what=what))
    return tuple(problems)
