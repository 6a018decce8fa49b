"""`vllm-serve explain`: the last failure, again."""

from datetime import datetime
from pathlib import Path

import click

from appliance.cli.option import config_option
from appliance.core.codec import json_of
from appliance.core.failure import Failure, story
from appliance.service.failure import NAME, STATE, read_failure


@click.command()
@config_option
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    envvar="STATE_DIRECTORY",
    default=STATE,
    show_default=True,
    help=f"Folder of {NAME}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON; null where there is none.")
def command(config_file: Path, state: Path, as_json: bool) -> None:
    """Show the last failed start or lost engine: what, when, why, what to do about it, and the lines it was read from.

    Ends with 0, also when no failure is on record; with 1 when the record can't be read.
    """
    failure = _kept(state)
    if as_json:
        click.echo(json_of(failure) if failure else "null")
    elif failure is None:
        click.echo("no failure is on record")
    else:
        for line in story(failure):
            click.echo(line)
        if _edited_since(config_file, failure):
            click.echo(f"\n{config_file} was edited after that")


def _kept(state: Path) -> Failure | None:
    try:
        return read_failure(state)
    except PermissionError:
        raise click.ClickException(f"{state / NAME} is for root and the group vllm-serve alone") from None
    except OSError as error:
        raise click.ClickException(f"{state / NAME} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise click.ClickException(f"{state / NAME} is damaged, or another version's: {error}") from None


def _edited_since(config_file: Path, failure: Failure) -> bool:
    """Tell whether the configuration is newer than the failure; a drop-in is not looked at."""
    try:
        edited = config_file.stat().st_mtime
    except OSError:
        return False
    try:
        return edited > datetime.fromisoformat(failure.time).timestamp()
    except ValueError:
        return False
