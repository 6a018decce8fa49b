"""The commands as programs: from an environment file and a copy of a machine to the plan."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tomli

from appliance.core.config import config_of
from appliance.core.inquiry import plain_inquiry
from appliance.core.plan import build
from appliance.core.recipe import recipe_of
from appliance.host.gather import gather
from tests.rig import ROOT

COMMAND = (sys.executable, "-P", "-s", "-m", "appliance.cli.main")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*words: str, status: int = 0) -> str:
    """Run the command; return what it printed, or what it said on the error output when it must fail."""
    done = subprocess.run((*COMMAND, *words), env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a root with four things: a checkpoint, its scales, a compiler and a driver."""
    files = {
        "data/m/config.json": '{"text_config": {"ple_embedding_dtype": "float8_e4m3fn"}}',
        "data/m/qsa_kv_scales.json": "{}",
        "commands/nvcc-version.txt": "Cuda compilation tools, release 13.0, V13.0.48",
        "commands/nvidia-smi.txt": "| NVIDIA-SMI 580.65.06  Driver Version: 580.65.06  CUDA Version: 13.0 |",
    }
    root = tmp_path / "machine"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def imported(folder: Path, environment: str, *words: str) -> tuple[Path, Path]:
    """Return the configuration that an environment comes to, and the facts of the machine beside it."""
    (folder / "case.env").write_text(environment)
    config, facts = folder / "t.toml", folder / "facts.json"
    config.write_text(run("import-env", "qwen38-flash-next/rtx3090x4", str(folder / "case.env"), "--", *words))
    facts.write_text(run("facts", "--root", str(folder / "machine"), "--json"))
    return config, facts


def test_an_environment_file_becomes_the_command_that_the_script_ran(machine: Path) -> None:
    config, facts = imported(machine.parent, 'MAX_SEQS=010\nexport MODEL_NAME="alpha beta"\n', "/data/m", "--seed", "7")
    assert tomli.loads(config.read_text())["vllm"] == {"max_num_seqs": 10}
    plan = json.loads(run("plan", "--config", str(config), "--facts", str(facts), "--json"))
    assert plan.keys() >= {"argv", "env", "unset", "prefix", "settings"}
    start = plan["argv"].index("serve")
    assert plan["argv"][start : start + 5] == ["serve", "/data/m", "--served-model-name", "alpha", "beta"]
    sizes = json.loads(plan["argv"][plan["argv"].index("--compilation-config") + 1])["cudagraph_capture_sizes"]
    assert (sizes[-1], plan["argv"][-2:]) == (40, ["--seed", "7"])
    assert plan["env"]["VLLM_QSA_KV_SCALES"] == "/data/m/qsa_kv_scales.json"
    assert "MERLIN_*" in plan["unset"]
    line = next(n for n, text in enumerate(config.read_text().splitlines(), 1) if text.startswith("max_num_seqs"))
    assert {"name": "max_num_seqs", "value": 10, "origin": f"{config}:{line}"} in plan["settings"]


def test_a_missing_sidecar_makes_no_plan(machine: Path) -> None:
    config, facts = imported(machine.parent, "SCALES=/data/m/none.json\n", "/data/m")
    told = run("plan", "--config", str(config), "--facts", str(facts), status=78)
    assert f"{config}:" in told
    assert "[knobs] scales: there is no /data/m/none.json" in told


def test_a_key_in_the_arguments_is_hidden_from_people_and_not_from_the_shell(machine: Path) -> None:
    config, facts = imported(machine.parent, "", "/data/m", "--api-key", "hush-hush")
    shown = run("plan", "--config", str(config), "--facts", str(facts))
    assert "hush-hush" not in shown
    assert "--api-key '(hidden)'" in shown
    pasted = run("plan", "--config", str(config), "--facts", str(facts), "--shell")
    assert subprocess.run(
        ["bash", "-c", pasted.replace("/var/lib/vllm-serve/engines/current/bin/python", "echo", 1)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.endswith("--api-key hush-hush\n")


def test_what_a_file_gets_wrong_is_told_at_once_in_the_order_of_its_lines(tmp_path: Path) -> None:
    config = tmp_path / "vllm-serve.toml"
    config.write_text(
        'recipe = "demo"\n[vllm]\nmax_modl_len = 3\nseed = "x"\n[env]\nVLLM_USE_V1X = 1\n[knobs]\na = 1\n'
    )
    told = run("config", "check", str(config), status=78).splitlines()
    assert [line.removeprefix(f"{config}:").split(": ")[:2] for line in told] == [
        ["3", "[vllm] max_modl_len"],
        ["4", "[vllm] seed"],
        ["6", "[env] VLLM_USE_V1X"],
        ["8", "[knobs] a"],
    ]


def test_mistakes_of_every_kind_are_told_in_one_go(tmp_path: Path) -> None:
    config = tmp_path / "vllm-serve.toml"
    config.write_text('recipe = "demo"\n[api]\nprot = 1\n[vllm]\ntypo_flag = 1\n[knobs]\na = 1\n')
    told = run("config", "check", str(config), status=78).splitlines()
    assert [line.removeprefix(f"{config}:").split(": ")[:2] for line in told] == [
        ["3", "[api] prot"],
        ["5", "[vllm] typo_flag"],
        ["7", "[knobs] a"],
    ]


def test_every_recipe_can_be_shown() -> None:
    listed = json.loads(run("recipes", "--json"))
    assert {"demo", "glm53-flash/gx10", "qwen38-flash-next/rtx3090x4"} <= {recipe["id"] for recipe in listed}
    for recipe in listed:
        shown = json.loads(run("recipes", "show", recipe["id"], "--json"))
        assert shown["vllm"]
        assert all(knob["doc"] for knob in shown["knobs"])
        assert recipe["summary"] in run("recipes", "show", recipe["id"])
    assert "did you mean demo" in run("recipes", "show", "demmo", status=2)


def test_the_example_of_the_documentation_is_a_recipe() -> None:
    text = (ROOT / "docs/recipes.md").read_text().partition("```toml\n")[2].partition("```")[0]
    recipe = recipe_of(text, "mine/qwen3-30b.toml")
    facts = gather(ROOT / "tests/machines/h200x2", plain_inquiry())
    argv = build(config_of("", "x.toml"), recipe, facts).argv
    assert argv[argv.index("--cudagraph-capture-sizes") + 1 :][:5] == ("1", "2", "4", "8", "12")
    argv = build(config_of("[knobs]\ndraft_tokens = 1\n", "x.toml"), recipe, facts).argv
    assert json.loads(argv[argv.index("--speculative-config") + 1])["num_speculative_tokens"] == 1


def test_every_formula_is_listed_with_what_it_is_given() -> None:
    listed = run("recipes", "formulas")
    assert "graph_sizes(requests, draft_tokens)\n    Return the CUDA graph sizes" in listed


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        ("", 78),
        ("allow_unauthenticated = true\n", 0),
        ('[engine]\nextra_args = ["--api-key", "k"]\n', 0),
    ],
)
def test_an_api_for_everybody_is_told_by_the_check(tmp_path: Path, rest: str, status: int) -> None:
    config = tmp_path / "vllm-serve.toml"
    config.write_text(f'recipe = "demo"\n[api]\nhost = "0.0.0.0"\n{rest}')
    told = run("config", "check", str(config), status=status)
    assert ("[api] host: 0.0.0.0 lets other machines use the model without a key" in told) == bool(status)
