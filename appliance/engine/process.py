"""The engine as a tree of processes: started in a session of its own, and gone only when its last member is."""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

import psutil

from appliance.core.plan import Plan
from appliance.engine.leftover import segments_of
from appliance.engine.line import Line, line_of, split_lines

PR_SET_CHILD_SUBREAPER = 36
CHUNK = 65536


def become_subreaper() -> None:
    """Let orphans of the engine become our children, even those that left its session."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def environment_of(plan: Plan, own: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the engine's environment: ours, less what it must not see, and what the plan sets."""
    environment = {name: value for name, value in own if not any(fnmatchcase(name, unset) for unset in plan.unset)}
    environment.update({variable.name: variable.value for variable in plan.env})
    return environment


class EngineProcess:
    """A running engine."""

    def __init__(self, process: asyncio.subprocess.Process, output: BinaryIO, spare: set[int]) -> None:
        self._process = process
        self._output = output
        self._spare = spare
        self.segments: set[str] = set()
        """Names of the shared memory that members were seen to use."""

    @classmethod
    async def launch(cls, plan: Plan, environment: dict[str, str], spare: set[int]) -> "EngineProcess":
        """Start it. `spare` holds the pids of our other children. Raises OSError when it can't be executed."""
        # A pipe of our own: asyncio's would make wait() last until orphans of the engine close theirs.
        ours, theirs = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *plan.prefix,
                *plan.argv,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=theirs,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return cls(process, os.fdopen(ours, "rb", buffering=0), spare)

    @property
    def pid(self) -> int:
        """Process id of the API server, which leads the session."""
        return self._process.pid

    async def read(self, take: Callable[[Line], None]) -> None:
        """Hand on every line until the last member has closed the output."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._output)
        pending = b""
        while chunk := await reader.read(CHUNK):
            lines, pending = split_lines(pending + chunk)
            for line in lines:
                take(line_of(line))
        if pending:
            take(line_of(pending))
        transport.close()

    def listens(self, port: int) -> bool:
        """Tell whether a member of the engine listens on a port."""
        pids = {member.pid for member in self.members()}
        sockets = psutil.net_connections(kind="tcp")
        ports = [s.laddr.port for s in sockets if s.status == psutil.CONN_LISTEN and s.pid in pids and s.laddr]
        return port in ports

    def note_segments(self) -> None:
        """Remember the shared memory that the members use now: what is left of it after them is theirs."""
        self.segments |= segments_of(Path("/"), [member.pid for member in self.members()])

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the API server alone: the workers of a drain die of it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to every member, the resource tracker last: it removes the shared memory of the others."""
        self.note_segments()
        members = sorted(self.members(), key=_is_tracker)
        for member in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()

    def members(self) -> list[psutil.Process]:
        """Return the living processes of the engine: its session, and every orphan that became ours."""
        ours = psutil.Process().children(recursive=True)
        return [process for process in ours if not self._spared(process) and _alive(process)]

    def _spared(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.pid in self._spare or any(parent.pid in self._spare for parent in process.parents())
        return False

    async def wait(self) -> int:
        """Wait for the API server's exit and return its status; negative for a signal."""
        return await self._process.wait()

    async def sweep(self) -> None:
        """Kill what the API server left behind and wait until the last member is gone."""
        self.note_segments()
        while members := self.members():
            for member in sorted(members, key=_is_tracker):
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            reap_orphans(self._spare | {self.pid})
            await asyncio.sleep(0.05)
        reap_orphans(self._spare | {self.pid})


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


def reap_orphans(spare: set[int]) -> None:
    """Collect the status of dead orphans; asyncio collects that of the children it started itself."""
    for child in psutil.Process().children():
        if child.pid not in spare and not _alive(child):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
