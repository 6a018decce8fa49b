"""The entry point of the container for GX10 boxes: what becomes of each of its variables."""

import ipaddress

from appliance.core.envfile import Assignment
from appliance.core.imported.argument import arguments_given, names_speculation, take_arguments, words_of
from appliance.core.imported.draft import Draft
from appliance.core.imported.reading import (
    address,
    amount,
    decimal,
    flag_value,
    host,
    json_object,
    length,
    numbers,
    one_of,
    path,
    plain,
    port,
    subnets,
    whole,
)
from appliance.core.imported.rule import (
    Rule,
    Script,
    asked_for_a_key,
    dropped,
    gpus,
    into,
    open_api,
    passed_on,
    read_at_the_end,
    switched,
)
from appliance.core.kind import UnfitError, shown

API_PORT = 8002
BOXES = {"2": 2, "3": 3, "4": 4, "6": 6, "RING4": 4}
METHODS = ("dflash", "mtp", "none")
OWN_KEYS = {"method": "SPEC_METHOD", "model": "DFLASH_MODEL", "num_speculative_tokens": "SPEC_TOKENS"}
"""What SPEC_EXTRA may not set, and the variable that does."""

WIDTHS = "num_speculative_tokens_per_batch_size"

ENGINES_OWN = (
    *("RAY_ADDRESS", "VLLM_ADAPTIVE_K_MODEL", "VLLM_ENGINE_READY_TIMEOUT_S", "TORCH_MEM_FRACTION", "MAX_JOBS"),
    *("PYTORCH_CUDA_ALLOC_CONF", "TRITON_CACHE_DIR", "TILELANG_CACHE_DIR", "GLOO_SOCKET_IFNAME"),
    *("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_MAX_NCHANNELS", "NCCL_DEBUG"),
    *("MENTAT_OPENAI_API", "MENTAT_MCP_API", "MENTAT_MODEL_PROVIDER"),
)
"""Variables that the script hands on, with a value of its own where they are not set."""

SCRIPTS_OWN = Assignment(name="the script's own value", value="", file="", line=None)
OVERWRITTEN = "the script overwrites it; the recipe sets it, and [env] changes it"
CACHED = "the script overwrites it; the caches lie below [paths] cache"
WAITING = "how long a start waits for the other boxes and their network comes with several boxes, in a later version"
COMPARING = "comparing the boxes before a start comes with several boxes, in a later version"
PAGE = "the status page comes in a later version; `vllm-serve status` shows the phase"


def _start(draft: Draft) -> None:
    """Write where the script's API listens; it asks nobody."""
    draft.put(("api", "host"), "0.0.0.0", SCRIPTS_OWN)  # noqa: S104  # what the script does, with a warning above it
    draft.put(("api", "port"), API_PORT, SCRIPTS_OWN)


def _boxes(draft: Draft, given: Assignment) -> None:
    if given.value not in BOXES:
        draft.refuse(
            given,
            f"found {shown(given.value)}, and the recipe is made for 2, 3, 4 or 6 boxes",
            "write 2, 3, 4 or 6, or RING4 for four boxes that are cabled in a loop",
        )
        return
    draft.put(("cluster", "nodes"), BOXES[given.value], given)
    if given.value == "RING4":
        draft.put(("cluster", "fabric_layout"), "ring", given)


def _method(draft: Draft) -> str:
    """Return how the script would speculate."""
    return "none" if draft.environment.value("MTP") == "0" else draft.environment.value("SPEC_METHOD") or "dflash"


def _mtp(draft: Draft, given: Assignment) -> None:
    if given.value == "0":
        draft.put(("knobs", "mtp"), 0, given)
        draft.put(("knobs", "spec_method"), "none", given)
    else:
        into("knobs", "mtp", whole(1), "write 1, or 0 for no speculation")(draft, given)


def _spec_method(draft: Draft, given: Assignment) -> None:
    if draft.environment.value("MTP") == "0":
        draft.remark(given, "MTP=0 switches speculation off, whatever the method")
    else:
        into("knobs", "spec_method", one_of(*METHODS))(draft, given)


