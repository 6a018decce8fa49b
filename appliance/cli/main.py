"""The command `vllm-serve`; each verb is a module that is imported when it is used."""

import importlib
import os
import sys

import click

from appliance import __version__
from appliance.core.phase import ExitStatus
from appliance.core.problem import RefusedError

SUMMARIES = {
    "checkpoint": "Compute a model's fingerprint.",
    "config": "Check or show a configuration.",
    "engine": "Install, list, choose and remove engines.",
    "explain": "Show why the last start failed or the engine was lost.",
    "facts": "Show what vllm-serve sees of this machine.",
    "import-env": "Turn another script's environment file into a configuration.",
    "init": "Write a machine's first configuration.",
    "plan": "Show the command that starts vLLM.",
    "recipes": "List and show the recipes.",
    "reload": "Apply the configuration to the running service.",
    "selftest": "Ask a running model its questions and judge the answers.",
    "serve": "Run the service; systemd does this.",
    "status": "Show what the service is doing.",
}

VERBS = tuple(SUMMARIES)


class Verbs(click.MultiCommand):
    """Finds a verb's command in the module of its name."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the help."""
        return list(VERBS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb."""
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"appliance.cli.{cmd_name.replace('-', '')}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, SUMMARIES[verb]) for verb in VERBS])


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vllm-serve")
def command() -> None:
    """Serve one language model with vLLM under systemd."""


def main() -> None:
    """Run the command and exit with its status."""
    try:
        status = command.main(prog_name="vllm-serve", standalone_mode=False)
    except RefusedError as error:
        click.echo(str(error), err=True)
        status = ExitStatus.CONFIGURATION
    except click.exceptions.Abort:
        status = 130
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(int(status or 0))


if __name__ == "__main__":
    main()
