"""The command lines of every recipe, read by the real vLLM's own parser."""

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest

from appliance.core.config import config_of
from appliance.core.facts import Facts
from appliance.core.inquiry import plain_inquiry
from appliance.core.plan import build
from appliance.core.setting import arguments_of
from appliance.host.gather import gather
from appliance.service.architectures import architectures_of
from appliance.service.share import chosen_recipe
from tests.contract.test_options import PARSER
from tests.generic.matrix import CASES, TESTS, expected, line_of, machine_of

LINE = tuple[str, ...]

REGISTRY = """
import json
from vllm import __version__
from vllm.model_executor.models.registry import _VLLM_MODELS
print("\\n" + json.dumps([__version__, sorted(_VLLM_MODELS)]))
"""


def told(engine: Path, program: str, given: str = "") -> str:
    """Return the last line that a program prints in the engine's environment."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(engine), "VLLM_NO_USAGE_STATS": "1"}
    command = [str(engine / "bin/python"), "-I", "-c", program]
    asked = subprocess.run(
        command, env=environment, input=given, capture_output=True, text=True, check=True, timeout=300
    )
    return asked.stdout.splitlines()[-1]


def machine(root: Path) -> Facts:
    """Return a machine, without the claim that every file of it was seen."""
    return dataclasses.replace(gather(root, plain_inquiry()), searched=())


def line_with(text: str, facts: Facts) -> LINE:
    """Return the flags of a plan without those that only a recipe's own engine takes."""
    config = config_of(text, "x.toml")
    recipe = chosen_recipe(config)
    settings = build(config, recipe, facts).settings
    kept = (setting for setting in settings if setting.name not in recipe.engine.flags)
    return tuple(argument for setting in kept for argument in arguments_of(setting))


def lines() -> dict[str, LINE]:
    """Return every command line that is expected to parse."""
    cases = ((checkpoint, name, expected()[checkpoint][name]) for checkpoint, name in CASES)
    found = {f"{checkpoint} {name}": line_of(outcome) for checkpoint, name, outcome in cases if "argv" in outcome}
    found["demo"] = line_with('recipe = "demo"\n', machine_of("cpu"))
    for nodes in (2, 3, 4, 6):
        text = f'recipe = "glm53-flash/gx10"\n[cluster]\nnodes = {nodes}\n[knobs]\nallow_stock = true\n'
        found[f"gx10 {nodes}"] = line_with(text, machine(TESTS / "roots/gx10-two"))
    rtx = machine(TESTS / "machines/rtx3090x4")
    found["rtx3090x4"] = line_with('recipe = "qwen38-flash-next/rtx3090x4"\n', rtx)
    return found


@pytest.fixture(scope="module")
def engine(engines: Path) -> Path:
    return engines / "current"


def test_every_recipes_command_line_is_one(engine: Path) -> None:
    tried = lines()
    wrong = ("--tensor-parallel-size", "many")
    verdicts = json.loads(told(engine, PARSER, json.dumps([*tried.values(), wrong])))
    assert [(name, said) for name, said in zip(tried, verdicts[:-1], strict=True) if said is not None] == []
    assert verdicts[-1] is not None
    assert len(tried) > 60


def test_the_shipped_list_of_architectures_is_the_registrys(engine: Path) -> None:
    version, names = json.loads(told(engine, REGISTRY))
    known = architectures_of(version.partition("+")[0])
    assert known is not None
    assert sorted((*known.generate, *known.pooling, *known.transcription, *known.draft)) == names
