"""What the two reference scripts handed to vLLM, case by case, and what a plan of the same settings is."""

import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli

from appliance.core.config import config_of
from appliance.core.envfile import environment_of
from appliance.core.facts import Facts
from appliance.core.imported import imported
from appliance.core.inquiry import plain_inquiry
from appliance.core.plan import Plan
from appliance.core.problem import RefusedError
from appliance.core.recipe import Recipe
from appliance.host.gather import gather
from appliance.service.prospect import prospect_of
from appliance.service.share import recipe_at, recipe_files

TESTS = Path(__file__).parents[1]
RTX3090X4 = "qwen38-flash-next/rtx3090x4"
GX10 = "glm53-flash/gx10"
RECORDS = {RTX3090X4: "start_4x3090.json", GX10: "entrypoint_gx10.json"}
DIFFERENCES = tomli.loads((TESTS / "parity/differences.toml").read_text())
KEPT = {name for entry in DIFFERENCES["kept"] for name in entry["names"]}

ADDED = {name for entry in DIFFERENCES["added"] for name in entry["names"]}

PACKAGES = "usr/local/lib/python3.12/dist-packages"
OVERLAYS = {
    "arx": "vllm/distributed/device_communicators/arx.py",
    "snapshot": "vllm/model_executor/model_loader/weight_snapshot.py",
    "adaptive-k": "vllm/v1/core/sched/adaptive_k.py",
    "fp8": "vllm/model_executor/model_loader/dense_fp8.py",
    "megamoe": "vllm/model_executor/layers/fused_moe/megamoe_vllm.py",
    "fixes": "vllm/v1/attention/backends/mla/gb10_sparse_mla.py",
    "recoverssm": "vllm/models/glm5next/common/recoverssm.py",
}

Row = Mapping[str, Any]


def rows() -> list[Any]:
    """Return the cases of one machine; a worker hands nothing to vLLM."""
    found = [(recipe, row) for recipe, name in RECORDS.items() for row in recorded(name)]
    return [
        pytest.param(recipe, row, id=f"{recipe.partition('/')[2]}-{row['case']['id']}")
        for recipe, row in found
        if "argv" in row["result"] or row["result"]["rc"]
    ]


def recorded(name: str) -> list[Row]:
    found: list[Row] = json.loads((TESTS / "parity" / name).read_text())
    return found


@pytest.fixture(scope="module")
def recipes() -> dict[str, Recipe]:
    return {identity: recipe_at(recipe_files()[identity], "/usr/share/vllm-serve") for identity in RECORDS}


def world_of(recipe: str, case: Row, root: Path) -> Facts:
    """Return the facts of the machine that a case saw."""
    if recipe == GX10:
        shutil.copytree(TESTS / f"roots/gx10-{case.get('fabric', 'two')}", root, symlinks=True, dirs_exist_ok=True)
        for name in case.get("overlays", ["fixes"]):
            file = root / PACKAGES / OVERLAYS[name]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return gather(root, plain_inquiry())
    host = case.get("host", {"nvcc": "13.0", "driver_cuda": "13.0"})
    files = {
        "ckpt/config.json": '{"text_config": {"ple_embedding_dtype": "float8_e4m3fn"}}',
        "ckpt/qsa_kv_scales.json": "{}",
        "ckpt/other_scales.json": "{}",
        "commands/nvcc-version.txt": f"Cuda compilation tools, release {host['nvcc']}, V{host['nvcc']}.48",
        "commands/nvidia-smi.txt": f"| Driver Version: 580.65.06      CUDA Version: {host['driver_cuda']} |",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return gather(root, plain_inquiry())


def placed(text: str) -> str:
    text = text.replace("@CKPT@", "/ckpt")
    for entry in DIFFERENCES["moved"]:
        text = text.replace(entry["script"], entry["plan"])
    return text.replace("@ROOT@", "/root")


def plan_of(recipe: Recipe, case: Row, facts: Facts) -> Plan:
    lines = [f"{name}={shlex.quote(placed(value))}\n" for name, value in case["env"].items()]
    words = case.get("args", ["@CKPT@"] if recipe.id == RTX3090X4 else [])
    text = imported(recipe.id, environment_of("".join(lines).encode(), "x.env"), tuple(map(placed, words)))
    return prospect_of(config_of(text, "x.toml"), recipe, facts).plan


@pytest.mark.parametrize(("recipe", "row"), rows())
def test_the_same_settings_give_the_same_command(
    recipe: str, row: Row, recipes: dict[str, Recipe], tmp_path: Path
) -> None:
    case, result = row["case"], row["result"]
    facts = world_of(recipe, case, tmp_path)
    if result["rc"]:
        with pytest.raises(RefusedError) as refused:
            plan_of(recipes[recipe], case, facts)
        assert all(problem.what and problem.file for problem in refused.value.problems)
        return
    plan = plan_of(recipes[recipe], case, facts)
    assert list(plan.argv[2:]) == [spelled(placed(argument)) for argument in result["argv"]]
    variables = {variable.name: variable.value for variable in plan.env}
    wanted = {name: placed(value) for name, value in result["env"].items() if name not in KEPT}
    assert {name: variables.get(name) for name in wanted} == wanted
    assert variables.keys() - wanted.keys() <= ADDED


def spelled(argument: str) -> str:
    return next((entry["plan"] for entry in DIFFERENCES["spelling"] if entry["script"] == argument), argument)
