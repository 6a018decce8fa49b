"""`vllm-serve engine`: the installed vLLMs."""

import subprocess
from pathlib import Path

import click

from appliance.cli.option import config_option
from appliance.core.config import Config
from appliance.core.phase import ExitStatus
from appliance.engine import installation
from appliance.engine.install import InstallError, Recipe, alone, device_of, install
from appliance.service.configfile import read_config
from appliance.service.journal import ERROR, INFO, say
from appliance.service.notify import Notifier


@click.group()
@config_option
@click.pass_context
def command(context: click.Context, config_file: Path) -> None:
    """Install, list, choose and remove engines: each a vLLM in an environment of its own."""
    context.obj = config_file


def _config(context: click.Context) -> Config:
    return read_config(context.find_object(Path) or Path())


@command.command("install")
@click.option(
    "--if-missing", is_flag=True, help="Do nothing when an engine is in use, or [engine] auto_install is off."
)
@click.option(
    "--wheelhouse", type=click.Path(path_type=Path), help="Install from this folder of wheels, without a network."
)
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), help="What it computes on; the default is what the machine has."
)
@click.pass_context
def install_command(context: click.Context, if_missing: bool, wheelhouse: Path | None, device: str | None) -> int:
    """Make the engine of this version of vllm-serve and use it; needs root and the package index."""
    config = _config(context)
    engines = Path(config.paths.engines)
    if if_missing and not _needed(config, engines):
        return ExitStatus.OK
    notifier = Notifier()

    def tell(text: str, priority: int = INFO) -> None:
        say(text, priority)
        notifier.status(text.encode("ascii", "replace").decode())

    try:
        install(engines, Recipe(device=device or device_of(Path("/")), wheelhouse=wheelhouse), tell)
    except (InstallError, OSError, subprocess.SubprocessError) as error:
        tell(f"no engine was installed: {error}", ERROR)
        return ExitStatus.TRY_LATER
    return ExitStatus.OK


def _needed(config: Config, engines: Path) -> bool:
    wanted = config.engine.use or installation.in_use(engines)
    if any(manifest.id == wanted for manifest in installation.installed(engines)):
        say(f"engine {wanted} is installed")
        return False
    if config.engine.use or not config.engine.auto_install:
        say("no engine is installed, and the configuration wants none installed by itself")
        return False
    return True


@command.command("list")
@click.pass_context
def list_command(context: click.Context) -> None:
    """List the installed engines; a star marks the one in use."""
    engines = Path(_config(context).paths.engines)
    used = installation.in_use(engines)
    for manifest in installation.installed(engines):
        mark = "*" if manifest.id == used else " "
        click.echo(f"{mark} {manifest.id}  vllm {manifest.vllm}, torch {manifest.torch}, python {manifest.python}")


@command.command("use")
@click.argument("identity", metavar="ID")
@click.pass_context
def use_command(context: click.Context, identity: str) -> None:
    """Start ID from the next start or reload on."""
    try:
        installation.use(Path(_config(context).paths.engines), identity)
    except (LookupError, OSError) as error:
        raise click.ClickException(str(error)) from None


@command.command("remove")
@click.argument("identity", metavar="ID")
@click.pass_context
def remove_command(context: click.Context, identity: str) -> None:
    """Delete ID, unless it is in use."""
    config = _config(context)
    engines = Path(config.paths.engines)
    if config.engine.use == identity:
        raise click.ClickException(f"engine {identity} is the one that [engine] use names")
    try:
        with alone(engines):
            installation.remove(engines, identity)
    except (LookupError, InstallError, OSError) as error:
        raise click.ClickException(str(error)) from None
