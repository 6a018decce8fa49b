"""What the kernel did to this unit: processes that it killed for their memory, faults of GPUs."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from appliance.host.source import place
from systemd import journal

ROOT = Path("/")

TELLING = re.compile(
    r"Out of memory|oom-kill|Killed process|NVRM: |segfault at|general protection|fork rejected|^traps: "
)
"""What is worth to hand on: memory, GPUs, crashes, limits."""

MOST = 200
"""Lines that are handed on, the first ones: what came first is nearer to the cause."""

LONGEST = 5000
"""Entries that are looked at; a kernel that says more since a launch of minutes has other troubles."""


def oom_kills(root: Path = ROOT) -> int | None:
    """Return how many processes of this one's control group the kernel has killed for their memory; None if unknown.

    The count is the group's since it was made: what a launch lost is the difference. Below another root than `/` the
    files of a machine's copy are read.
    """
    try:
        groups = place(root, "/proc/self/cgroup").read_text().splitlines()
        group = next(line.removeprefix("0::") for line in groups if line.startswith("0::"))
        events = place(root, f"/sys/fs/cgroup/{group.strip('/')}/memory.events").read_text()
        return next(int(line.split()[1]) for line in events.splitlines() if line.startswith("oom_kill "))
    except (OSError, StopIteration, ValueError, IndexError, LookupError):
        return None


def kernel_messages(since: float, reader: Any = None) -> tuple[str, ...] | None:
    """Return the telling messages of the kernel since a time, in seconds since 1970; None where they can't be read.

    A journal that holds no word of the kernel at all is one that may not be read, or that gets none, as in a container:
    journald leaves out what a user may not see without a word. May block on a slow disk: see service/kernel.py.
    """
    try:
        entries = journal.Reader() if reader is None else reader
        entries.this_boot()
        entries.add_match(_TRANSPORT="kernel")
        entries.seek_head()
        if not entries.get_next():
            return None
        entries.seek_realtime(float(since))
        return tuple(_telling(_following(entries)))
    except OSError:
        return None


def _following(entries: Any) -> Iterator[dict[str, Any]]:
    for _ in range(LONGEST):
        entry = entries.get_next()
        if not entry:
            return
        yield entry


def _telling(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    told = 0
    for entry in entries:
        message = entry.get("MESSAGE")
        if isinstance(message, str) and TELLING.search(message):
            yield message
            told += 1
            if told == MOST:
                return


if __name__ == "__main__":
    print(json.dumps(kernel_messages(float(sys.argv[1]))))
