"""The environment of the script for four RTX 3090: what it comes to, and what is refused."""

from typing import Any

import pytest
import tomli

from appliance.core.envfile import environment_of
from appliance.core.imported import imported
from appliance.core.imported.argument import SEEN
from appliance.core.imported.rtx3090x4 import JOURNAL
from appliance.core.imported.rule import EXPOSED, KEYLESS
from appliance.core.problem import RefusedError

RECIPE = "qwen38-flash-next/rtx3090x4"


def text_for(environment: str, *arguments: str) -> str:
    return imported(RECIPE, environment_of(environment.encode(), "x.env"), arguments)


def table_for(environment: str, *arguments: str) -> dict[str, Any]:
    table = tomli.loads(text_for(environment, *arguments))
    assert table.pop("recipe") == RECIPE
    return table


def remarks_of(text: str) -> list[str]:
    return text.partition("# Without a place in this file:\n")[2].splitlines()


def problems_of(environment: str, *arguments: str) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        text_for(environment, *arguments)
    return [str(problem) for problem in refused.value.problems]


def test_a_file_reads_from_top_to_bottom_and_names_what_each_line_comes_from() -> None:
    environment = (
        "PORT=9001\nHOST=0.0.0.0\nMAX_SEQS=08\nMAX_SEQS=010\nCKPT=/data/m\nGUARD=off\nLOG=/var/log/vllm.log\n"
        "CUDA_VISIBLE_DEVICES=4,5,6,7\nCACHE_ROOT=/cache\nNCCL_DEBUG=INFO\n"
    )
    assert text_for(environment, "--seed", "7").splitlines() == [
        f"# Written by `vllm-serve import-env {RECIPE}` from x.env.",
        f'recipe = "{RECIPE}"',
        "",
        "[model]",
        'source = "/data/m"  # CKPT, line 5',
        "",
        "[vllm]",
        "# line 3 sets MAX_SEQS too; the last line wins",
        "max_num_seqs = 10  # MAX_SEQS, line 4",
        "",
        "[knobs]",
        'guard = "off"  # GUARD, line 6',
        "",
        "[env]",
        'NCCL_DEBUG = "INFO"  # NCCL_DEBUG, line 10',
        "",
        "[api]",
        "port = 9001  # PORT, line 1",
        'host = "0.0.0.0"  # HOST, line 2',
        f"# {EXPOSED}",
        "allow_unauthenticated = true  # HOST, line 2",
        "",
        "[engine]",
        'extra_args = ["--seed", "7"]  # arguments',
        "",
        "[gpu]",
        "devices = [4, 5, 6, 7]  # CUDA_VISIBLE_DEVICES, line 8",
        "",
        "[paths]",
        'cache = "/cache"  # CACHE_ROOT, line 9',
        "",
        "# Without a place in this file:",
        f"# LOG, line 7: {JOURNAL}",
    ]


def test_nothing_set_leaves_all_to_the_recipe() -> None:
    assert table_for("") == table_for("MAX_SEQS=\nMODEL_NAME=''\nLOG=\n") == {}


@pytest.mark.parametrize(
    ("environment", "arguments", "source"),
    [
        ("CKPT=/a\nMODEL_MOUNT_PATH=/b", (), "/a"),
        ("MODEL_MOUNT_PATH=/b", (), "/b"),
        ("CKPT=/a\nMODEL_MOUNT_PATH=/b", ("/c", "--seed", "7"), "/c"),
        ("CKPT=/a", ("", "--seed", "7"), "/a"),
        ("CKPT=/a", ("--seed", "7"), "/a"),
        ("CKPT=relative", ("/c",), "/c"),
    ],
)
def test_the_argument_wins_over_ckpt_and_that_over_the_mount_path(
    environment: str, arguments: tuple[str, ...], source: str
) -> None:
    assert table_for(environment, *arguments)["model"] == {"source": source}