def _spec_extra(draft: Draft, given: Assignment) -> None:
    method = _method(draft)
    if method != "dflash":
        cause = "MTP=0" if draft.environment.value("MTP") == "0" else f"SPEC_METHOD={method}"
        draft.refuse(given, f"adds to the dflash drafter, and {cause}", f"remove SPEC_EXTRA, or {cause}")
        return
    try:
        extra = json_object(given.value)
    except UnfitError as error:
        draft.refuse(given, str(error), "write one JSON object, in single quotes")
        return
    own = [name for name in extra if name in OWN_KEYS]
    for name in own:
        draft.refuse(given, f"sets {name}", f"remove it, and set {OWN_KEYS[name]}")
    if not _are_widths(extra.get(WIDTHS, [])):
        draft.refuse(
            given, f"{WIDTHS} is no list of rows", "write rows of three whole numbers, as [[1, 4, 7], [5, 16, 5]]"
        )
    elif not own:
        draft.put(("knobs", "spec_extra"), extra, given)


def _are_widths(rows: object) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == 3 and all(type(number) is int for number in row) for row in rows
    )


def _limits(draft: Draft, given: Assignment) -> None:
    try:
        json_object(given.value)
    except UnfitError as error:
        draft.refuse(given, str(error), "write one JSON object from { to }, in single quotes")
    else:
        draft.put(("vllm", "limit_mm_per_prompt"), given.value, given)


def _threshold(draft: Draft, given: Assignment) -> None:
    if draft.environment.value("DECODE_RESERVE_TOKENS"):
        draft.remark(
            given, "DECODE_RESERVE_TOKENS takes its place; remove that to set [vllm] long_prefill_token_threshold"
        )
    else:
        into("vllm", "long_prefill_token_threshold", whole(0))(draft, given)


def _largest_graph(draft: Draft, given: Assignment) -> None:
    if draft.environment.value("MOE_BACKEND") == "marlin":
        draft.remark(given, "has no effect with MOE_BACKEND=marlin; CUDAGRAPH_CAPTURE_SIZES names the sizes there")
    else:
        into("vllm", "max_cudagraph_capture_size", whole(1))(draft, given)


def _iteration_details(draft: Draft, given: Assignment) -> None:
    off = given.value.lower() in ("0", "no", "off", "false")
    notes = (f"the script takes any text for yes, {given.value} too",) if off else ()
    draft.put(("vllm", "enable_logging_iteration_details"), True, given, *notes)


def _skip_profiling(draft: Draft, given: Assignment) -> None:
    if given.value == "1":
        draft.put(("vllm", "skip_mm_profiling"), True, given)
    else:
        draft.remark(given, "only 1 has an effect; without it the images' memory is measured at the start, as here")


def _knob_or_variable(knob: str) -> Rule:
    """Return the rule of a variable that is a knob of the recipe at 1, and anything else for the engine alone."""

    def rule(draft: Draft, given: Assignment) -> None:
        if given.value == "1":
            draft.put(("knobs", knob), True, given)
        else:
            passed_on()(draft, given)

    return rule


def _group(draft: Draft, given: Assignment) -> None:
    if given.name == "SERVICE_NAME" and draft.environment.value("MENTAT_GROUP"):
        draft.remark(given, "MENTAT_GROUP names the group")
    else:
        into("knobs", "group", plain)(draft, given)


def _claim_layout(draft: Draft, given: Assignment) -> None:
    if draft.environment.value("TP") == "RING4":
        draft.remark(given, "follows from TP=RING4")
    else:
        passed_on()(draft, given)


def _role(draft: Draft, given: Assignment) -> None:
    if not draft.environment.value("HEAD_HOST"):
        what = "the boxes elect a head only where neither ROLE nor HEAD_HOST is set"
        draft.refuse(given, what, "set HEAD_HOST to the head's address, or remove ROLE")
    into("cluster", "role", one_of("head", "worker"), "write head or worker, or remove the line")(draft, given)


