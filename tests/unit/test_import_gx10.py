"""The environment of the container for GX10 boxes: what it comes to, and what is refused."""

import json
from typing import Any

import pytest
import tomli

from appliance.core.envfile import environment_of
from appliance.core.imported import imported
from appliance.core.imported.rule import EXPOSED
from appliance.core.problem import RefusedError

RECIPE = "glm53-flash/gx10"
OPEN = {"host": "0.0.0.0", "port": 8002, "allow_unauthenticated": True}
WIDTHS = '{"num_speculative_tokens_per_batch_size": [[1, 4, 7], [5, 16, 5]], "b": true, "a": {"x y": 0.5}}'


def text_for(environment: str, *arguments: str) -> str:
    return imported(RECIPE, environment_of(environment.encode(), "x.env"), arguments)


def table_for(environment: str) -> dict[str, Any]:
    """Return what is written beyond the recipe and the address."""
    table = tomli.loads(text_for(environment))
    assert table.pop("recipe") == RECIPE
    if table["api"] == OPEN:
        del table["api"]
    return table


def remarks_of(text: str) -> list[str]:
    return text.partition("# Without a place in this file:\n")[2].splitlines()


def problems_of(environment: str) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        text_for(environment)
    return [str(problem) for problem in refused.value.problems]


def test_the_open_api_is_always_written_with_a_warning() -> None:
    assert text_for("").splitlines() == [
        f"# Written by `vllm-serve import-env {RECIPE}` from x.env.",
        f'recipe = "{RECIPE}"',
        "",
        "[api]",
        'host = "0.0.0.0"  # the script\'s own value',
        "port = 8002  # the script's own value",
        f"# {EXPOSED}",
        "allow_unauthenticated = true  # the script's own value",
    ]
    assert tomli.loads(text_for("API_PORT=8100"))["api"] == {**OPEN, "port": 8100}


@pytest.mark.parametrize(
    ("extra", "api"),
    [
        ("--port 9000", {**OPEN, "port": 9000}),
        ("--host 127.0.0.1", {"host": "127.0.0.1", "port": 8100}),
        ("--api-key k", {"host": "0.0.0.0", "port": 8100}),
    ],
)
def test_extra_arguments_come_last_whatever_the_order_of_the_lines(extra: str, api: object) -> None:
    assert tomli.loads(text_for(f"EXTRA_ARGS={extra}\nAPI_PORT=8100"))["api"] == {"port": 8100, **api}  # type: ignore[dict-item]  # a table of a test


@pytest.mark.parametrize(
    ("value", "cluster"),
    [
        *((str(count), {"nodes": count}) for count in (2, 3, 4, 6)),
        ("RING4", {"nodes": 4, "fabric_layout": "ring"}),
    ],
)
def test_tp_is_the_number_of_boxes(value: str, cluster: object) -> None:
    assert table_for(f"TP={value}") == {"cluster": cluster}


