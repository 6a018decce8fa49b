"""`vllm-serve plan`: the command that would start vLLM."""

import json
import shlex
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from appliance.cli.option import RUNTIME, config_option
from appliance.core.codec import record_of
from appliance.core.config import Config
from appliance.core.facts import Facts
from appliance.core.inquiry import inquiry_of
from appliance.core.plan import Plan
from appliance.core.problem import RefusedError
from appliance.core.resolution import model_folder
from appliance.core.secret import arguments_without_secrets, without_secrets
from appliance.core.setting import plain
from appliance.host.gather import gather
from appliance.service.configfile import read_config
from appliance.service.prospect import Prospect, prospect_of
from appliance.service.share import chosen_recipe
from appliance.service.statusfile import is_alive, read_status
from appliance.service.textfile import bounded, problem_with

MOST_FACTS = 1 << 24
"""Bytes; a large machine comes to some hundred thousand."""


@click.command()
@config_option
@click.option(
    "--facts", "facts_file", type=click.Path(path_type=Path, exists=True), help="Use a saved `vllm-serve facts --json`."
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON: argv, env, unset, prefix, settings.")
@click.option("--shell", is_flag=True, help="Print a command to paste into bash; secrets are in it.")
def command(config_file: Path, facts_file: Path | None, as_json: bool, shell: bool) -> None:
    """Show the command that starts vLLM, with the origin of each setting; start nothing.

    What would refuse a start on this machine now is told on the error output; only what makes a plan
    impossible is a failure.
    """
    config = read_config(config_file)
    recipe = chosen_recipe(config)
    saved = _saved(facts_file).asked_for(model_folder(config, recipe)) if facts_file else None
    facts = saved or gather(Path("/"), inquiry_of(config, recipe, _port_of_ours()))
    prospect = prospect_of(config, recipe, facts)
    for note in _notes(prospect):
        click.echo(note, err=True)
    plan = prospect.plan
    if as_json or shell:
        click.echo(json.dumps(_table(plan)) if as_json else _command(plan))
    else:
        click.echo("\n".join(_lines(plan, config)).replace(recipe.file, f"recipe {recipe.id}"))


def _port_of_ours() -> int | None:
    """Return the port of the service's running engine; None when none runs."""
    try:
        status = read_status(RUNTIME)
    except (OSError, ValueError):
        return None
    return urllib.parse.urlsplit(status.base_url).port if status and status.base_url and is_alive(status) else None


def _saved(file: Path) -> Facts:
    try:
        return record_of(Facts, bounded(file, MOST_FACTS).decode())
    except RecursionError:
        what = "nested too deeply"
    except ValueError as error:
        what = str(error)
    raise RefusedError([problem_with(file, what, "it wants what `vllm-serve facts --json` prints")])


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
    starts = [name.rstrip("*") for name in plan.unset if "*" in name]
    unset += [f"$(compgen -e {start} | sed 's/^/-u /')" for start in starts]
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


def _lines(plan: Plan, config: Config) -> Iterator[str]:
    """Yield the plan as a person reads it: a value a line, with where it comes from."""
    yield "# variables"
    for variable in plan.env:
        value = shlex.quote(str(without_secrets(variable.value, variable.name)))
        yield _noted(f"{variable.name}={value}", variable.origin)
    yield f"# not inherited: {' '.join(plan.unset)}"
    own = {"host": "[api] host", "port": "[api] port", "served_model_name": "[model] served_model_name"}
    origins = {name: dict(config.origins).get(key, "") for name, key in own.items()}
    origins.update({setting.name: setting.origin for setting in plan.settings if setting.name not in own})
    words = tuple(arguments_without_secrets(plan.argv))
    extra = len(config.engine.extra_args)
    for line in _by_flag((*plan.prefix, *words[: len(words) - extra])):
        name = line.split()[0].removeprefix("--").removeprefix("no-").replace("-", "_")
        yield _noted(line, origins.get(name, ""))
    given = words[len(words) - extra :]
    for line in _by_flag(given) if given else ():
        yield _noted(line, config.origin("[engine] extra_args"))
    for folder in plan.folders:
        yield f"# folder {folder.path}{', emptied before each launch' if folder.fresh else ''}"


def _noted(text: str, origin: str) -> str:
    return f"{text:<56}  # {origin}" if origin else text
