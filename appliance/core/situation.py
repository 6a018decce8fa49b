"""What a check looks at: everything that is known before the engine starts."""

from appliance.core.architecture import ArchitectureList
from appliance.core.config import Config
from appliance.core.facts import Facts
from appliance.core.plan import Plan
from appliance.core.recipe import Recipe
from appliance.core.record import record


@record
class Situation:
    """One attempt to start."""

    config: Config
    recipe: Recipe
    facts: Facts
    plan: Plan | None = None
    architectures: ArchitectureList | None = None
    """What the engine loads; None where nobody knows, or the recipe does."""
