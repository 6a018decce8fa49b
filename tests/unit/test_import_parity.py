"""What the two scripts handed to vLLM in recorded runs, against what their environments come to."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli

from appliance.core.config import config_of
from appliance.core.envfile import environment_of
from appliance.core.imported import imported
from appliance.core.problem import RefusedError

RECORDS = Path(__file__).parents[1] / "parity"
RTX3090X4 = "qwen38-flash-next/rtx3090x4"
GX10 = "glm53-flash/gx10"

FILES = {RTX3090X4: "start_4x3090.json", GX10: "entrypoint_gx10.json"}

ON_THE_MACHINE = {
    "scales-missing",
    "nvcc-newer",
    "drafter-missing",
    "no-overlays",
    "fabric-mismatch",
    "fabric-none",
    "fabric-none-ring",
    "role-head-wrong",
}
"""Cases that a script refused for what it found on the machine; their environments are good."""

Row = Mapping[str, Any]


def rows(name: str) -> list[Row]:
    found: list[Row] = json.loads((RECORDS / name).read_text())
    return found


def refused_from_the_environment(row: Row) -> bool:
    return bool(row["result"]["rc"]) and row["case"]["id"] not in ON_THE_MACHINE


RECORDED = [(recipe, row) for recipe, name in FILES.items() for row in rows(name)]
ACCEPTED = [(recipe, row) for recipe, row in RECORDED if not refused_from_the_environment(row)]
SERVED = [(recipe, row) for recipe, row in RECORDED if "argv" in row["result"]]


def named(found: list[tuple[str, Row]]) -> list[object]:
    return [pytest.param(recipe, row, id=f"{recipe.partition('/')[2]}-{row['case']['id']}") for recipe, row in found]


def placed(text: str) -> str:
    return text.replace("@CKPT@", "/ckpt").replace("@ROOT@", "/root")


def text_for(recipe: str, case: Row) -> str:
    lines = [f"{name}={shlex.quote(placed(value))}\n" for name, value in case["env"].items()]
    words = case.get("args", ["@CKPT@"] if recipe == RTX3090X4 else [])
    return imported(recipe, environment_of("".join(lines).encode(), "x.env"), tuple(map(placed, words)))


def test_the_records_are_all_there() -> None:
    assert [len(rows(name)) for name in FILES.values()] == [33, 100]
    assert {row["case"]["id"] for _, row in RECORDED} >= ON_THE_MACHINE


@pytest.mark.parametrize(("recipe", "row"), named(RECORDED))
def test_what_a_script_refused_for_its_environment_is_refused(recipe: str, row: Row) -> None:
    try:
        text = text_for(recipe, row["case"])
    except RefusedError as refused:
        assert refused_from_the_environment(row)
        for problem in refused.problems:
            assert (problem.file, problem.key in row["case"]["env"]) == ("x.env", True)
            assert problem.line
            assert problem.what
            assert problem.hint
    else:
        assert not refused_from_the_environment(row)
        assert config_of(text, "x.toml").recipe == recipe


@pytest.mark.parametrize(("recipe", "row"), named(ACCEPTED))
def test_every_variable_is_accounted_for(recipe: str, row: Row) -> None:
    comments = "\n".join(line.rpartition("# ")[2] for line in text_for(recipe, row["case"]).splitlines())
    for name, value in row["case"]["env"].items():
        assert name in comments or not value


@pytest.mark.parametrize(("recipe", "row"), named(SERVED))
def test_what_is_written_is_what_vllm_got(recipe: str, row: Row) -> None:
    table = tomli.loads(text_for(recipe, row["case"]))
    argv, env = [placed(word) for word in row["result"]["argv"]], row["result"]["env"]
    for flag, value in table.get("vllm", {}).items():
        assert words_after(argv, flag) == ([] if value is True else [str(value)]), flag
    for name, value in table.get("env", {}).items():
        assert env[name] == value
    model, api = table.get("model", {}), table.get("api", {})
    assert model.get("source", argv[1]) == argv[1]
    served = words_after(argv, "served_model_name")
    assert model.get("served_model_name", served) in (served, served[0])
    assert [api.get("host", "127.0.0.1")] == words_after(argv, "host")
    assert [str(api.get("port", 8000))] == words_after(argv, "port")
    extra = table.get("engine", {}).get("extra_args", [])
    assert argv[len(argv) - len(extra) :] == extra
    if recipe == RTX3090X4:
        agree_on_3090(table, argv, env)
    else:
        agree_on_gx10(table, argv, env)


def words_after(argv: list[str], flag: str) -> list[str]:
    """Return the words of a flag, which the scripts may abbreviate."""
    dashed = f"--{flag.replace('_', '-')}"
    at = next(n for n, word in enumerate(argv) if word.startswith("--") and dashed.startswith(word))
    end = next((n for n in range(at + 1, len(argv)) if argv[n].startswith("--")), len(argv))
    return argv[at + 1 : end]


def agree_on_3090(table: Row, argv: list[str], env: Row) -> None:
    knobs = table.get("knobs", {})
    assert knobs.get("scales", "/ckpt/qsa_kv_scales.json") == placed(env["VLLM_QSA_KV_SCALES"])
    assert knobs.get("ple_home", "0") == env["VLLM_PLE_OFFLOAD_HOME_DEVICE"]
    assert knobs.get("guard", "warn") == env["VLLM_E2_GUARD_MODE"]
    assert knobs.get("counters", False) == ("VLLM_QSA_KV_CLIP_COUNT" in env)
    devices = table.get("gpu", {}).get("devices", [0, 1, 2, 3])
    assert ",".join(map(str, devices)) == env["CUDA_VISIBLE_DEVICES"]
    assert table.get("paths", {}).get("cache", "@HERE@/.vllm-cache") == placed(env["VLLM_CACHE_ROOT"])
    assert table.get("vllm", {}).get("max_num_seqs", 4) == int(*words_after(argv, "max_num_seqs"))


def agree_on_gx10(table: Row, argv: list[str], env: Row) -> None:
    knobs, cluster = table.get("knobs", {}), table.get("cluster", {})
    assert [str(cluster.get("nodes", 4))] == words_after(argv, "tensor_parallel_size")
    assert (cluster.get("fabric_layout") == "ring") == (env.get("MENTAT_CLAIM_LAYOUT") == "ring")
    assert cluster.get("head", env["HEAD_HOST"]) == env["HEAD_HOST"]
    assert cluster.get("role", env["ROLE"]) == env["ROLE"]
    assert knobs.get("group", "glm53") == env["MENTAT_GROUP"]
    assert env["CACHE_TAG"].startswith(knobs.get("cache_tag", knobs.get("shared_tag", "glm53-")))
    assert env["SHARED_TAG"] == knobs.get("shared_tag", env["SHARED_TAG"])
    assert knobs.get("persist_autotune", False) == (not env["VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR"].startswith("/tmp/"))
    method = knobs.get("spec_method", "dflash")
    assert (method == "none") == ("--speculative-config" not in argv)
    if method != "none":
        speculation = json.loads(*words_after(argv, "speculative_config"))
        assert speculation["method"] == method
        assert speculation["num_speculative_tokens"] == knobs.get("spec_tokens", {"dflash": 7, "mtp": 4}[method])
        extra = [name for name in speculation if name not in ("method", "model", "num_speculative_tokens")]
        assert extra == list(knobs.get("spec_extra", {}))
    if "capture_sizes" in knobs:
        assert words_after(argv, "cudagraph_capture_sizes") == [str(size) for size in knobs["capture_sizes"]]
    assert ("--enforce-eager" in argv) == (knobs.get("cuda_graphs") is False)
