"""The files that come with the program."""

from pathlib import Path

import appliance
from appliance.core.config import Config
from appliance.core.problem import Problem, RefusedError, did_you_mean
from appliance.core.recipe import Recipe, recipe_of

PACKAGE = Path(appliance.__file__).parent

SHARE = PACKAGE.parent
"""/usr/share/vllm-serve, or a source tree."""


def recipe_files() -> dict[str, Path]:
    """Return the recipes by id, which is the path below recipes/ without its ending."""
    folder = PACKAGE / "recipes"
    return {str(file.relative_to(folder).with_suffix("")): file for file in sorted(folder.rglob("*.toml"))}


def chosen_recipe(config: Config) -> Recipe:
    """Return the recipe that a configuration names. Raises RefusedError when there is none of that name."""
    files = recipe_files()
    if config.recipe not in files:
        file, _, line = config.recipe_origin.rpartition(":")
        problem = Problem(
            file=file if line.isdigit() else config.recipe_origin,
            line=int(line) if line.isdigit() else None,
            key="recipe",
            what=f'there is no recipe "{config.recipe}"',
            hint=did_you_mean(config.recipe, files),
        )
        raise RefusedError([problem])
    return recipe_of(files[config.recipe].read_text(), str(files[config.recipe]))
