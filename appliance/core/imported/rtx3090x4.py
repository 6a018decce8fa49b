"""The start script for four RTX 3090: what becomes of each of its variables and of its arguments."""

from appliance.core.envfile import Assignment
from appliance.core.imported.argument import arguments_given, take_arguments
from appliance.core.imported.draft import Draft
from appliance.core.imported.reading import address, names, one_of, path, plain, port, whole
from appliance.core.imported.rule import (
    Script,
    asked_for_a_key,
    dropped,
    gpus,
    into,
    open_api,
    passed_on,
    switched,
)

LOG_FOLDER = "/var/log/vllm-serve/"

MAX_SEQS = 4
MAX_BATCHED_TOKENS = 2048
"""What the script takes where the variable is not set."""

REMOVED_NAMES = (
    r"MERLIN_\w+|VLLM_E2_\w+|VLLM_PLE_(CPU_OFFLOAD|FP8_GLOBAL_SCALE|TEST_FAULT(_GATE|_LOG)?|OFFLOAD_WAIT_TIMEOUT)"
    r"|VLLM_PLE_(PROGRESS|STARTUP)_DEADLINE_S|VLLM_QSA_KV_(COLLECT|CLIP_COUNT)|PYTORCH_CUDA_ALLOC_CONF"
)
FIXED_NAMES = (
    r"CUDA_DEVICE_ORDER|VLLM_SKIP_P2P_CHECK|NCCL_P2P_LEVEL|NCCL_PROTO|VLLM_PP_LAYER_PARTITION"
    r"|VLLM_PLE_OFFLOAD_READY_TIMEOUT|VLLM_HOST_EMBED_TABLE|VLLM_USE_BREAKABLE_CUDAGRAPH"
    r"|HF_(HUB|DATASETS)_OFFLINE|VLLM_USE_V2_MODEL_RUNNER|VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
)

TOPOLOGY = "choosing GPUs by their links comes in a later version; until then the recipe's fixed settings apply"
BUILT = "a tree built elsewhere becomes an engine by `vllm-serve engine adopt`, which a later version brings"
FIXED = "the script overwrites it; the recipe sets it, and [env] changes it"
REMOVED = "the script removes it; the recipe sets what the engine needs, and [env] changes that"
CACHED = "the script overwrites it; the caches lie below [paths] cache"
JOURNAL = (
    "the engine's lines go to the journal (`journalctl -u vllm-serve`);"
    f" for a copy set [log] file to a file below {LOG_FOLDER}"
)


def _named_checkpoint(draft: Draft) -> str:
    """Return the checkpoint that the first argument names; empty where there is none, or a flag."""
    first = draft.arguments[0] if draft.arguments else ""
    return "" if first.startswith("-") else first


def _start(draft: Draft) -> None:
    """Take the checkpoint from the first argument."""
    if named := _named_checkpoint(draft):
        into("model", "source", path)(draft, arguments_given([named]))


def _checkpoint(draft: Draft, given: Assignment) -> None:
    """Take the checkpoint from a variable, unless something stronger names one."""
    if _named_checkpoint(draft):
        draft.remark(given, "the first argument names the checkpoint")
    elif given.name != "CKPT" and draft.environment.value("CKPT"):
        draft.remark(given, "CKPT names the checkpoint")
    else:
        into("model", "source", path)(draft, given)


def _log(draft: Draft, given: Assignment) -> None:
    name = given.value.removeprefix(LOG_FOLDER)
    if name in ("", given.value) or name.isspace() or ".." in name.split("/"):
        draft.remark(given, JOURNAL)
    else:
        draft.put(("log", "file"), given.value, given)


def _topology(draft: Draft, given: Assignment) -> None:
    """Refuse `strict`, which means that nothing is to be guessed; anything else falls back to the fixed settings."""
    if given.value == "strict":
        draft.refuse(given, "choosing the GPUs by topology comes later", "write AUTO_TOPO=0 for the fixed settings")
    else:
        draft.remark(given, TOPOLOGY)