def _end(draft: Draft) -> None:
    """Hold the role against the addresses, and take the arguments."""
    _compare_addresses(draft)
    if extra := draft.environment.assignment("EXTRA_ARGS"):
        _extra_args(draft, extra)
    if draft.arguments:
        given = arguments_given(list(draft.arguments))
        draft.remark(given, "the script ignores them; EXTRA_ARGS holds what vLLM gets, here [engine] extra_args")
    open_api(draft)


def _compare_addresses(draft: Draft) -> None:
    """Refuse a head elsewhere than on this box and a worker on the head, where the addresses alone tell."""
    given = draft.environment.assignment("ROLE")
    here, head = draft.value("cluster", "host_address"), draft.value("cluster", "head")
    if given is None or here is None or not _is_address(head):
        return
    if given.value == "head" and here != head:
        draft.refuse(
            given, f"VLLM_HOST_IP is {here}, and HEAD_HOST is {head}", "set ROLE=worker on every box but the head"
        )
    if given.value == "worker" and here == head:
        draft.refuse(given, f"VLLM_HOST_IP is {here}, which is HEAD_HOST", "set ROLE=head on this box")


def _is_address(text: object) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def _extra_args(draft: Draft, given: Assignment) -> None:
    try:
        found = words_of(given.value)
    except UnfitError as error:
        draft.refuse(given, str(error), "close the quote, or put a backslash in front of it")
        return
    for word in found if _method(draft) != "none" else ():
        if names_speculation(word):
            what = f"sets {word.partition('=')[0]} too, which would replace SPEC_METHOD, SPEC_TOKENS and DFLASH_MODEL"
            draft.refuse(given, what, "put further keys into SPEC_EXTRA, as a JSON object")
            return
    take_arguments(draft, found, given)
    if found != given.value.split() and draft.line("engine", "extra_args"):
        draft.note(("engine", "extra_args"), "split as a shell does; the script splits at every blank and keeps quotes")


