"""`vllm-serve status`: the view that the service keeps of itself."""

from pathlib import Path

import click

from appliance.cli.option import runtime_option, view_of
from appliance.core.codec import json_of
from appliance.service.statusfile import is_alive


@click.command()
@runtime_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(runtime: Path, as_json: bool) -> int:
    """Show what the service is doing. Ends with 0 while it serves, else with 3, as `systemctl status` does."""
    status = view_of(runtime)
    if status is None:
        click.echo(f"no service has run here: there is no {runtime}/status.json", err=True)
        return 3
    alive = is_alive(status)
    text = status.text if alive else f"not running; its last word: {status.text}"
    click.echo(json_of(status) if as_json else text)
    return 0 if alive and status.phase == "serving" else 3
