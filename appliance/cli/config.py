"""`vllm-serve config`: looking at a configuration without starting anything."""

from pathlib import Path

import click

from appliance.cli.option import CONFIG
from appliance.service.preparation import read_config
from appliance.service.share import chosen_recipe


@click.group()
def command() -> None:
    """Check a configuration."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=CONFIG)
def check(file: Path) -> None:
    """Read FILE and report every problem, as file:line: key: what is wrong; what to do."""
    recipe = chosen_recipe(read_config(file))
    click.echo(f"{file}: good; recipe {recipe.id}")