@pytest.mark.parametrize(
    ("line", "section", "key", "value"),
    [
        ("MODEL_DIR=/m", "model", "source", "/m"),
        ("SERVED_NAME=glm", "model", "served_model_name", "glm"),
        ("CACHE_ROOT=/c", "paths", "cache", "/c"),
        ("MAX_MODEL_LEN=131072", "vllm", "max_model_len", 131072),
        ("MAX_MODEL_LEN=128k", "vllm", "max_model_len", "128k"),
        ("MAX_MODEL_LEN=-1", "vllm", "max_model_len", -1),
        ("MAX_NUM_SEQS=48", "vllm", "max_num_seqs", 48),
        ("MAX_NUM_BATCHED_TOKENS=8192", "vllm", "max_num_batched_tokens", 8192),
        ("LONG_PREFILL_TOKEN_THRESHOLD=4608", "vllm", "long_prefill_token_threshold", 4608),
        ("BLOCK_SIZE=2048", "vllm", "block_size", 2048),
        ("KV_CACHE_MEMORY=6442450944", "vllm", "kv_cache_memory_bytes", 6442450944),
        ("KV_CACHE_DTYPE=auto", "vllm", "kv_cache_dtype", "auto"),
        ("GPU_MEM_UTIL=0.86", "vllm", "gpu_memory_utilization", 0.86),
        ("GPU_MEM_UTIL=1", "vllm", "gpu_memory_utilization", 1),
        ("SAFETENSORS_LOAD_STRATEGY=lazy", "vllm", "safetensors_load_strategy", "lazy"),
        ("MOE_BACKEND=marlin", "vllm", "moe_backend", "marlin"),
        ("TOPK_BACKEND=auto", "vllm", "sparse_indexer_topk_backend", "auto"),
        ("TOOL_PARSER=hermes", "vllm", "tool_call_parser", "hermes"),
        ("CHAT_TEMPLATE=/t.jinja", "vllm", "chat_template", "/t.jinja"),
        ("CUDAGRAPH_MAX=64", "vllm", "max_cudagraph_capture_size", 64),
        ("SKIP_MM_PROFILING=1", "vllm", "skip_mm_profiling", True),
        ("ITERATION_DETAILS=0", "vllm", "enable_logging_iteration_details", True),
        ('LIMIT_MM={"image":4, "video":0}', "vllm", "limit_mm_per_prompt", '{"image":4, "video":0}'),
        ("MTP=1", "knobs", "mtp", 1),
        ("SPEC_METHOD=mtp", "knobs", "spec_method", "mtp"),
        ("SPEC_TOKENS=5", "knobs", "spec_tokens", 5),
        ("DFLASH_MODEL=/d", "knobs", "drafter", "/d"),
        ("VLLM_GLM5NEXT_RECOVERSSM=1", "knobs", "recoverssm", True),
        ("VLLM_GLM5NEXT_DRAFT_POOL=1", "knobs", "draft_pool", True),
        ("VLLM_GLM5NEXT_RECOVERSSM=0", "env", "VLLM_GLM5NEXT_RECOVERSSM", "0"),
        ("VLLM_GLM5NEXT_DRAFT_POOL=yes", "env", "VLLM_GLM5NEXT_DRAFT_POOL", "yes"),
        ("KV_EXTRA_MEMORY=2147483648", "knobs", "kv_extra_memory", 2147483648),
        ("DECODE_RESERVE_TOKENS=16380", "knobs", "decode_reserve_tokens", 16380),
        ("CUDAGRAPH_CAPTURE_SIZES=8 16  512", "knobs", "capture_sizes", [8, 16, 512]),
        ("CUDA_GRAPHS=0", "knobs", "cuda_graphs", False),
        ("CUDA_GRAPHS=1", "knobs", "cuda_graphs", True),
        ("CUDA_GRAPHS=true", "knobs", "cuda_graphs", False),
        ("CUDAGRAPH_MODE=PIECEWISE", "knobs", "cudagraph_mode", "PIECEWISE"),
        ("ALLOW_STOCK=1", "knobs", "allow_stock", True),
        ("SHARED_TAG=s", "knobs", "shared_tag", "s"),
        ("CACHE_TAG=t", "knobs", "cache_tag", "t"),
        ("AUTOTUNE_CACHE=persist", "knobs", "persist_autotune", True),
        ("AUTOTUNE_CACHE=1", "knobs", "persist_autotune", False),
        ("MENTAT_GROUP=g", "knobs", "group", "g"),
        ("SERVICE_NAME=svc", "knobs", "group", "svc"),
        ("MENTAT_CLAIM=c", "knobs", "claim", "c"),
        ("STATUS_PORT=8083", "knobs", "status_port", 8083),
        ("HEAD_HOST=spark-head", "cluster", "head", "spark-head"),
        ("VLLM_HOST_IP=192.168.7.11", "cluster", "host_address", "192.168.7.11"),
        ("FABRIC_SUBNETS=10.10.1. 10.10.2.", "cluster", "subnets", ["10.10.1.", "10.10.2."]),
        ("RAY_MEMORY_MONITOR_REFRESH_MS=250", "env", "RAY_memory_monitor_refresh_ms", "250"),
        ("CUDA_VISIBLE_DEVICES=0", "gpu", "devices", [0]),
        ("NCCL_IB_HCA=mlx5_9", "env", "NCCL_IB_HCA", "mlx5_9"),
        ("MAX_JOBS=8", "env", "MAX_JOBS", "8"),
        ("VLLM_GLM_SP_TP=2", "env", "VLLM_GLM_SP_TP", "2"),
        ("MENTAT_CLAIM_LAYOUT=x", "env", "MENTAT_CLAIM_LAYOUT", "x"),
        ("TORCHINDUCTOR_CACHE_DIR=/x", "env", "TORCHINDUCTOR_CACHE_DIR", "/x"),
        (
            "EXTRA_ARGS=--seed 3 --x {\"a\": 1} --y 'b c'",
            "engine",
            "extra_args",
            ["--seed", "3", "--x", '{"a": 1}', "--y", "b c"],
        ),
    ],
)
def test_a_variable_becomes_a_key(line: str, section: str, key: str, value: object) -> None:
    assert table_for(line) == {section: {key: value}}


