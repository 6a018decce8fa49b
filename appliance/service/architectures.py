"""The list of the architectures that a version of vLLM loads, shipped beside that of its options."""

import functools
from pathlib import Path

from appliance.core.architecture import ArchitectureList
from appliance.core.codec import record_of
from appliance.core.config import Config
from appliance.core.facts import Facts
from appliance.core.recipe import Recipe
from appliance.service.share import PACKAGE

NEWEST = "0.32.0"
"""The version that `vllm-serve engine install` installs."""


def architectures_for(config: Config, recipe: Recipe, facts: Facts) -> ArchitectureList | None:
    """Return what the engine loads, where that is a question: a person's checkpoint on stock vLLM of a known version.

    None for a recipe's own checkpoint, and for an engine that somebody changed.
    """
    engine = facts.engine
    if recipe.engine.name is not None or config.model.source is None:
        return None
    if engine is not None and engine.tree is not None:
        return None
    return architectures_of((engine.vllm if engine else NEWEST).partition("+")[0])


@functools.cache
def architectures_of(version: str, folder: Path = PACKAGE / "options") -> ArchitectureList | None:
    """Return the shipped list of a version of vLLM; None when there is none that can be read."""
    try:
        return record_of(ArchitectureList, (folder / f"vllm-{version}-architectures.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
