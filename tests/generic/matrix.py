"""Every checkpoint of tests/checkpoints on every machine of tests/machines: what `generic` plans and what is checked.

`python -m tests.generic.matrix` prints what expected.toml should hold.
"""

import dataclasses
import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from appliance.core.config import config_of
from appliance.core.facts import CheckpointFacts, EngineFacts, Facts, WeightFile
from appliance.core.inquiry import plain_inquiry
from appliance.core.plan import DEFAULT_ENV, Plan
from appliance.core.problem import RefusedError
from appliance.host.checkpoint import config_line
from appliance.host.gather import gather
from appliance.service.prospect import Prospect, prospect_of
from appliance.service.share import chosen_recipe

TESTS = Path(__file__).parents[1]
EXPECTED = Path(__file__).with_name("expected.toml")
MACHINES = ("h200", "h200x2", "gx10", "rtx3090x4", "rtx2080super", "cpu")

WEIGHTS = {
    "qwen3-0.6b": 1_503_264_768,
    "llama-3.1-8b": 16_060_522_496,
    "llama-3.1-70b": 141_107_412_992,
    "qwen3-30b-a3b": 61_064_245_248,
    "deepseek-v3": 688_586_727_753,
    "qwen3-32b-fp8": 34_326_243_328,
    "nemotron-3-nano-30b-a3b-nvfp4": 19_323_715_584,
    "qwen2.5-14b-awq": 9_980_028_928,
    "qwen2.5-7b-gptq-int4": 5_577_800_704,
    "qwen2.5-vl-7b": 16_584_333_312,
    "whisper-large-v3-turbo": 3_235_512_320,
    "bge-m3": 2_271_019_008,
    "qwen3-embedding-0.6b": 1_191_553_024,
    "bge-reranker-v2-m3": 2_271_023_108,
    "flan-t5-base": 990_311_424,
}
"""Bytes, as tests/checkpoints/README.md has them."""

CASES = [(checkpoint, machine) for checkpoint in WEIGHTS for machine in MACHINES]


def checkpoint_of(name: str) -> CheckpointFacts:
    """Return a published checkpoint, with its weights in one file."""
    return CheckpointFacts(
        folder=f"/models/{name}",
        architecture=None,
        max_position_embeddings=None,
        weights=(WeightFile(name="model.safetensors", bytes=WEIGHTS[name], fault=None),),
        missing=(),
        config=config_line(TESTS / "checkpoints", name),
    )


@cache
def machine_of(name: str) -> Facts:
    """Return a machine with the engine that it would have."""
    device = "cpu" if name == "cpu" else "cuda"
    vllm = "0.32.0+cpu" if device == "cpu" else "0.32.0"
    engine = EngineFacts(id="e", folder="/e", vllm=vllm, torch="2.13.0", device=device)
    return dataclasses.replace(gather(TESTS / "machines" / name, plain_inquiry()), engine=engine)


def facts_of(checkpoint: str, machine: str) -> Facts:
    """Return a machine with a checkpoint on it."""
    return dataclasses.replace(machine_of(machine), checkpoint=checkpoint_of(checkpoint))


def prospect(checkpoint: str, machine: str, text: str = "") -> Prospect:
    """Return what becomes of a checkpoint on a machine. Raises RefusedError."""
    return prospect_with(facts_of(checkpoint, machine), text)


def prospect_with(facts: Facts, text: str = "") -> Prospect:
    """Return what becomes of facts with a checkpoint. Raises RefusedError."""
    assert facts.checkpoint is not None
    source = f'[model]\nsource = "{facts.checkpoint.folder}"\nserved_model_name = "m"\n'
    config = config_of(f'recipe = "generic"\n{source}{text}', "x.toml")
    return prospect_of(config, chosen_recipe(config), facts)


def arguments(plan: Plan) -> list[str]:
    """Return the command line behind the model."""
    return list(plan.argv[plan.argv.index("serve") + 2 :])


def told(checkpoint: str, machine: str) -> dict[str, Any]:
    """Return the outcome as expected.toml holds it: a refusal, or command line, variables and findings.

    What every plan has is left out, and must be there.
    """
    try:
        found = prospect(checkpoint, machine)
    except RefusedError as refused:
        return {"refused": [problem.what for problem in refused.problems]}
    always, usual = expected()["always"], {name for name, _ in DEFAULT_ENV} | {"PATH"}
    line = " ".join(arguments(found.plan))
    assert line.startswith(always["first"])
    assert line.endswith(always["last"])
    env = {variable.name: variable.value for variable in found.plan.env if variable.name not in usual}
    assert always["env"].items() <= env.items()
    outcome: dict[str, Any] = {"argv": line.removeprefix(always["first"]).removesuffix(always["last"]).strip()}
    outcome |= {name: value for name, value in env.items() if name not in always["env"]}
    findings = [f"{one.severity}: {one}" for one in found.findings if one.id != "memory.main"]
    return outcome | ({"findings": findings} if findings else {})


def line_of(outcome: dict[str, Any]) -> tuple[str, ...]:
    """Return the whole command line of an expected plan."""
    always = expected()["always"]
    return tuple(" ".join((always["first"], outcome["argv"], always["last"])).split())


@cache
def expected() -> dict[str, Any]:
    """Return what expected.toml holds: what every plan has, then each case."""
    return tomllib.loads(EXPECTED.read_text())


def printed() -> str:
    """Return what the end of expected.toml would be by the code as it is."""
    text = ""
    for checkpoint in WEIGHTS:
        text += f'\n["{checkpoint}"]\n'
        for machine in MACHINES:
            outcome = told(checkpoint, machine)
            keys = ", ".join(f"{name} = {json.dumps(value)}" for name, value in outcome.items())
            text += f"{machine} = {{ {keys} }}\n"
    return text


if __name__ == "__main__":
    print(printed())
