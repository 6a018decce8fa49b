"""`vllm-serve selftest`: ask a running model, judge its answers, accept it."""

import asyncio
import dataclasses
import datetime as dt
import json
import math
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from appliance.cli.examinee import Examinee, ours, ours_accepted, theirs
from appliance.cli.option import CONFIG, config_option, runtime_option, view_of
from appliance.core.phase import ExitStatus, Phase
from appliance.core.problem import did_you_mean
from appliance.core.reply import ReplyError, Trouble, shortened
from appliance.core.status import Status
from appliance.selftest.baseline import UnrecordableError, taken
from appliance.selftest.examination import Examination, examined, outcome_of
from appliance.selftest.talk import Talk
from appliance.selftest.task import found_task
from appliance.selftest.verdict import Outcome, Verdict
from appliance.service.selftest import forget, keep
from appliance.service.statusfile import is_alive

RECORDING = 2
"""Budgets that a recording may take: it asks for everything two or three times."""

WIDE = 480
"""Characters of a line that nobody looks at; every verdict has one."""

WRONG = 1
STATUSES = {Outcome.RIGHT: ExitStatus.OK, Outcome.WRONG: WRONG, Outcome.UNKNOWN: ExitStatus.TRY_LATER}
MARKS = {Outcome.RIGHT: "green", Outcome.WRONG: "red", Outcome.UNKNOWN: "yellow", Outcome.SKIPPED: "dim"}


