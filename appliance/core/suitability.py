"""Whether what a configuration and a recipe ask of vLLM is what the installed vLLM takes."""

import dataclasses

from appliance.core.config import Config
from appliance.core.extent import out_of_extent
from appliance.core.fit import Additions, Wanted, canonical, misfits
from appliance.core.kind import UnfitError
from appliance.core.option import OptionList
from appliance.core.plan import Plan, mistakes
from appliance.core.problem import Problem
from appliance.core.recipe import PLACED, Recipe, RecipeEngine, Template
from appliance.core.setting import Setting, Variable, setting_value
from appliance.core.template import ABSENT, formulas_in, names_in


def unfit(config: Config, recipe: Recipe | None, options: OptionList) -> tuple[Problem, ...]:
    """Return what a person asks of vLLM that it does not take; a recipe's own engine may take more."""
    wanted = Wanted(
        settings=config.vllm,
        extra_args=config.engine.extra_args,
        extra_args_origin=config.origin("[engine] extra_args"),
        variables=config.env,
    )
    own = recipe.engine if recipe else RecipeEngine()
    return misfits(wanted, options, Additions(flags=own.flags, variables=own.variables))


def recipe_faults(recipe: Recipe, options: OptionList) -> tuple[Problem, ...]:
    """Return what a recipe sets and neither vLLM nor the recipe's own engine takes; formulas are judged by the plan."""
    templates = (*recipe.vllm, *(template for row in recipe.rows for template in row.vllm))
    variables = (*recipe.env, *(template for row in recipe.rows for template in row.env))
    wanted = Wanted(
        settings=tuple(filter(None, map(_plain_setting, templates))),
        variables=tuple(Variable(name=entry.name, value="", origin=entry.origin) for entry in variables),
    )
    return misfits(wanted, options, Additions(flags=recipe.engine.flags, variables=recipe.engine.variables))


def _plain_setting(template: Template) -> Setting | None:
    """Return a flag of a recipe whose value depends on nothing; None for others."""
    raw = template.raw
    if raw == ABSENT or names_in(raw) or formulas_in(raw) or template.name in PLACED:
        return None
    try:
        return Setting(name=template.name, value=setting_value(raw), origin=template.origin)
    except UnfitError:
        return None


def mistaken(config: Config, recipe: Recipe, options: OptionList) -> tuple[Problem, ...]:
    """Return everything that is wrong in a configuration, whatever the machine is, in the order of its lines."""
    own, named = unfit(config, recipe, options), spelled_out(config, options)
    keys = {problem.key for problem in own}
    own += tuple(problem for problem in out_of_extent(named.vllm) if problem.key not in keys)
    keys = {problem.key for problem in own}
    pairs = zip(named.vllm, config.vllm, strict=True)
    broken = frozenset(full.name for full, raw in pairs if keys & {f"[vllm] {raw.name}", f"[vllm] {full.name}"})
    order = {file: number for number, file in enumerate(config.files)}
    if faults := recipe_faults(recipe, options):
        return (*own, *faults)
    problems = (*own, *mistakes(named, recipe, broken))
    return tuple(sorted(problems, key=lambda problem: (order.get(problem.file, -1), problem.line or 0)))


def spelled_out(config: Config, options: OptionList) -> Config:
    """Return a configuration with every flag by its full name: `tp` is `tensor_parallel_size`."""
    settings = tuple(
        dataclasses.replace(setting, name=canonical(setting.name, options) or setting.name) for setting in config.vllm
    )
    return dataclasses.replace(config, vllm=settings)


def foreign(plan: Plan, config: Config, recipe: Recipe, options: OptionList) -> tuple[Problem, ...]:
    """Return what the recipe gives the engine and the engine does not take: it is then another engine's."""
    own: tuple[Setting | Variable, ...] = (*plan.settings, *plan.env)
    chosen: tuple[Setting | Variable, ...] = (*config.vllm, *config.env)
    given = {item.origin for item in chosen}
    settings = tuple(item for item in own if isinstance(item, Setting) and item.origin not in given)
    variables = tuple(item for item in own if isinstance(item, Variable) and item.origin not in given)
    found = misfits(Wanted(settings=settings, variables=variables), options)
    if not found:
        return ()
    needed = recipe.engine.name or "another version of vLLM"
    names = ", ".join(sorted({problem.key for problem in found}))
    what = f"the engine is vllm {options.vllm}, which does not take {names}"
    hint = f"recipe {recipe.id} needs the engine {needed}: install it and set [engine] use, or choose another recipe"
    return (Problem(file=config.file, line=None, key="[engine] use", what=what, hint=hint),)
