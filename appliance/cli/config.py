"""`vllm-serve config`: looking at a configuration without starting anything."""

from pathlib import Path

import click

from appliance.cli.option import CONFIG, config_option
from appliance.core.overview import json_overview, toml_overview
from appliance.service.configfile import checked, read_config


@click.group()
def command() -> None:
    """Check or show a configuration."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=CONFIG)
def check(file: Path) -> None:
    """Read FILE and FILE.d/*.toml and report every problem, as file:line: key: what is wrong; what to do.

    Ends with 0 when all is good, with 78 when there are problems.
    """
    config = checked(file)
    more = len(config.files) - 1
    with_more = f" with {more} drop-in{'s' if more > 1 else ''}" if more else ""
    click.echo(f"{config.file}{with_more}: good; recipe {config.recipe}")


@command.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def show(config_file: Path, as_json: bool) -> None:
    """Show every value that counts, with the file and line that sets it; what looks like a secret stays hidden.

    What the recipe adds is not in it: `vllm-serve plan` shows what vLLM gets in the end.
    """
    config = read_config(config_file)
    click.echo(json_overview(config) if as_json else toml_overview(config), nl=as_json)
