"""The files that come with the program."""

from pathlib import Path

import appliance
from appliance.core.config import Config
from appliance.core.problem import Problem, RefusedError, did_you_mean, place_of
from appliance.core.recipe import Recipe, recipe_of
from appliance.service.textfile import text_at

PACKAGE = Path(appliance.__file__).parent

SHARE = PACKAGE.parent
"""/usr/share/vllm-serve, or a source tree."""


OWN_RECIPES = Path("/etc/vllm-serve/recipes")
"""Where a person's recipes lie; one with the id of the package's takes its place."""


def recipe_files(own: Path = OWN_RECIPES) -> dict[str, Path]:
    """Return the recipes by id, which is the path below recipes/ without its ending."""
    files = {}
    for folder in (PACKAGE / "recipes", own):
        files.update({str(file.relative_to(folder).with_suffix("")): file for file in sorted(folder.rglob("*.toml"))})
    return files


def recipe_at(file: Path, share: str = str(SHARE)) -> Recipe:
    """Read one recipe. Raises RefusedError with every problem, also when it can't be read at all."""
    recipe = recipe_of(text_at(file), str(file), share)
    if not file.with_suffix("").as_posix().endswith(f"/{recipe.id}"):
        what = f'found "{recipe.id}", wants the path of the file below its folder of recipes'
        raise RefusedError([Problem(file=str(file), line=None, key="id", what=what)])
    return recipe


def chosen_recipe(config: Config, share: str = str(SHARE)) -> Recipe:
    """Return the recipe that a configuration names. Raises RefusedError when there is none of that name."""
    files = recipe_files()
    if config.recipe not in files:
        file, line = place_of(config.recipe_origin)
        problem = Problem(
            file=file,
            line=line,
            key="recipe",
            what=f'there is no recipe "{config.recipe}"',
            hint=did_you_mean(config.recipe, files),
        )
        raise RefusedError([problem])
    return recipe_at(files[config.recipe], share)