def _end(draft: Draft) -> None:
    """Hold the variables against each other, and take the arguments."""
    _compare(draft)
    words = list(draft.arguments)
    if words and not words[0].startswith("-"):
        del words[0]
    take_arguments(draft, words, arguments_given(words))
    open_api(draft)


def _compare(draft: Draft) -> None:
    """Refuse a step with fewer tokens than requests, as the script and vLLM do."""
    wanted = (
        ("MAX_SEQS", "max_num_seqs", MAX_SEQS),
        ("MAX_BATCHED_TOKENS", "max_num_batched_tokens", MAX_BATCHED_TOKENS),
    )
    environment = draft.environment
    found = [draft.value("vllm", key) if environment.value(name) else default for name, key, default in wanted]
    given = environment.assignment("MAX_BATCHED_TOKENS") or environment.assignment("MAX_SEQS")
    match found:
        case [int(seqs), int(tokens)] if tokens < seqs and given:
            what = f"MAX_BATCHED_TOKENS is {tokens}, fewer than MAX_SEQS, which is {seqs}"
            draft.refuse(given, what, "raise MAX_BATCHED_TOKENS or lower MAX_SEQS")


SCRIPT = Script(
    recipe="qwen38-flash-next/rtx3090x4",
    start=_start,
    rules={
        "CKPT": _checkpoint,
        "MODEL_MOUNT_PATH": _checkpoint,
        "MODEL_NAME": into("model", "served_model_name", names, "write a name, or remove the line"),
        "MAX_SEQS": into("vllm", "max_num_seqs", whole(1)),
        "MAX_BATCHED_TOKENS": into("vllm", "max_num_batched_tokens", whole(1)),
        "SCALES": into("knobs", "scales", path),
        "PLE_HOME": into("knobs", "ple_home", plain),
        "GUARD": into("knobs", "guard", one_of("off", "warn", "raise")),
        "COUNTERS": switched("knobs", "counters"),
        "VLLM_LOG_STATS_INTERVAL": passed_on(),
        "VLLM_SKIP_MODEL_NAME_VALIDATION": passed_on(),
        "HOST": into("api", "host", address),
        "PORT": into("api", "port", port),
        "VLLM_API_KEY": asked_for_a_key,
        "CUDA_VISIBLE_DEVICES": gpus,
        "CACHE_ROOT": into("paths", "cache", path),
        "LOG": _log,
        "TREE": dropped(BUILT),
        "VENV": dropped(BUILT),
        "CUDA_HOME": dropped("an engine finds the CUDA toolkit in its own environment"),
        "PATH": dropped("an engine finds its programs in its own environment"),
        "PYTHONPATH": dropped("an engine has its own environment; " + BUILT),
        "AUTO_TOPO": _topology,
        "AUTO_TOPO_NCCL": dropped(TOPOLOGY),
        "AUTO_TOPO_BIND": dropped(TOPOLOGY),
        "LANE_GPUS": dropped(TOPOLOGY + "; [gpu] devices names the GPUs"),
        "LANE_CPUS": dropped(TOPOLOGY),
        "TOPO_TIMEOUT": dropped(TOPOLOGY),
        "SERVE_PRINT_ENV_AND_EXIT": dropped("`vllm-serve plan` prints the command and its environment"),
        "VLLM_PLE_OFFLOAD_HOME_DEVICE": dropped("the script overwrites it from PLE_HOME; set [knobs] ple_home"),
        "VLLM_QSA_KV_SCALES": dropped("the script overwrites it from SCALES; set [knobs] scales"),
        "VLLM_E2_GUARD_MODE": dropped("the script overwrites it from GUARD; set [knobs] guard"),
        "VLLM_CACHE_ROOT": dropped(CACHED),
        "TRITON_CACHE_DIR": dropped(CACHED),
        "FLASHINFER_WORKSPACE_BASE": dropped(CACHED),
    },
    families=(
        (r"TOPO_\w+|AUTO_TOPO_\w+|LANE_\w+", dropped(TOPOLOGY)),
        (REMOVED_NAMES, dropped(REMOVED)),
        (FIXED_NAMES, dropped(FIXED)),
        (r"COMPOSE_\w+", dropped("a setting of docker compose; there is no container here")),
    ),
    end=_end,
)
