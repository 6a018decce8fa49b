"""`vllm-serve facts`: what the machine is and has."""

from pathlib import Path

import click

from appliance.cli.option import config_option
from appliance.core.codec import json_of, record_of
from appliance.core.facts import Facts
from appliance.core.inquiry import Inquiry, inquiry_of
from appliance.core.unit import shown_bytes
from appliance.host.gather import gather
from appliance.service.preparation import read_config
from appliance.service.share import SHARE, chosen_recipe


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option("--inquiry", help="What to look at, as JSON, instead of what a configuration names.")
@click.option("--root", type=click.Path(path_type=Path), default=Path("/"), help="Look below this folder.")
def command(config_file: Path, as_json: bool, inquiry: str | None, root: Path) -> None:
    """Show what vllm-serve sees of this machine: one snapshot, as each start takes it."""
    wanted = record_of(Inquiry, inquiry) if inquiry else _wanted(config_file)
    facts = gather(root, wanted)
    click.echo(json_of(facts) if as_json else "\n".join(_lines(facts)))


def _wanted(config_file: Path) -> Inquiry:
    config = read_config(config_file)
    return inquiry_of(config, chosen_recipe(config), str(SHARE))


def _lines(facts: Facts) -> list[str]:
    lines = []
    if facts.engine:
        lines.append(f"engine      {facts.engine.id}: vllm {facts.engine.vllm}, torch {facts.engine.torch}")
    if facts.checkpoint:
        weights = sum(file.bytes for file in facts.checkpoint.weights)
        lines.append(f"checkpoint  {facts.checkpoint.folder}: {facts.checkpoint.architecture}, {shown_bytes(weights)}")
    for gpu in facts.gpus or ():
        free, total = shown_bytes(gpu.memory_free), shown_bytes(gpu.memory_total)
        lines.append(f"gpu {gpu.index}       {gpu.name}: {free} of {total} free")
    if facts.memory_total is not None and facts.memory_available is not None:
        lines.append(
            f"memory      {shown_bytes(facts.memory_available)} of {shown_bytes(facts.memory_total)} available"
        )
    if facts.port:
        lines.append(f"address     {facts.port.host} port {facts.port.port}: {facts.port.fault or 'free'}")
    return [*lines, *(f"unknown     {entry.what}: {entry.reason}" for entry in facts.unread)]
