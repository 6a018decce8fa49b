"""`vllm-serve init`: a machine's first configuration."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from appliance.cli.option import CONFIG
from appliance.core.config import config_of
from appliance.core.facts import Facts
from appliance.core.inquiry import plain_inquiry
from appliance.core.kind import UnfitError
from appliance.core.problem import RefusedError, did_you_mean
from appliance.core.sample import SHIPPED, First, first_file
from appliance.core.unit import shown_bytes
from appliance.host.gather import gather
from appliance.service.configfile import drop_ins
from appliance.service.share import recipe_files
from appliance.service.textfile import label, problem_with, text_at, write_text

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@click.command()
@click.option(
    "--model", "source", metavar="SOURCE", required=True, help="The folder that holds the model's config.json."
)
@click.option("--recipe", default="generic", show_default=True, metavar="ID", help="The settings to start from.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    default=CONFIG,
    show_default=True,
    help="The file to write; - prints it.",
)
@click.option("--force", is_flag=True, help="Replace a file that a person wrote.")
def command(source: str, recipe: str, output: Path, force: bool) -> None:
    """Write a first vllm-serve.toml for this machine and a model that lies on it."""
    if recipe not in recipe_files():
        raise click.UsageError(f'there is no recipe "{recipe}"; {did_you_mean(recipe, recipe_files())}')
    folder = _folder(source)
    printed = str(output) == "-"
    if not (printed or force):
        _refuse_to_replace(output)
    facts = gather(Path("/"), plain_inquiry())
    try:
        text = first_file(
            First(
                recipe=recipe,
                source=str(folder),
                name=folder.name,
                machine=tuple(_machine(facts)),
                gpus=len(facts.gpus or ()),
            )
        )
    except UnfitError as error:
        raise click.UsageError(f"--model {source!r}: {error}") from None
    config_of(text, str(output))
    if printed:
        click.echo(text, nl=False)
        return
    write_text(output, text, replace=force or output.exists())
    click.echo("\n".join(_next_steps(output)))


def _folder(source: str) -> Path:
    """Return the folder of a model. Raises UsageError where it is none."""
    folder = Path(source)
    if not folder.is_absolute():
        if source and folder.is_dir():
            raise click.UsageError(f"--model {source}: wants an absolute path; write {folder.resolve()}")
        if HUB_NAME.fullmatch(source):
            raise click.UsageError(f"--model {source}: downloading is not part of vllm-serve yet; give the folder")
        raise click.UsageError(f"--model {source}: wants the absolute path of a folder")
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "there is no such folder"
        raise click.UsageError(f"--model {source}: {what}; give the folder that holds config.json")
    if not (folder / "config.json").is_file():
        raise click.UsageError(f"--model {source}: holds no config.json; is it the folder of a model?")
    return folder if ".." not in folder.parts else folder.resolve()


def _refuse_to_replace(output: Path) -> None:
    """Refuse to replace what a person wrote. Raises RefusedError."""
    if not (output.exists() or output.is_symlink()):
        return
    if text_at(output) != SHIPPED:
        hint = "--force replaces it, --output FILE writes another, --output - prints"
        raise RefusedError([problem_with(output, "is there already, and was changed since it was installed", hint)])


def _machine(facts: Facts) -> Iterator[str]:
    """Yield what was measured."""
    kinds = Counter((gpu.name, gpu.memory_total) for gpu in facts.gpus or ())
    for (name, memory), count in kinds.items():
        yield f"{count} x {name}" + (f", {shown_bytes(memory)} each" if memory else "")
    if facts.gpus == ():
        yield "no GPU"
    if facts.memory_total:
        yield f"{shown_bytes(facts.memory_total)} of memory"


def _next_steps(output: Path) -> Iterator[str]:
    yield f"wrote {label(output)}"
    found, _ = drop_ins(output)
    yield from (f"note: {label(file)} is read after it" for file in found)
    if output == CONFIG:
        yield "next: vllm-serve plan, to see the command that starts vLLM"
        yield "      systemctl enable --now vllm-serve, or systemctl reload vllm-serve where it runs already"
    else:
        yield f"next: vllm-serve plan --config {label(output)}, to see the command that starts vLLM"
