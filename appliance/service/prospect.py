"""What comes of a configuration on a machine: the plan, and what the checks make of it."""

from appliance.core import checks
from appliance.core.config import Config
from appliance.core.facts import Facts
from appliance.core.finding import Finding
from appliance.core.option import OptionList
from appliance.core.plan import Plan, build
from appliance.core.problem import RefusedError
from appliance.core.recipe import Recipe
from appliance.core.record import record
from appliance.core.situation import Situation
from appliance.core.suitability import foreign, mistaken, spelled_out
from appliance.engine.optionlist import options_of
from appliance.service.architectures import architectures_for


@record
class Prospect:
    """What the checks made of an attempt."""

    plan: Plan
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What stands against starting it."""
        return checks.errors(self.findings)


def prospect_of(config: Config, recipe: Recipe, facts: Facts) -> Prospect:
    """Build the plan and run the checks. Raises RefusedError with everything that makes a plan impossible."""
    options = options_for(facts)
    if problems := mistaken(config, recipe, options):
        raise RefusedError(problems)
    plan = build(spelled_out(config, options), recipe, facts)
    if facts.engine is not None and (problems := foreign(plan, config, recipe, options)):
        raise RefusedError(problems)
    known = architectures_for(config, recipe, facts)
    situation = Situation(config=config, recipe=recipe, facts=facts, plan=plan, architectures=known)
    return Prospect(plan=plan, findings=checks.run(situation))


def options_for(facts: Facts) -> OptionList:
    """Return what the engine takes: its own list where it has one, else the shipped one of its version."""
    if facts.engine is None:
        return options_of(None, None)
    return facts.engine.options or options_of(None, facts.engine.vllm)
