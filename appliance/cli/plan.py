"""`vllm-serve plan`: the command that would start vLLM."""

import shlex
from pathlib import Path

import click

from appliance.cli.option import config_option
from appliance.core.codec import json_of, record_of
from appliance.core.facts import Facts
from appliance.core.inquiry import inquiry_of
from appliance.core.phase import ExitStatus
from appliance.core.plan import Plan
from appliance.host.gather import gather
from appliance.service.preparation import prospect_of, read_config
from appliance.service.share import SHARE, chosen_recipe


@click.command()
@config_option
@click.option(
    "--facts", "facts_file", type=click.Path(path_type=Path, exists=True), help="Use a saved `vllm-serve facts --json`."
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(config_file: Path, facts_file: Path | None, as_json: bool) -> int:
    """Show the command that starts vLLM, with the origin of each setting; start nothing."""
    config = read_config(config_file)
    recipe = chosen_recipe(config)
    facts = _saved(facts_file) if facts_file else gather(Path("/"), inquiry_of(config, recipe, str(SHARE)))
    prospect = prospect_of(config, recipe, facts)
    for finding in prospect.findings:
        click.echo(f"{finding.severity}: {finding}", err=True)
    if prospect.plan is None:
        return ExitStatus.CONFIGURATION
    click.echo(json_of(prospect.plan) if as_json else "\n".join(_lines(prospect.plan)))
    return ExitStatus.OK


def _saved(file: Path) -> Facts:
    try:
        return record_of(Facts, file.read_text())
    except ValueError as error:
        raise click.UsageError(f"{file}: {error}") from None


def _lines(plan: Plan) -> list[str]:
    origins = [f"# {setting.name}: {setting.origin}" for setting in plan.settings]
    origins += [f"# {variable.name}: {variable.origin}" for variable in plan.env]
    unset = [f"-u {name}" for name in plan.unset]
    words = ["env", *unset, *(f"{v.name}={shlex.quote(v.value)}" for v in plan.env), *map(shlex.quote, plan.argv)]
    return [*origins, " \\\n  ".join(words)]