def test_a_checkpoint_that_loses_is_told() -> None:
    assert remarks_of(text_for("CKPT=/a\nMODEL_MOUNT_PATH=/b")) == [
        "# MODEL_MOUNT_PATH, line 2: CKPT names the checkpoint"
    ]
    assert remarks_of(text_for("CKPT=/a", "/c")) == ["# CKPT, line 1: the first argument names the checkpoint"]


@pytest.mark.parametrize(("value", "number"), [("08", 8), ("010", 10), ("4", 4), ("0000000000000000000007", 7)])
def test_zeros_in_front_make_no_octal_number(value: str, number: int) -> None:
    assert table_for(f"MAX_SEQS={value}")["vllm"] == {"max_num_seqs": number}


def test_several_names_are_a_list_and_one_is_not() -> None:
    assert table_for("MODEL_NAME=alpha")["model"] == {"served_model_name": "alpha"}
    assert table_for("MODEL_NAME=alpha alpha")["model"] == {"served_model_name": "alpha"}
    assert table_for("MODEL_NAME=alpha  beta")["model"] == {"served_model_name": ["alpha", "beta"]}


@pytest.mark.parametrize(("value", "on"), [("1", True), ("0", False), ("2", False), ("yes", False)])
def test_only_1_switches_the_counters_on(value: str, on: bool) -> None:
    text = text_for(f"COUNTERS={value}")
    assert tomli.loads(text)["knobs"] == {"counters": on}
    assert ("the script takes anything but 1 for off" in text) == (value not in ("0", "1"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
def test_this_machine_alone_needs_no_permission(host: str) -> None:
    assert list(table_for(f"HOST={host}")["api"]) == ["host"]


def test_an_api_that_asked_for_a_key_is_not_opened() -> None:
    text = text_for("VLLM_API_KEY=sesame\nHOST=0.0.0.0")
    assert tomli.loads(text)["api"] == {"host": "0.0.0.0"}
    assert f"# {KEYLESS}\nhost = " in text
    assert "sesame" not in text
    for key in ("--api-key=sesame", "--api-k=sesame"):
        text = text_for("VLLM_API_KEY=x\nHOST=0.0.0.0", key, "--seed", "7")
        assert tomli.loads(text)["api"] == {"host": "0.0.0.0"}
        assert KEYLESS not in text
        assert f"# {SEEN}\nextra_args = " in text
        assert tomli.loads(text)["engine"] == {"extra_args": [key, "--seed", "7"]}


@pytest.mark.parametrize(
    ("arguments", "section", "value"),
    [
        (("--port", "9"), "api", {"port": 9}),
        (("--port=9", "--port", "10"), "api", {"port": 10}),
        (("--host", "::1"), "api", {"host": "::1"}),
        (("--served-model-name", "a", "b"), "model", {"served_model_name": ["a", "b"]}),
        (("--served_model_name=a",), "model", {"served_model_name": "a"}),
    ],
)
def test_flags_that_have_a_key_go_there(arguments: tuple[str, ...], section: str, value: object) -> None:
    table = table_for("PORT=8080" if "ort" in arguments[0] else "", *arguments)
    assert table == {section: value}


def test_other_arguments_stay_as_they_are() -> None:
    words = ["--seed", "-1", "-tp", "4", "-O3", '--x={"a": 1}', "--flag=", "--y", "a b"]
    assert table_for("", *words)["engine"]["extra_args"] == words
    assert table_for("", "", "stray")["engine"]["extra_args"] == ["stray"]


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ("4,5,6,7", [4, 5, 6, 7]),
        ("0", [0]),
        ("3, 1", [3, 1]),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-12ab", ["GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-12ab"]),
    ],
)
def test_gpus_are_numbers_or_uuids(value: str, devices: list[object]) -> None:
    assert table_for(f"CUDA_VISIBLE_DEVICES={value}")["gpu"] == {"devices": devices}


