"""A throw-away Debian machine: a container with a systemd of its own, whose changes are lost."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

from tests.system.bind import Bind
from tests.system.cache import cache_folder
from tests.system.cgroup import Cgroup, machine_cgroup
from tests.system.command import Command, CommandError, checked, finished
from tests.system.lock import BusyError, claimed, held
from tests.system.namespace import end_strangers, is_init
from tests.system.root import HOST_NAME

Network = Literal["host", "private"]

SECONDS_TO_BOOT = 60.0
SECONDS_TO_POWER_OFF = 20.0
SECONDS_BETWEEN_LOOKS = 0.05
POWER_OFF = signal.SIGRTMIN + 4
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
NETWORK: Mapping[Network, Sequence[str]] = {
    "host": ["--resolv-conf=replace-host"],
    "private": ["--resolv-conf=off", "--private-network"],
}
# Enter the groups given before "--", then become the rest.
ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
# Write standard input to a file, making its folders.
WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1" && chmod -- "$2" "$1"'


class BootError(Exception):
    """A machine did not come up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that runs, until `power_off` or the end of the `with` block."""

    name: str
    init: int
    """The host's process id of the machine's process 1."""
    console: Path
    """What the machine's systemd and systemd-nspawn wrote."""
    _nspawn: subprocess.Popen[bytes]
    _resources: ExitStack
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    def boot(
        cls,
        root: Path,
        name: str,
        *,
        binds: Sequence[Bind] = (),
        network: Network = "private",
        cache: Path | None = None,
    ) -> Self:
        """Boot a machine from ROOT, which stays as it is, and wait until its units have started.

        NAME (a-z, 0-9, -) is for one machine at a time. The network is the host's own, ports and
        all, or a loopback device alone. Raises BootError. Only the main thread may boot: the
        kernel ends a machine with the thread that booted it.
        """
        _require(name)
        cache = cache or cache_folder()
        console = cache / "logs" / f"{name}.console"
        console.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as resources:
            group = resources.enter_context(_own_group(name, cache))
            resources.enter_context(held(root, shared=True))
            argv = [*_entering(group), *_nspawn_argv(root, name, binds, network)]
            nspawn = resources.enter_context(_running(argv, console))
            init = _booted_init(nspawn, group, console)
            kept = resources.pop_all()
        return cls(name=name, init=init, console=console, _nspawn=nspawn, _resources=kept)

    def __enter__(self) -> Self:
        """Return the machine."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Power the machine off."""
        self.power_off()

    def argv(self, command: Command) -> list[str]:
        """Return the command of the host that runs COMMAND in the machine, ending with it."""
        inner = ["/bin/sh", "-c", command] if isinstance(command, str) else [*command]
        variables = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
        enter = ["nsenter", f"--target={self.init}", "--all", "--"]
        # nsenter's child would else outlive it
        return [*enter, "setpriv", "--pdeathsig=TERM", "--", "env", "-i", *variables, *inner]

    def run(
        self,
        command: Command,
        *,
        check: bool = True,
        timeout: float = 60.0,
        input: str | None = None,  # noqa: A002 - the name that subprocess.run has for it
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root, without the host's environment, and return what came of it.

        Raises CommandError where it leaves with another status than 0 (if CHECK), or has to be
        ended after TIMEOUT seconds.
        """
        result = finished(self.argv(command), named=command, timeout=timeout, text=input)
        return checked(result) if check else result

    def start(self, command: Command, *, output: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start a command, its two outputs in one stream; a machine that is powered off ends it."""
        process = subprocess.Popen(
            self.argv(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the machine, and make the folders above it."""
        self.run(["/bin/sh", "-c", WRITE, "write", path, f"{mode:o}"], input=text)

    def read(self, path: str) -> str:
        """Return the text of a file of the machine."""
        return self.run(["cat", "--", path]).stdout

    def power_off(self) -> None:
        """End commands, have systemd stop its units, and kill what is left after a while."""
        running = self._nspawn.poll() is None
        if running:
            end_strangers(self.init)
        for process in self._started:  # all but those that had no process in the machine yet ended
            process.terminate()
            process.wait()
        if running:
            end_strangers(self.init)
            with suppress(ProcessLookupError):
                os.kill(self.init, POWER_OFF)
            with suppress(subprocess.TimeoutExpired):
                self._nspawn.wait(SECONDS_TO_POWER_OFF)
        self._resources.close()


def sweep(cache: Path) -> None:
    """End the machines, and remove the groups, of runs that died."""
    for claim in (cache / "machines").glob("*.pid"):
        with suppress(BusyError), claimed(claim):
            machine_cgroup(claim.stem, cache).clear()


def _require(name: str) -> None:
    if not name.replace("-", "").isalnum() or not name.isascii() or name != name.lower():
        raise ValueError(f"a machine's name has a-z, 0-9 and - only, not {name!r}")
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(f"machine {name}: only the main thread may boot a machine")


@contextmanager
def _own_group(name: str, cache: Path) -> Iterator[Cgroup]:
    """Claim the name, end what a dead run left, and give the group of the machine's processes."""
    sweep(cache)
    group = machine_cgroup(name, cache)
    with ExitStack() as claim:
        try:
            claim.enter_context(claimed(cache / "machines" / f"{name}.pid"))
        except BusyError as busy:
            raise BootError(f"machine {name} runs already: {busy}") from busy
        group.clear()
        group.make()
        claim.callback(group.clear)
        yield group


@contextmanager
def _running(argv: Sequence[str], console: Path) -> Iterator[subprocess.Popen[bytes]]:
    with console.open("wb") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _entering(group: Cgroup) -> list[str]:
    """Return the start of a command that runs in the group and ends when its parent dies."""
    folders = [str(folder) for folder in group.folders]
    return ["sh", "-ec", ENTER, "sh", *folders, "--", "setpriv", "--pdeathsig=TERM", "--"]


def _nspawn_argv(root: Path, name: str, binds: Sequence[Bind], network: Network) -> list[str]:
    return [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--console=pipe",
        "--volatile=overlay",
        "--register=no",  # no systemd of the host's takes part
        "--keep-unit",
        "--settings=no",
        "--link-journal=no",
        f"--machine={name}",
        f"--hostname={HOST_NAME}",
        f"--directory={root}",
        "--kill-signal=SIGRTMIN+4",  # POWER_OFF, in the words of systemd
        *NETWORK[network],
        *(bind.option() for bind in binds),
    ]


def _booted_init(nspawn: subprocess.Popen[bytes], group: Cgroup, console: Path) -> int:
    """Wait until the units have started; return the host's id of the machine's process 1."""
    end = time.monotonic() + SECONDS_TO_BOOT
    state = "no process 1"
    while time.monotonic() < end:
        if nspawn.poll() is not None:
            state = f"systemd-nspawn left with status {nspawn.returncode}"
            break
        init = next(filter(is_init, group.processes()), None)
        if init is not None:
            state = _state_of(init)
            if state in ("running", "degraded"):
                return init
        time.sleep(SECONDS_BETWEEN_LOOKS)
    tail = "\n".join(console.read_text(errors="replace").splitlines()[-20:])
    raise BootError(f"booting {console.stem}: {state}; {console} ends with:\n{tail}")


def _state_of(init: int) -> str:
    command = ["nsenter", f"--target={init}", "--all", "--", "systemctl", "is-system-running"]
    try:
        return finished(command, named=command, timeout=10.0).stdout.strip()
    except CommandError as failure:
        return str(failure)