@click.command()
@config_option
@runtime_option
@click.option("--base", help="Ask the server at this address, http://HOST:PORT, instead of this machine's.")
@click.option("--model", help="The name to ask for; without it, the first that the server serves.")
@click.option("--only", multiple=True, metavar="NAME", help="Ask only this question; may be given several times.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option("--record", is_flag=True, help="Accept the model: keep its answers, for later starts to be held against.")
@click.option("--forget", "forgets", is_flag=True, help="Forget what was accepted of this model, and ask nothing.")
@click.pass_context
def command(context: click.Context, **options: Any) -> None:
    """Ask a running model the questions of its self-test.

    Exits with 0 when its answers are right, 1 when one is wrong, 75 when that could not be told. OPENAI_API_KEY is
    the key for --base; that of this machine's server is known from its configuration.
    """
    if options["record"] and (options["only"] or options["forgets"]):
        raise click.UsageError("--record asks every question: leave out --only and --forget")
    context.exit(asyncio.run(_run(options)))


async def _run(options: dict[str, Any]) -> int:
    base, file = options["base"], options["config_file"]
    if options["forgets"] and base is None:
        return _forget(*ours_accepted(file))
    view = view_of(options["runtime"]) if base is None else None
    if options["record"] and view and is_alive(view):
        _refuse_unfit(view, options["model"])
    try:
        model = options["model"]
        examinee = ours(file, view, model) if base is None else await theirs(base, model, _existing(file))
    except ReplyError as error:
        hint = "; OPENAI_API_KEY is sent as its key" if error.trouble is Trouble.LOCKED else ""
        click.echo(f"no answer from {base}: {error}{hint}", err=True)
        return ExitStatus.TRY_LATER
    if examinee is None:
        click.echo("the service has no running engine; start it, or name another server with --base", err=True)
        return ExitStatus.TRY_LATER
    if options["forgets"]:
        return _forget(examinee.baselines, examinee.identity.source)
    examination = _examination(examinee, options["only"], with_baseline=not options["record"])
    verdicts = await _verdicts(examination, examinee, quiet=options["as_json"])
    outcome = outcome_of(verdicts)
    click.echo(_line(outcome, verdicts)) if options["as_json"] else _show(verdicts)
    return await _accepted(examinee, outcome, view) if options["record"] else STATUSES[outcome]


def _refuse_unfit(view: Status, model: str | None) -> None:
    """Refuse to record what this machine's service does not stand for."""
    if view.phase not in (Phase.SERVING, Phase.HOLDING):
        raise click.UsageError(f"--record wants an engine that serves, or is held; this one is {view.phase}")
    if model not in (None, view.model):
        raise click.UsageError(f"--record keeps the answers of {view.model}, to which later starts are held")


async def _accepted(examinee: Examinee, outcome: Outcome, view: Status | None) -> int:
    """Record the answers of a model that is right; a service that holds it asks again."""
    if outcome is not Outcome.RIGHT:
        click.echo(f"not recorded: the self-test is {outcome}", err=True)
        return STATUSES[outcome]
    status = await _record(examinee)
    if status == 0 and view and (view.phase == Phase.HOLDING or view.wrong) and is_alive(view):
        os.kill(view.supervisor.pid, signal.SIGUSR1)
        click.echo("the service asks its self-test again", err=True)
    return status


def _existing(file: Path) -> Path | None:
    return None if file == CONFIG and not file.exists() else file


def _examination(examinee: Examinee, only: Sequence[str], *, with_baseline: bool) -> Examination:
    questions = (*examinee.questions, *(examinee.accepted() if with_baseline else ()))
    names = [question.name for question in questions]
    for name in only:
        if name not in names:
            raise click.UsageError(f"there is no question {name}; {did_you_mean(name, names)}")
    # Who asks for a question by its name wants its verdict, though it stands against nothing.
    chosen = tuple(dataclasses.replace(question, gate=True) for question in questions if question.name in only)
    chosen = chosen or questions
    return Examination(model=examinee.model, questions=chosen, budget=examinee.budget)


async def _verdicts(examination: Examination, examinee: Examinee, *, quiet: bool) -> list[Verdict]:
    verdicts = []
    async for verdict in examined(examination, examinee.client):
        verdicts.append(verdict)
        if not quiet and sys.stderr.isatty():
            click.echo(f"{len(verdicts)} of {len(examination.questions)}: {verdict.question.name}", err=True)
    return verdicts


async def _record(examinee: Examinee) -> int:
    talk = Talk(server=examinee.client, model=examinee.model, seconds=examinee.budget)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    seconds = RECORDING * examinee.budget
    try:
        async with asyncio.timeout(seconds):
            task = (await found_task(talk)).task
            baseline = await taken(talk, task, examinee.identity, now)
        file = keep(baseline, examinee.baselines)
    except TimeoutError:
        click.echo(f"not recorded: no end after {seconds:g} s, twice the budget", err=True)
        return ExitStatus.TRY_LATER
    except (ReplyError, UnrecordableError) as error:
        click.echo(f"not recorded: {error}", err=True)
        return ExitStatus.TRY_LATER
    except OSError as error:
        click.echo(f"not recorded: {examinee.baselines} can't be written: {error.strerror}", err=True)
        return ExitStatus.CONFIGURATION
    click.echo(f"recorded in {file}; later starts are held against it", err=True)
    return ExitStatus.OK


def _forget(folder: Path, source: str) -> int:
    try:
        files = forget(folder, source)
    except OSError as error:
        raise click.ClickException(f"{error.filename} can't be removed: {error.strerror}") from None
    click.echo("\n".join(f"removed {file}" for file in files) or f"nothing was recorded of {source}")
    return ExitStatus.OK


def _line(outcome: Outcome, verdicts: Sequence[Verdict]) -> str:
    """Return everything as one line of JSON, whatever a server sent: half characters are spelled out."""
    table = {"outcome": outcome.value, "verdicts": [_row(verdict) for verdict in verdicts]}
    text = json.dumps(table, ensure_ascii=False, allow_nan=False)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _row(verdict: Verdict) -> dict[str, Any]:
    said = verdict.judgement
    return {
        "name": verdict.question.name,
        "judge": verdict.question.kind,
        "gate": verdict.question.gate,
        "outcome": said.outcome.value,
        "expected": said.expected,
        "found": said.found,
        "why": said.why,
        "seconds": round(verdict.seconds, 3),
        # JSON has no word for a number that is none.
        "measures": {name: number if math.isfinite(number) else None for name, number in said.measures},
        "bounds": dict(said.bounds),
    }


def _show(verdicts: Sequence[Verdict]) -> None:
    """Print the verdicts as a table; wide where nobody looks, so that nothing is cut."""
    from rich.console import Console  # noqa: PLC0415  # takes longer to import than the rest of the command
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=WIDE)
    table = Table("question", "verdict", "expected", "found", "s", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for verdict in verdicts:
        said = verdict.judgement
        word = said.outcome.value if verdict.question.gate or said.outcome is not Outcome.WRONG else "wrong (told only)"
        found = ": ".join(part for part in (said.why, said.found) if part)
        table.add_row(
            Text(verdict.question.name),
            Text(word, style=MARKS[said.outcome]),
            Text(_cut(said.expected)),
            Text(_cut(found)),
            f"{verdict.seconds:.1f}",
        )
    console.print(table)


def _cut(text: str) -> str:
    return shortened(text, 160)