def test_the_older_switch_turns_speculation_off_whatever_the_method() -> None:
    text = text_for("SPEC_METHOD=junk\nMTP=0\nEXTRA_ARGS=--speculative-config {}")
    assert tomli.loads(text)["knobs"] == {"mtp": 0, "spec_method": "none"}
    assert tomli.loads(text)["engine"] == {"extra_args": ["--speculative-config", "{}"]}
    assert remarks_of(text) == ["# SPEC_METHOD, line 1: MTP=0 switches speculation off, whatever the method"]


@pytest.mark.parametrize("line", [f"SPEC_EXTRA={WIDTHS}", f"SPEC_EXTRA='{WIDTHS}'", f"SPEC_EXTRA={json.dumps(WIDTHS)}"])
def test_more_keys_of_the_drafter_become_a_table_in_their_order(line: str) -> None:
    extra = table_for(line)["knobs"]["spec_extra"]
    assert json.dumps(extra) == WIDTHS


def test_what_wins_in_the_script_wins_here() -> None:
    text = text_for(
        "LONG_PREFILL_TOKEN_THRESHOLD=5\nDECODE_RESERVE_TOKENS=512\nCUDAGRAPH_MAX=9\nMOE_BACKEND=marlin\n"
        "SERVICE_NAME=a\nMENTAT_GROUP=b\nMENTAT_CLAIM_LAYOUT=ring\nTP=RING4\nSKIP_MM_PROFILING=0\n"
    )
    table = tomli.loads(text)
    assert table["vllm"] == {"moe_backend": "marlin"}
    assert table["knobs"] == {"decode_reserve_tokens": 512, "group": "b"}
    assert [remark.partition(",")[0] for remark in remarks_of(text)] == [
        "# LONG_PREFILL_TOKEN_THRESHOLD",
        "# CUDAGRAPH_MAX",
        "# SERVICE_NAME",
        "# MENTAT_CLAIM_LAYOUT",
        "# SKIP_MM_PROFILING",
    ]


def test_other_splitting_than_the_scripts_is_told() -> None:
    note = "# split as a shell does; the script splits at every blank and keeps quotes"
    assert note in text_for("EXTRA_ARGS=--x 'a b'")
    assert note not in text_for('EXTRA_ARGS=--x {"a":1}')
    assert note not in text_for("EXTRA_ARGS=--seed  3")


@pytest.mark.parametrize(
    "name",
    [
        *("PREFLIGHT", "SELF_TEST", "FABRIC_CHECK", "FABRIC_CHECK_TIMEOUT_S", "STAGE_FILE", "MCP_LOG_DIR"),
        *("WORKER_WAIT_S", "ROCE_SETTLE_S", "FABRIC_WAIT_S", "RAY_OBJECT_STORE_MEMORY", "CONTAINER_NAME", "PEERS"),
        *("STAGES", "PEER_POLL_S", "CLUSTER_SUBNET", "FABRIC_LAYOUT", "PORT", "COMPOSE_FILE", "VLLM_CACHE_ROOT"),
        *("VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR", "VLLM_USE_RAY_V2_EXECUTOR_BACKEND", "RAY_memory_monitor_refresh_ms"),
        *("VLLM_API_KEY", "HF_TOKEN", "VLLM_LOGGING_CONFIG_PATH", "PYTHONPATH"),
    ],
)
def test_what_has_no_place_is_told_with_the_reason(name: str) -> None:
    text = text_for(f"{name}=1")
    assert set(tomli.loads(text)) == {"recipe", "api"}
    (remark,) = remarks_of(text)
    assert remark.startswith(f"# {name}, line 1: ")
    assert "not a variable" not in remark


