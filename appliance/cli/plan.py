"""`vllm-serve plan`: the command that would start vLLM."""

import json
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from appliance.cli.option import config_option
from appliance.core.codec import record_of
from appliance.core.facts import Facts
from appliance.core.inquiry import inquiry_of
from appliance.core.plan import Plan
from appliance.core.secret import arguments_without_secrets, without_secrets
from appliance.core.setting import plain
from appliance.host.gather import gather
from appliance.service.configfile import read_config
from appliance.service.preparation import Prospect, prospect_of
from appliance.service.share import chosen_recipe


@click.command()
@config_option
@click.option(
    "--facts", "facts_file", type=click.Path(path_type=Path, exists=True), help="Use a saved `vllm-serve facts --json`."
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON: argv, env, unset, prefix, settings.")
@click.option("--shell", is_flag=True, help="Print a command that can be pasted; secrets are in it.")
def command(config_file: Path, facts_file: Path | None, as_json: bool, shell: bool) -> None:
    """Show the command that starts vLLM, with the origin of each setting; start nothing.

    What would refuse a start on this machine now is told on the error output; only what makes a plan
    impossible is a failure.
    """
    config = read_config(config_file)
    recipe = chosen_recipe(config)
    facts = _saved(facts_file) if facts_file else gather(Path("/"), inquiry_of(config, recipe))
    prospect = prospect_of(config, recipe, facts)
    for note in _notes(prospect):
        click.echo(note, err=True)
    plan = prospect.plan
    if as_json or shell:
        click.echo(json.dumps(_table(plan)) if as_json else _command(plan))
    else:
        click.echo("\n".join(_lines(plan)).replace(recipe.file, f"recipe {recipe.id}"))


def _saved(file: Path) -> Facts:
    try:
        return record_of(Facts, file.read_text())
    except (ValueError, OSError) as error:
        raise click.UsageError(f"{file}: {error}") from None


def _notes(prospect: Prospect) -> Iterator[str]:
    yield from (f"note: {note}" for note in prospect.plan.notes)
    yield from (f"{finding.severity}: {finding}" for finding in prospect.findings)


def _table(plan: Plan) -> dict[str, Any]:
    """Return the plan as programs take it: the variables as one table, everything else in order."""
    return {
        "argv": list(plan.argv),
        "env": {variable.name: variable.value for variable in plan.env},
        "unset": list(plan.unset),
        "prefix": list(plan.prefix),
        "settings": [
            {"name": setting.name, "value": plain(setting.value), "origin": setting.origin} for setting in plan.settings
        ],
        "variables": [
            {"name": variable.name, "value": variable.value, "origin": variable.origin} for variable in plan.env
        ],
        "folders": [{"path": folder.path, "fresh": folder.fresh} for folder in plan.folders],
        "notes": list(plan.notes),
    }


def _command(plan: Plan) -> str:
    """Return the launch as one shell command."""
    unset = [f"-u {name}" for name in plan.unset if "*" not in name]
    words = ["env", *unset, *(f"{v.name}={shlex.quote(v.value)}" for v in plan.env)]
    return " \\\n  ".join([*words, *map(shlex.quote, plan.prefix), *_by_flag(plan.argv)])


def _by_flag(argv: Iterable[str]) -> Iterator[str]:
    """Yield the command line with each flag and its values together."""
    line: list[str] = []
    for argument in argv:
        if argument.startswith("--") and line:
            yield " ".join(line)
            line = []
        line.append(shlex.quote(argument))
    yield " ".join(line)


def _lines(plan: Plan) -> Iterator[str]:
    """Yield the plan as a person reads it: a value a line, with where it comes from."""
    yield "# variables"
    for variable in plan.env:
        shown = shlex.quote(str(without_secrets(variable.value, variable.name)))
        yield _noted(f"{variable.name}={shown}", variable.origin)
    yield f"# not inherited: {' '.join(plan.unset)}"
    origins = {setting.name: setting.origin for setting in plan.settings}
    for line in _by_flag((*plan.prefix, *arguments_without_secrets(plan.argv))):
        name = line.split()[0].removeprefix("--").removeprefix("no-").replace("-", "_")
        yield _noted(line, origins.get(name, ""))
    for folder in plan.folders:
        yield f"# folder {folder.path}{', emptied before each launch' if folder.fresh else ''}"


def _noted(text: str, origin: str) -> str:
    return f"{text:<56}  # {origin}" if origin else text
