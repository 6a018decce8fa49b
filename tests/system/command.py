"""Running a program to its end, with a bound and with an error that tells what it said."""

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

Command = str | Sequence[str]
"""Text for a shell, or a program and its arguments."""

LINES_IN_ERROR = 40
SECONDS_TO_LEAVE = 5.0


class CommandError(Exception):
    """A command left with a status other than 0, or had to be ended."""

    def __init__(self, command: Command, found: str, output: str) -> None:
        """Say in FOUND what became of COMMAND, and in OUTPUT all that it wrote."""
        lines = output.rstrip().splitlines()
        tail = "\n".join(f"  | {line}" for line in lines[-LINES_IN_ERROR:])
        super().__init__(f"`{shown(command)}` {found}; its last lines:\n{tail or '  (none)'}")
        self.command = command
        self.output = output


def shown(command: Command) -> str:
    """Return the command as one would type it."""
    return command if isinstance(command, str) else shlex.join(command)


def finished(
    argv: Sequence[str], *, named: Command, timeout: float, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ARGV in a process group of its own with TEXT as its input, and return what came of it.

    Raises CommandError, about the command as NAMED, where it runs longer than TIMEOUT seconds;
    the whole group has been ended by then.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(text, timeout=timeout)
    except subprocess.TimeoutExpired:
        _end_group(process)
        raise CommandError(named, f"was ended after {timeout:g} s", _rest(process)) from None
    finally:
        if process.poll() is None:
            _end_group(process)
    return subprocess.CompletedProcess(named, process.returncode, output, errors)


def checked(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Return the result of a command that left with 0; raise CommandError for any other."""
    if result.returncode == 0:
        return result
    reason = f"left with status {result.returncode}"
    if result.returncode < 0:
        reason = f"was killed by {signal.Signals(-result.returncode).name}"
    raise CommandError(result.args, reason, result.stdout + result.stderr)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a process and the group that it leads, of which some may outlive it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_TO_LEAVE)


def _rest(process: subprocess.Popen[str]) -> str:
    """Return what an ended command wrote, unless something it left behind still holds the pipes."""
    try:
        output, errors = process.communicate(timeout=SECONDS_TO_LEAVE)
    except subprocess.TimeoutExpired:
        return "(something that the command started keeps its output open)"
    return output + errors
