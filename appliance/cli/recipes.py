"""`vllm-serve recipes`: which recipes there are, and what each of them knows."""

import inspect
import json
from collections.abc import Iterator

import click

from appliance.core.formula import FORMULAS
from appliance.core.knob import Knob
from appliance.core.problem import RefusedError, did_you_mean
from appliance.core.recipe import Recipe
from appliance.service.share import recipe_at, recipe_files


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the recipes: the package's, and those below /etc/vllm-serve/recipes."""
    if context.invoked_subcommand:
        return
    recipes, faults = _all()
    if as_json:
        click.echo(
            json.dumps([{"id": recipe.id, "summary": recipe.summary, "file": recipe.file} for recipe in recipes])
        )
    else:
        width = max((len(recipe.id) for recipe in recipes), default=0)
        for recipe in recipes:
            click.echo(f"{recipe.id:<{width}}  {recipe.summary}")
    if faults:
        raise RefusedError([problem for fault in faults for problem in fault.problems])


def _all() -> tuple[list[Recipe], list[RefusedError]]:
    recipes, faults = [], []
    for file in recipe_files().values():
        try:
            recipes.append(recipe_at(file))
        except RefusedError as error:
            faults.append(error)
    return recipes, faults


@command.command()
@click.argument("identity", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def show(identity: str, as_json: bool) -> None:
    """Show what ID sets, and its knobs: what each does, its default, and where the number comes from."""
    files = recipe_files()
    if identity not in files:
        raise click.UsageError(f'there is no recipe "{identity}"; {did_you_mean(identity, files)}')
    recipe = recipe_at(files[identity])
    click.echo(json.dumps(_table(recipe)) if as_json else "\n".join(_lines(recipe)))


@command.command("formulas")
def formulas_command() -> None:
    """List the formulas that a recipe can name, with what they are given."""
    for name, formula in sorted(FORMULAS.items()):
        given = ", ".join(inspect.signature(formula).parameters)
        click.echo(f"{name}({given})\n    {(inspect.getdoc(formula) or '').splitlines()[0]}")


def _table(recipe: Recipe) -> dict[str, object]:
    return {
        "id": recipe.id,
        "summary": recipe.summary,
        "file": recipe.file,
        "engine": recipe.engine.name,
        "nodes": list(recipe.cluster.allowed),
        "knobs": [
            {
                "name": knob.name,
                "kind": knob.kind,
                "default": None if knob.default is None else json.loads(knob.default),
                "choices": list(knob.choices),
                "doc": knob.doc,
                "source": knob.source,
            }
            for knob in recipe.knobs
        ],
        "vllm": {template.name: template.raw for template in recipe.vllm},
        "env": {template.name: template.raw for template in recipe.env},
        "files": [needed.path for needed, _ in recipe.files],
    }


def _lines(recipe: Recipe) -> Iterator[str]:
    yield f"{recipe.id}: {recipe.summary}"
    yield f"file     {recipe.file}"
    yield f"engine   {recipe.engine.name or 'stock vLLM'}"
    yield f"model    {recipe.model.source or 'any: set [model] source'}"
    if recipe.cluster.allowed != (1,):
        rings = f"; a ring of {', '.join(map(str, recipe.cluster.ring))}" if recipe.cluster.ring else ""
        yield f"nodes    {recipe.cluster.nodes}, or {', '.join(map(str, recipe.cluster.allowed))}{rings}"
    yield "\n[knobs]" if recipe.knobs else "\nno knobs"
    for knob in recipe.knobs:
        yield from _knob(knob)
    yield "\n[vllm]"
    yield from (f"{template.name} = {_shown(template.raw)}" for template in recipe.vllm)
    yield "\n[env]"
    yield from (f"{template.name} = {_shown(template.raw)}" for template in recipe.env)
    for row in recipe.rows:
        case = ", ".join(f"{name} = {value}" for name, value in row.when)
        yield f"\nwhen {case}:"
        for section, templates in (("knobs", row.knobs), ("vllm", row.vllm), ("env", row.env)):
            yield from (f"  [{section}] {template.name} = {_shown(template.raw)}" for template in templates)
    if recipe.files:
        yield "\nfiles"
    yield from (f"{needed.path}: {needed.doc}" for needed, _ in recipe.files)


def _knob(knob: Knob) -> Iterator[str]:
    default = "not set" if knob.default is None else _shown(json.loads(knob.default))
    choices = f", one of {', '.join(knob.choices)}" if knob.choices else ""
    yield f"{knob.name} = {default}  ({knob.kind}{choices})"
    yield f"    {knob.doc}"
    if knob.source:
        yield f"    source: {knob.source}"


def _shown(raw: object) -> str:
    """Return a value of a recipe in one line: a formula as a call."""
    if isinstance(raw, dict) and "formula" in raw:
        return f"{raw['formula']}({', '.join(map(str, raw.get('of', ())))})"
    if raw == {"absent": True}:
        return "not set"
    return json.dumps(raw, ensure_ascii=False)
