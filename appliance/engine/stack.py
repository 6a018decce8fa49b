"""Where every Python process of the engine stands, without a debugger.

With PYTHONFAULTHANDLER=1 in its environment, SIGABRT makes a Python process write the stacks of all its threads to the
engine's output, and die. vLLM 0.32 leaves that handler alone, from the first import on. (py-spy 0.4.3, which no
distribution has, can't stop a process in the unit's sandbox, which refuses ptrace; its --nonblocking works there.)
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

from appliance.core.activity import TRACKER, Member
from appliance.core.record import record

VARIABLE = ("PYTHONFAULTHANDLER", "1")
"""What the engine must be launched with."""

SECONDS = 3.0
"""For one process to write its stacks and die: EngineCore with 48 threads takes 0.04 s, one in state D for ever."""

ALTOGETHER = 10.0

BLINDLY = 0.2
"""Seconds for a process whose death can't be waited for."""

MARK = "vllm-serve: the stacks of "
"""Begins the line that says whose stacks follow."""

CAUGHT = re.compile(r"^SigCgt:\s*([0-9a-f]+)$", re.MULTILINE)
ABORT = 1 << (signal.SIGABRT - 1)
STATES = {"R": "running", "S": "sleeping", "D": "waiting for a device", "T": "stopped", "t": "traced", "Z": "dead"}

LONGEST_REPORT = 60
"""Lines."""

MOST_FRAMES = 14
"""Of one thread: what it does, and on whose behalf."""


async def dump(members: Iterable[Member], root: Path = Path("/")) -> tuple[str, ...]:
    """Have every process that can write its stacks, which ends it; return a line about each of the engine's.

    All are stopped first, so that none of them reacts to the death of another or writes into its lines; the youngest
    goes first, the API server last. The stacks are in the output of the engine when this returns, or on their way.
    """
    living = [member for member in members if member.name != TRACKER and member.state != "Z"]
    order = sorted(living, key=lambda member: (member.started, member.pid), reverse=True)
    left = [member for member in order if _catches(root, member.pid)]
    for member in left:
        _send(member.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(ALTOGETHER):
            while left:
                await _told(root, left[0])
                left.pop(0)
    except TimeoutError:
        pass
    finally:
        for member in left:
            _send(member.pid, signal.SIGCONT)
    return tuple(standing(member) for member in order)


def standing(member: Member) -> str:
    """Return what the kernel says of a process, as it was seen.

    >>> standing(Member(pid=7, started=0, name="VLLM::Worker", state="D", cpu=1, wchan="folio_wait_bit"))
    'VLLM::Worker (pid 7), waiting for a device in folio_wait_bit'
    """
    place = f" in {member.wchan}" if member.wchan else ""
    return f"{member.name} (pid {member.pid}), {STATES.get(member.state, member.state)}{place}"


async def _told(root: Path, member: Member) -> None:
    """Have one process write its stacks, and wait until it is dead or has had its time."""
    _mark(root, member)
    try:
        pidfd = os.pidfd_open(member.pid)
    except OSError:
        _abort(member.pid)
        await asyncio.sleep(BLINDLY)
        return
    loop, dead = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, dead.set)
    try:
        _abort(member.pid)
        async with asyncio.timeout(SECONDS):
            await dead.wait()
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _abort(pid: int) -> None:
    """Have a stopped process take SIGABRT before anything else."""
    _send(pid, signal.SIGABRT)
    _send(pid, signal.SIGCONT)


def _mark(root: Path, member: Member) -> None:
    """Write into its output whose stacks follow, without waiting for room in the pipe, which we ourselves empty."""
    with contextlib.suppress(OSError):
        output = os.open(root / f"proc/{member.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_APPEND | os.O_NOCTTY)
        try:
            os.write(output, f"\n{MARK}{standing(member)}\n".encode())
        finally:
            os.close(output)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _catches(root: Path, pid: int) -> bool:
    """Tell whether SIGABRT does more than kill it: not before Python has begun, and not in what is no Python."""
    found = CAUGHT.search(_text(root / f"proc/{pid}/status"))
    return bool(found and int(found[1], 16) & ABORT)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+(?: \[.*\])? \(most recent call first\):")
FRAME = re.compile(r'^ +File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')
FATAL = re.compile(r"^Fatal Python error: (?P<what>.*)$")
NOISE = re.compile(
    r"^<frozen importlib|^multiprocessing/(?:spawn|process)\.py|^contextlib\.py"
    r"|^torch/nn/modules/module\.py|^vllm/tracing/otel\.py"
)
"""Frames that only call the next one."""

PACKAGE = re.compile(r"^.*/(?:site-packages|dist-packages|lib/python3\.\d+)/")
OUTERMOST = "<module>"


@record
class Stack:
    """One process, and where its main thread stood."""

    process: str
    frames: tuple[str, ...] = ()
    """The innermost first."""


def stacks_in(lines: Iterable[str]) -> tuple[str, ...]:
    """Return a report of the stacks in the engine's output, of at most LONGEST_REPORT lines; () where there is none.

    It has each process with the innermost frames of its main thread; those that stand at the same place, as the
    workers of one model do, stand there once.
    """
    together: dict[tuple[str, ...], list[str]] = {}
    for stack in _stacks(lines):
        together.setdefault(stack.frames, []).append(stack.process)
    report = [line for frames, processes in together.items() for line in (*processes, *_shown(frames))]
    if len(report) <= LONGEST_REPORT:
        return tuple(report)
    left = len(report) - LONGEST_REPORT + 1
    return (*report[: LONGEST_REPORT - 1], f"... and {left} lines more, in the engine's output")


def _shown(frames: tuple[str, ...]) -> Iterator[str]:
    """Yield the frames that say something; the innermost always does."""
    telling = [frame for place, frame in enumerate(frames) if not place or not NOISE.match(frame)]
    yield from (f"    {frame}" for frame in telling[:MOST_FRAMES] or ["no stack was written"])
    if len(telling) > MOST_FRAMES:
        yield f"    ... and {len(telling) - MOST_FRAMES} frames further out"


def _stacks(lines: Iterable[str]) -> Iterator[Stack]:
    """Yield the processes in the order in which they wrote."""
    process, threads = "", list[list[str]]()
    for line in lines:
        fatal, frame = FATAL.match(line), FRAME.match(line)
        if line.startswith(MARK) or (fatal and (threads or not process)):
            if process:
                yield Stack(process=process, frames=_main(threads))
            died = f"a process that died of: {fatal['what']}" if fatal else ""
            process, threads = died or line.removeprefix(MARK), []
        elif process and THREAD.match(line):
            threads.append([])
        elif threads and frame:
            threads[-1].append(_placed(frame))
    if process:
        yield Stack(process=process, frames=_main(threads))


def _placed(frame: re.Match[str]) -> str:
    return f"{PACKAGE.sub('', frame['file'])}:{frame['line']} {frame['function']}"


def _main(threads: list[list[str]]) -> tuple[str, ...]:
    """Return the frames of the main thread: the one that a module began, else the last one, for it is the oldest."""
    began = [thread for thread in threads if thread and thread[-1].endswith(f" {OUTERMOST}")]
    return tuple((began or threads)[-1]) if threads else ()
