"""`vllm-serve checkpoint`: what can be known of a model's files without serving them."""

import errno
import json
import sys
from pathlib import Path

import click

from appliance.cli.option import config_option
from appliance.core.codec import json_of
from appliance.core.fingerprint import PASSAGES, Reference, passages_of
from appliance.core.manifest import CURRENT
from appliance.core.phase import ExitStatus
from appliance.core.problem import RefusedError
from appliance.engine.fingerprint import NoFingerprintError, computed
from appliance.service.configfile import read_config
from appliance.service.textfile import label, problem_with, text_at, write_text


@click.group()
def command() -> None:
    """Look at a checkpoint without serving it."""


@command.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="Write the fingerprint to this file, not to stdout.")
@click.option(
    "--passages", "passages_file", type=click.Path(path_type=Path), help="Ask about the texts of this TOML file too."
)
@click.option("--engine", "identity", metavar="ID", help="The engine whose transformers computes; see `engine list`.")
@config_option
def fingerprint(
    path: Path, output: Path | None, passages_file: Path | None, identity: str | None, config_file: Path
) -> int:
    """Compute what a sound model makes of fixed, unlikely texts, with transformers on the CPU, and write it as JSON.

    The self-test compares what vLLM serves with it. A layer at a time is in memory, so that a model
    larger than memory works. Ends with 75 where memory or space was short, with 78 where transformers does
    not know the model or can't read its weights.
    """
    config = read_config(config_file)
    more = passages_of(text_at(passages_file), label(passages_file)) if passages_file else ()
    engine = Path(config.paths.engines) / (identity or config.engine.use or CURRENT)
    _refuse_unwritable(output)
    try:
        found = computed(engine, path, (*PASSAGES, *more))
    except NoFingerprintError as error:
        click.echo(f"no fingerprint of {label(path)}: {error}", err=True)
        return error.status
    try:
        _write(found.reference, output)
    except OSError as error:
        click.echo(f"the fingerprint can't be written: {error.strerror}", err=True)
        return ExitStatus.TRY_LATER if error.errno in (errno.ENOSPC, errno.EDQUOT) else ExitStatus.CONFIGURATION
    tokens = sum(len(passage.logprobs) for passage in found.reference.passages)
    nats = -sum(sum(passage.logprobs) for passage in found.reference.passages) / tokens
    memory = f"{_mib(found.most)} of {_mib(found.whole)} MiB of weights in memory at once"
    click.echo(f"{tokens} tokens, {nats:.2f} nats a token; {memory}", err=True)
    return ExitStatus.OK


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f}"


def _refuse_unwritable(output: Path | None) -> None:
    """Refuse a place where no file can be put, before hours go into what it would hold."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise RefusedError([problem_with(output, f"can't be written: {label(output.parent)} is no folder")])
    if output.exists() and not output.is_file():
        raise RefusedError([problem_with(output, "is no plain file")])


def _write(reference: Reference, output: Path | None) -> None:
    """Write a fingerprint, a whole file or none. Raises OSError and RefusedError."""
    text = text_of(reference)
    if output is None:
        click.echo(text, nl=False)
        sys.stdout.flush()
        return
    try:
        write_text(output, text, replace=True)
    except RefusedError as refused:
        if isinstance(refused.__context__, OSError):  # want of space is worth another try
            raise refused.__context__ from None
        raise


def text_of(reference: Reference) -> str:
    """Return a fingerprint as its file holds it: JSON, a passage a line."""
    table = json.loads(json_of(reference))
    passages = ",\n".join(json.dumps(passage, ensure_ascii=False) for passage in table.pop("passages"))
    return json.dumps(table, ensure_ascii=False)[:-1] + f', "passages": [\n{passages}\n]}}\n'