SCRIPT = Script(
    recipe="glm53-flash/gx10",
    start=_start,
    rules={
        "MODEL_DIR": into("model", "source", path),
        "SERVED_NAME": into("model", "served_model_name", plain),
        "MAX_MODEL_LEN": into("vllm", "max_model_len", length),
        "MAX_NUM_SEQS": into("vllm", "max_num_seqs", whole(1)),
        "MAX_NUM_BATCHED_TOKENS": into("vllm", "max_num_batched_tokens", amount),
        "LONG_PREFILL_TOKEN_THRESHOLD": _threshold,
        "BLOCK_SIZE": into("vllm", "block_size", whole(1)),
        "KV_CACHE_MEMORY": into("vllm", "kv_cache_memory_bytes", amount, "write bytes, or 8G"),
        "KV_CACHE_DTYPE": into("vllm", "kv_cache_dtype", flag_value),
        "GPU_MEM_UTIL": into("vllm", "gpu_memory_utilization", decimal),
        "SAFETENSORS_LOAD_STRATEGY": into("vllm", "safetensors_load_strategy", flag_value),
        "MOE_BACKEND": into("vllm", "moe_backend", flag_value),
        "TOPK_BACKEND": into("vllm", "sparse_indexer_topk_backend", flag_value),
        "CUDAGRAPH_MAX": _largest_graph,
        "LIMIT_MM": _limits,
        "SKIP_MM_PROFILING": _skip_profiling,
        "CHAT_TEMPLATE": into("vllm", "chat_template", flag_value),
        "ITERATION_DETAILS": _iteration_details,
        "TOOL_PARSER": into("vllm", "tool_call_parser", flag_value),
        "MTP": _mtp,
        "SPEC_METHOD": _spec_method,
        "SPEC_TOKENS": into("knobs", "spec_tokens", whole(1)),
        "SPEC_EXTRA": _spec_extra,
        "DFLASH_MODEL": into("knobs", "drafter", path),
        "VLLM_GLM5NEXT_RECOVERSSM": _knob_or_variable("recoverssm"),
        "VLLM_GLM5NEXT_DRAFT_POOL": _knob_or_variable("draft_pool"),
        "KV_EXTRA_MEMORY": into("knobs", "kv_extra_memory", whole(0), "write bytes, in digits alone"),
        "DECODE_RESERVE_TOKENS": into("knobs", "decode_reserve_tokens", whole(0)),
        "CUDAGRAPH_CAPTURE_SIZES": into("knobs", "capture_sizes", numbers, "write numbers with blanks between them"),
        "CUDA_GRAPHS": switched("knobs", "cuda_graphs"),
        "CUDAGRAPH_MODE": into("knobs", "cudagraph_mode", plain),
        "ALLOW_STOCK": switched("knobs", "allow_stock"),
        "SHARED_TAG": into("knobs", "shared_tag", plain),
        "CACHE_TAG": into("knobs", "cache_tag", plain),
        "AUTOTUNE_CACHE": switched("knobs", "persist_autotune", on="persist"),
        "MENTAT_GROUP": _group,
        "SERVICE_NAME": _group,
        "MENTAT_CLAIM": into("knobs", "claim", plain),
        "MENTAT_CLAIM_LAYOUT": _claim_layout,
        "STATUS_PORT": into("knobs", "status_port", port),
        "RAY_MEMORY_MONITOR_REFRESH_MS": passed_on(name="RAY_memory_monitor_refresh_ms"),
        **dict.fromkeys(ENGINES_OWN, passed_on()),
        "API_PORT": into("api", "port", port),
        "VLLM_API_KEY": asked_for_a_key,
        "EXTRA_ARGS": read_at_the_end,
        "CUDA_VISIBLE_DEVICES": gpus,
        "TP": _boxes,
        "HEAD_HOST": into("cluster", "head", host),
        "ROLE": _role,
        "VLLM_HOST_IP": into("cluster", "host_address", address),
        "FABRIC_SUBNETS": into("cluster", "subnets", subnets),
        "CACHE_ROOT": into("paths", "cache", path),
        "CLUSTER_SUBNET": dropped(
            "changes nothing: the script asks for the fabric's subnets; FABRIC_SUBNETS names them"
        ),
        "FABRIC_LAYOUT": dropped("the script overwrites it; TP=RING4 stands for a ring"),
        "PORT": dropped("the script takes the port from API_PORT"),
        "PREFLIGHT": dropped("every start checks the machine first"),
        "SELF_TEST": dropped("no setting skips the self-test: ready means that the answers were right"),
        "WORKER_WAIT_S": dropped(WAITING),
        "ROCE_SETTLE_S": dropped(WAITING),
        "FABRIC_WAIT_S": dropped(WAITING),
        "FABRIC_CHECK": dropped(COMPARING),
        "STAGE_FILE": dropped(PAGE),
        "STAGES": dropped(PAGE),
        "PEERS": dropped(PAGE),
        "MCP_LOG_DIR": dropped("the engine's lines go to the journal; for a copy set [log] file"),
        "RAY_OBJECT_STORE_MEMORY": dropped("the script's cluster daemon has no object store and ignores it"),
        "RAY_memory_monitor_refresh_ms": dropped("the script overwrites it from RAY_MEMORY_MONITOR_REFRESH_MS"),
        "CONTAINER_NAME": dropped("there is no container here"),
        "VLLM_CACHE_ROOT": dropped(CACHED),
        "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": dropped(
            "the script overwrites it; AUTOTUNE_CACHE=persist keeps that cache"
        ),
        "VLLM_USE_RAY_V2_EXECUTOR_BACKEND": dropped(OVERWRITTEN),
    },
    families=(
        (r"FABRIC_CHECK_\w+", dropped(COMPARING)),
        (r"PEER_\w+|CACHE_ACTIVE_WINDOW_S|THROUGHPUT_INTERVAL_S|HOST_SAMPLE_S|SEARCH_ROOTS", dropped(PAGE)),
        (r"COMPOSE_\w+", dropped("a setting of docker compose; there is no container here")),
    ),
    end=_end,
)
