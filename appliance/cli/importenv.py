"""`vllm-serve import-env`: the configuration that an environment file of another script comes to."""

from pathlib import Path

import click

from appliance.core.document import LARGEST_FILE
from appliance.core.envfile import Environment, environment_of
from appliance.core.imported import SCRIPTS, imported
from appliance.core.problem import did_you_mean
from appliance.service.textfile import bounded

ARGUMENTS = "arguments"


class WithArguments(click.Command):
    """A command whose words after -- are kept apart, also where FILE is left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words after the first -- away before click reads the rest."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[ARGUMENTS] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the words of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS...]"]


@click.command(cls=WithArguments)
@click.argument("recipe")
@click.argument("file", required=False)
@click.pass_context
def command(context: click.Context, recipe: str, file: str | None) -> None:
    """Print the vllm-serve.toml that says what FILE, NAME=VALUE a line, said to the script that RECIPE replaces.

    FILE may be - for the standard input, and is empty when left out. ARGUMENTS are those of the script.
    """
    if recipe not in SCRIPTS:
        raise click.UsageError(f"no script is known for {recipe}; {did_you_mean(recipe, SCRIPTS)}")
    click.echo(imported(recipe, _environment(file), context.meta[ARGUMENTS]).encode(), nl=False)


def _environment(file: str | None) -> Environment:
    if file is None:
        return Environment(file="")
    if file == "-":
        return environment_of(click.get_binary_stream("stdin").read(LARGEST_FILE + 1), "standard input")
    return environment_of(bounded(Path(file), LARGEST_FILE), file)
