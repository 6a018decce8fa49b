"""The way from the file to a plan: read, look at the machine, build, check."""

import asyncio
import contextlib
import sys
from pathlib import Path

from appliance.core.codec import json_of, record_of
from appliance.core.event import Event, Prepared, Refused
from appliance.core.facts import Facts
from appliance.core.inquiry import Inquiry, inquiry_of
from appliance.core.phase import ExitStatus
from appliance.core.problem import RefusedError
from appliance.service.configfile import read_config
from appliance.service.journal import ERROR, NOTICE, say
from appliance.service.prospect import Prospect, prospect_of
from appliance.service.share import SHARE, chosen_recipe

FACTS_DEADLINE = 45.0
"""Seconds; a healthy machine takes under one, a GPU that fell off its bus takes for ever."""

DEATH_DEADLINE = 2.0
"""Seconds that a killed process may take to go."""

FACTS_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(SHARE)}


async def gathered(inquiry: Inquiry, spare: set[int]) -> Facts:
    """Have a process of its own look at the machine. Raises TimeoutError, ValueError and OSError."""
    asked = ("facts", "--json", "--inquiry", json_of(inquiry))
    command = (sys.executable, "-P", "-s", "-m", "appliance.cli.main", *asked)
    process = await asyncio.create_subprocess_exec(
        *command, cwd=SHARE, env=FACTS_ENVIRONMENT, stdout=asyncio.subprocess.PIPE
    )
    spare.add(process.pid)
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), FACTS_DEADLINE)
        return record_of(Facts, printed.decode())
    finally:
        await _end(process, spare)


async def _end(process: asyncio.subprocess.Process, spare: set[int]) -> None:
    """Kill it where it still runs. One that hangs in the kernel stays marked: it is not a member of the engine."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    going = asyncio.ensure_future(process.wait())
    going.add_done_callback(lambda _: spare.discard(process.pid))
    await asyncio.wait({going}, timeout=DEATH_DEADLINE)


async def prepare(file: Path, attempt: int, held: int | None, spare: set[int]) -> Event:
    """Return what came of an attempt; every finding is told to the journal."""
    try:
        config = read_config(file)
        recipe = chosen_recipe(config)
    except RefusedError as error:
        return Refused(attempt=attempt, status=ExitStatus.CONFIGURATION, why=str(error))
    try:
        facts = await gathered(inquiry_of(config, recipe, held), spare)
    except TimeoutError:
        why = f"looking at the machine did not end within {FACTS_DEADLINE:g} s; does `nvidia-smi` answer?"
        return Refused(attempt=attempt, status=ExitStatus.TRY_LATER, why=why)
    except (ValueError, OSError) as error:
        why = f"looking at the machine went wrong, see the lines before: {error}"
        return Refused(attempt=attempt, status=ExitStatus.TRY_LATER, why=why)
    try:
        prospect = prospect_of(config, recipe, facts)
    except RefusedError as error:
        waiting_helps = all(problem.transient for problem in error.problems)
        status = ExitStatus.TRY_LATER if waiting_helps else ExitStatus.CONFIGURATION
        return Refused(attempt=attempt, status=status, why=str(error))
    return _told(attempt, prospect)


def _told(attempt: int, prospect: Prospect) -> Event:
    errors = prospect.errors
    for note in prospect.plan.notes:
        say(f"note: {note}", NOTICE)
    for finding in prospect.findings:
        if finding not in errors:
            say(f"{finding.severity}: {finding}", NOTICE)
    if not errors:
        return Prepared(attempt=attempt, plan=prospect.plan)
    for finding in errors[1:]:
        say(f"error: {finding}", ERROR)
    waiting_helps = all(finding.transient for finding in errors)
    status = ExitStatus.TRY_LATER if waiting_helps else ExitStatus.CONFIGURATION
    return Refused(attempt=attempt, status=status, why=str(errors[0]))
