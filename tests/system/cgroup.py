"""A control group of a machine's own: it holds every process of the machine, and ends them.

A killed systemd-nspawn leaves its container running (seen with systemd 252), so the group and not
the process of nspawn says what belongs to a machine.
"""

import hashlib
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
SECONDS_TO_VANISH = 10.0


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One group, as a folder in each hierarchy in which systemd keeps its books."""

    folders: tuple[Path, ...]

    def make(self) -> None:
        """Make the group."""
        for folder in self.folders:
            folder.mkdir(exist_ok=True)

    def processes(self) -> set[int]:
        """Return the ids of the group's processes."""
        found: set[int] = set()
        for folder in self.folders:
            for group, _, _ in os.walk(folder):
                with suppress(OSError):  # ENOENT, ENODEV: the group went away meanwhile
                    found.update(map(int, Path(group, "cgroup.procs").read_text().split()))
        return found - {0}  # 0 stands for a process outside of our pid namespace

    def clear(self) -> bool:
        """Kill the processes of the group and remove it; say whether there was one to remove."""
        if not any(folder.is_dir() for folder in self.folders):
            return False
        end = time.monotonic() + SECONDS_TO_VANISH
        while processes := self.processes():
            if time.monotonic() > end:
                raise TimeoutError(f"processes {sorted(processes)} outlive SIGKILL")
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)
        for folder in self.folders:
            _remove(folder, end)
        return True


def machine_cgroup(name: str, cache: Path) -> Cgroup:
    """Return the group of the machine NAME of this cache, so that two caches do not meet."""
    place = hashlib.sha256(str(cache).encode()).hexdigest()[:6]
    return Cgroup(tuple(root / f"vllm-serve-{place}-{name}" for root in hierarchies(MOUNT)))


def hierarchies(mount: Path) -> tuple[Path, ...]:
    """Return the hierarchies below MOUNT that systemd uses: one of cgroup2, or the older two."""
    places = (mount, mount / "systemd", mount / "unified")
    return tuple(place for place in places if (place / "cgroup.procs").is_file())


def _remove(folder: Path, end: float) -> None:
    for group, _, _ in os.walk(folder, topdown=False):
        while True:
            try:
                Path(group).rmdir()
                break
            except OSError:  # EBUSY: a killed process is not quite gone yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