@pytest.mark.parametrize(
    ("value", "section"),
    [
        ("/var/log/vllm-serve/engine.log", {"log": {"file": "/var/log/vllm-serve/engine.log"}}),
        ("/var/log/vllm-serve/", {}),
        ("/var/log/vllm-serve/../x", {}),
        ("/var/log/vllm.log", {}),
    ],
)
def test_a_copy_of_the_log_lies_in_its_folder_alone(value: str, section: object) -> None:
    assert table_for(f"LOG={value}") == section


@pytest.mark.parametrize(
    "name",
    [
        *("TREE", "VENV", "CUDA_HOME", "LOG", "AUTO_TOPO", "AUTO_TOPO_NCCL", "LANE_GPUS", "TOPO_TIMEOUT"),
        *("TOPO_CALLER_SET_PLE_HOME", "SERVE_PRINT_ENV_AND_EXIT", "MERLIN_FULL_K", "MERLIN_NEW", "VLLM_E2_NEW"),
        *("VLLM_E2_GUARD_MODE", "VLLM_PLE_TEST_FAULT_GATE", "VLLM_PLE_OFFLOAD_HOME_DEVICE", "VLLM_QSA_KV_SCALES"),
        *("NCCL_P2P_LEVEL", "NCCL_PROTO", "VLLM_SKIP_P2P_CHECK", "CUDA_DEVICE_ORDER", "PYTORCH_CUDA_ALLOC_CONF"),
        *("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "PYTHONPATH"),
        *("FLASHINFER_WORKSPACE_BASE", "VLLM_PP_LAYER_PARTITION", "VLLM_USE_V2_MODEL_RUNNER", "COMPOSE_FILE"),
    ],
)
def test_what_has_no_place_is_told_with_the_reason(name: str) -> None:
    text = text_for(f"{name}=1")
    assert len(tomli.loads(text)) == 1
    (remark,) = remarks_of(text)
    assert remark.startswith(f"# {name}, line 1: ")
    assert "not a variable" not in remark


def test_what_the_script_hands_on_reaches_the_engine() -> None:
    table = table_for(
        "VLLM_LOG_STATS_INTERVAL=10\nVLLM_SKIP_MODEL_NAME_VALIDATION=0\nNCCL_DEBUG=WARN\nOMP_NUM_THREADS=4"
    )
    assert table["env"] == {
        "VLLM_LOG_STATS_INTERVAL": "10",
        "VLLM_SKIP_MODEL_NAME_VALIDATION": "0",
        "NCCL_DEBUG": "WARN",
        "OMP_NUM_THREADS": "4",
    }


def test_an_unknown_variable_is_no_mistake() -> None:
    text = text_for("MAX_SEQ=3\nzzz=1\nHF_TOKEN=hf_secret\nLD_PRELOAD=/x.so\nVLLM_LOG_STATS_INTERVALL=3")
    assert remarks_of(text) == [
        "# MAX_SEQ, line 1: not a variable of this script; did you mean MAX_SEQS?",
        "# zzz, line 2: not a variable of this script",
        "# HF_TOKEN, line 3: looks like a secret, and the configuration can be read by others; [env] takes none",
        "# LD_PRELOAD, line 4: vllm-serve sets this variable itself",
    ]
    assert "secret\n" not in text
    assert "# did you mean VLLM_LOG_STATS_INTERVAL? the script does not know" in text


@pytest.mark.parametrize(
    ("environment", "arguments", "told"),
    [
        ("MAX_SEQS=0", (), 'x.env:1: MAX_SEQS: found "0", wants at least 1; correct it, or remove it'),
        ("MAX_SEQS=-1", (), 'x.env:1: MAX_SEQS: found "-1", wants a whole number; correct it'),
        ("MAX_SEQS=1.5", (), 'x.env:1: MAX_SEQS: found "1.5", wants a whole number; correct it'),
        ("MAX_SEQS='4 '", (), 'x.env:1: MAX_SEQS: found "4 ", wants a whole number'),
        ("MAX_SEQS=\u0664", (), 'x.env:1: MAX_SEQS: found "\u0664", wants a whole number'),
        ("MAX_SEQS=9999999999999999999", (), "x.env:1: MAX_SEQS: found a number of more than 63 bits"),
        ("MAX_SEQS=" + "9" * 9999, (), "x.env:1: MAX_SEQS: found a number of more than 63 bits"),
        ("#\nMAX_BATCHED_TOKENS=2k", (), 'x.env:2: MAX_BATCHED_TOKENS: found "2k", wants a whole number'),
        (
            "MAX_BATCHED_TOKENS=3",
            (),
            "x.env:1: MAX_BATCHED_TOKENS: MAX_BATCHED_TOKENS is 3, fewer than MAX_SEQS, which",
        ),
        (
            "MAX_SEQS=4096",
            (),
            "x.env:1: MAX_SEQS: MAX_BATCHED_TOKENS is 2048, fewer than MAX_SEQS, which is 4096; raise",
        ),
        ("MAX_SEQS=8\nMAX_BATCHED_TOKENS=7", (), "x.env:2: MAX_BATCHED_TOKENS: MAX_BATCHED_TOKENS is 7, fewer than"),
        ("MODEL_NAME='  '", (), "x.env:1: MODEL_NAME: found blanks only, wants at least one word; write a name"),
        ("GUARD=loud", (), 'x.env:1: GUARD: found "loud", wants one of off, warn, raise'),
        ("PORT=70000", (), "x.env:1: PORT: found 70000, wants a port from 1 to 65535"),
        ("HOST=gpu-box", (), 'x.env:1: HOST: found "gpu-box", wants an IP address of this machine'),
        ("CKPT=models/x", (), 'x.env:1: CKPT: found "models/x", wants an absolute path; write the whole path'),
        (
            "CUDA_VISIBLE_DEVICES=-1",
            (),
            'x.env:1: CUDA_VISIBLE_DEVICES: found "-1", wants the index of a GPU or its UUID',
        ),
        ("CUDA_VISIBLE_DEVICES=0,", (), 'x.env:1: CUDA_VISIBLE_DEVICES: found "", wants the index of a GPU'),
        (
            "CUDA_VISIBLE_DEVICES=1,01",
            (),
            "x.env:1: CUDA_VISIBLE_DEVICES: found a list of 2, wants at least one GPU and each only once",
        ),
        ("", ("models/x",), 'command line: arguments: found "models/x", wants an absolute path'),
        (
            "",
            ("--ssl-keyfile", "k"),
            "command line: arguments --ssl-keyfile: vllm-serve sets --ssl_keyfile itself; put a",
        ),
        ("", ("--port", "x"), 'command line: arguments --port: found "x", wants a whole number'),
        ("", ("--host",), "command line: arguments --host: found an empty string"),
        ("", ("--seed", ""), "command line: arguments: found an empty argument; remove it, or write --flag="),
        ("", ("--x", "\udc80"), "command line: arguments: found half a character"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_way_out(
    environment: str, arguments: tuple[str, ...], told: str
) -> None:
    (problem,) = problems_of(environment, *arguments)
    assert problem.startswith(told)
    assert "; " in problem


def test_every_problem_is_told_at_once_in_the_order_of_the_lines() -> None:
    problems = problems_of("PORT=x\nBROKEN\nMAX_SEQS=2k\nGUARD=no", "--ssl-keyfile", "k")
    assert [problem.partition(": ")[0] for problem in problems] == [
        "command line",
        *(f"x.env:{n}" for n in (1, 2, 3, 4)),
    ]


def test_strict_topology_is_not_guessed_at() -> None:
    with pytest.raises(RefusedError, match=r"x\.env:1: AUTO_TOPO: choosing the GPUs by topology comes later"):
        imported(RECIPE, environment_of(b"AUTO_TOPO=strict\n", "x.env"), ())


def test_what_compilers_and_loaders_read_is_passed_on() -> None:
    text = imported(RECIPE, environment_of(b"MAX_JOBS=3\nLD_LIBRARY_PATH=/opt/lib\n", "x.env"), ())
    assert tomli.loads(text)["env"] == {"MAX_JOBS": "3", "LD_LIBRARY_PATH": "/opt/lib"}