def test_the_script_takes_no_arguments() -> None:
    assert remarks_of(text_for("", "--seed", "7")) == [
        "# arguments: the script ignores them; EXTRA_ARGS holds what vLLM gets, here [engine] extra_args",
    ]


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ("HEAD_HOST=a b", 'x.env:1: HEAD_HOST: found "a b", wants an IP address or a host name'),
        (
            "FABRIC_SUBNETS=10.10.1",
            'x.env:1: FABRIC_SUBNETS: found "10.10.1", wants the start of addresses, "10.10.1."',
        ),
        ("TP=5", 'x.env:1: TP: found "5", and the recipe is made for 2, 3, 4 or 6 boxes; write 2, 3, 4 or 6, or RING4'),
        ("TP=ring4", 'x.env:1: TP: found "ring4", and the recipe'),
        ("TP=04", 'x.env:1: TP: found "04", and the recipe'),
        ("MTP=00", 'x.env:1: MTP: found "00", wants at least 1; write 1, or 0 for no speculation'),
        ("SPEC_METHOD=eagle", 'x.env:1: SPEC_METHOD: found "eagle", wants one of dflash, mtp, none'),
        ("SPEC_TOKENS=0", 'x.env:1: SPEC_TOKENS: found "0", wants at least 1'),
        ("SPEC_TOKENS=7,", 'x.env:1: SPEC_TOKENS: found "7,", wants a whole number'),
        ("SPEC_EXTRA={", 'x.env:1: SPEC_EXTRA: found "{", not JSON: Expecting property name enclosed in double quotes'),
        ("SPEC_EXTRA=[]", "x.env:1: SPEC_EXTRA: found a list of 0, wants a JSON object; write one JSON object"),
        ('SPEC_EXTRA={"model":"x"}', "x.env:1: SPEC_EXTRA: sets model; remove it, and set DFLASH_MODEL"),
        ('SPEC_EXTRA={"a":null}', "x.env:1: SPEC_EXTRA: found null, which has no place in TOML"),
        ('SPEC_EXTRA={"a":NaN}', "x.env:1: SPEC_EXTRA: found NaN, wants a finite number"),
        ('SPEC_EXTRA={"a":1e999}', "x.env:1: SPEC_EXTRA: found inf, wants a finite number"),
        ('SPEC_EXTRA={"a":' + "9" * 5000 + "}", "x.env:1: SPEC_EXTRA: a number is too large to be read"),
        ("SPEC_EXTRA=" + "[" * 16_000, "x.env:1: SPEC_EXTRA: nested too deeply"),
        (r'SPEC_EXTRA={"a":"\ud800"}', "x.env:1: SPEC_EXTRA: found half a character"),
        (
            'SPEC_EXTRA={"num_speculative_tokens_per_batch_size":[[1,4]]}',
            "x.env:1: SPEC_EXTRA: num_speculative_tokens_per_batch_size is no list of rows; write rows of three",
        ),
        (
            "SPEC_EXTRA={}\nSPEC_METHOD=mtp",
            "x.env:1: SPEC_EXTRA: adds to the dflash drafter, and SPEC_METHOD=mtp; remove",
        ),
        (
            "SPEC_EXTRA={}\nMTP=0",
            "x.env:1: SPEC_EXTRA: adds to the dflash drafter, and MTP=0; remove SPEC_EXTRA, or MTP=0",
        ),
        ('LIMIT_MM={"image":4', 'x.env:1: LIMIT_MM: found "{"image":4", not JSON: '),
        (
            "LIMIT_MM=4",
            "x.env:1: LIMIT_MM: found 4, wants a JSON object; write one JSON object from { to }",
        ),
        (
            "KV_EXTRA_MEMORY=2GiB",
            'x.env:1: KV_EXTRA_MEMORY: found "2GiB", wants a whole number; write bytes, in digits',
        ),
        ("DECODE_RESERVE_TOKENS=-1", 'x.env:1: DECODE_RESERVE_TOKENS: found "-1", wants a whole number'),
        ("CUDAGRAPH_CAPTURE_SIZES=8,16", 'x.env:1: CUDAGRAPH_CAPTURE_SIZES: found "8,16", wants a whole number; write'),
        ("GPU_MEM_UTIL=86%", 'x.env:1: GPU_MEM_UTIL: found "86%", wants a number such as 0.88'),
        ("MOE_BACKEND=--x", 'x.env:1: MOE_BACKEND: found "--x", which vLLM would take for another flag'),
        ("MODEL_DIR=m", 'x.env:1: MODEL_DIR: found "m", wants an absolute path; write the whole path'),
        ("VLLM_HOST_IP=box", 'x.env:1: VLLM_HOST_IP: found "box", wants an IP address'),
        ("ROLE=boss\nHEAD_HOST=a", 'x.env:1: ROLE: found "boss", wants one of head, worker'),
        (
            "ROLE=head",
            "x.env:1: ROLE: the boxes elect a head only where neither ROLE nor HEAD_HOST is set; set HEAD_HOST",
        ),
        (
            "ROLE=head\nHEAD_HOST=10.0.0.2\nVLLM_HOST_IP=10.0.0.1",
            "x.env:1: ROLE: VLLM_HOST_IP is 10.0.0.1, and HEAD_HOST is 10.0.0.2; set ROLE=worker",
        ),
        (
            "ROLE=worker\nHEAD_HOST=10.0.0.1\nVLLM_HOST_IP=10.0.0.1",
            "x.env:1: ROLE: VLLM_HOST_IP is 10.0.0.1, which is HEAD_HOST; set ROLE=head on this box",
        ),
        ("EXTRA_ARGS=--x 'a", "x.env:1: EXTRA_ARGS: nothing follows or closes the ' at character 5; close the quote"),
        ("EXTRA_ARGS=--ssl-keyfile k", "x.env:1: EXTRA_ARGS --ssl-keyfile: vllm-serve sets --ssl_keyfile itself"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_way_out(environment: str, told: str) -> None:
    (problem,) = problems_of(environment)
    assert problem.startswith(told)
    assert "; " in problem


@pytest.mark.parametrize(
    "argument",
    [
        *(
            "--speculative-config {}",
            "--speculative-config={}",
            "--speculative-config.method=mtp",
            "--speculative_config {}",
        ),
        *("--speculative-conf {}", "-sc {}", "--spec-method mtp", "--spec_tokens=3"),
    ],
)
def test_speculation_is_set_in_one_place(argument: str) -> None:
    (problem,) = problems_of(f"EXTRA_ARGS=--seed 3 {argument}")
    assert problem.startswith("x.env:1: EXTRA_ARGS: sets -")
    assert "would replace SPEC_METHOD" in problem
    assert argument.split(maxsplit=1)[0] in text_for(f"SPEC_METHOD=none\nEXTRA_ARGS={argument}")


def test_a_worker_elsewhere_than_the_head_and_a_head_by_name_are_fine() -> None:
    for role, head in (("worker", "10.0.0.2"), ("head", "10.0.0.1"), ("head", "spark-head"), ("worker", "spark-head")):
        cluster = {"role": role, "head": head, "host_address": "10.0.0.1"}
        assert table_for(f"ROLE={role}\nHEAD_HOST={head}\nVLLM_HOST_IP=10.0.0.1") == {"cluster": cluster}


def test_amounts_may_be_short() -> None:
    text = imported(RECIPE, environment_of(b"KV_CACHE_MEMORY=16G\nMAX_NUM_BATCHED_TOKENS=16k\n", "x.env"), ())
    assert tomli.loads(text)["vllm"] == {"kv_cache_memory_bytes": "16G", "max_num_batched_tokens": "16k"}
