"""Options that several verbs share."""

from pathlib import Path

import click

from appliance.core.status import Status
from appliance.service.statusfile import read_status

CONFIG = Path("/etc/vllm-serve.toml")

RUNTIME = Path("/run/vllm-serve")
"""Where the service keeps its view; systemd makes the folder."""

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    default=CONFIG,
    show_default=True,
    help="The configuration file.",
)


def view_of(runtime: Path) -> Status | None:
    """Return the service's view of itself; None where there is none. Raises ClickException when it can't be read."""
    try:
        return read_status(runtime)
    except OSError as error:
        raise click.ClickException(f"{error.filename} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise click.ClickException(f"{runtime}/status.json is another version's: {error}") from None


runtime_option = click.option(
    "--runtime",
    type=click.Path(path_type=Path),
    envvar="RUNTIME_DIRECTORY",
    default=RUNTIME,
    show_default=True,
    help="Folder of status.json.",
)
