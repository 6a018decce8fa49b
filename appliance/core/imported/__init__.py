"""A vllm-serve.toml made from the environment of a script that served the same model before."""

from appliance.core.envfile import Environment
from appliance.core.imported import gx10, rtx3090x4
from appliance.core.imported.draft import Draft
from appliance.core.imported.rule import apply

SCRIPTS = {script.recipe: script for script in (rtx3090x4.SCRIPT, gx10.SCRIPT)}
"""The scripts whose environment can be read, by the recipe that serves the same model."""


def imported(recipe: str, environment: Environment, arguments: tuple[str, ...] = ()) -> str:
    """Return the text of the vllm-serve.toml that says what an environment and arguments said to a script.

    The recipe is one of SCRIPTS. Raises RefusedError with every problem.
    """
    draft = Draft(recipe, environment, arguments)
    apply(SCRIPTS[recipe], draft)
    return draft.text()
