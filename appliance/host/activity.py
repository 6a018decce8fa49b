"""Readings of /proc: what some processes do."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from appliance.core.activity import Activity, Member, name_of

STAT = re.compile(r"^\d+ \((?P<short>.*)\) (?P<state>\S) (?P<rest>.*)$", re.DOTALL)
"""A process may call itself anything, brackets and line ends included, so the last bracket counts."""

USER_TIME, SYSTEM_TIME, STARTED = 10, 11, 18
"""Places in the rest of /proc/PID/stat, where proc(5) counts 14, 15 and 22."""

BYTES = re.compile(r"^(read|write)_bytes: (\d+)$", re.MULTILINE)


def activity_of(root: Path, pids: Iterable[int]) -> Activity:
    """Return what processes do; one that is gone, or is none, is left out."""
    found = (member_of(root, pid) for pid in sorted(set(pids)))
    members = [member for member in found if member]
    return Activity(members=tuple(sorted(members, key=lambda member: (member.started, member.pid))))


def member_of(root: Path, pid: int) -> Member | None:
    """Return one process; None when it is gone."""
    folder = root / "proc" / str(pid)
    stat = STAT.match(_text(folder / "stat") or "")
    rest = stat["rest"].split() if stat else []
    numbers = [rest[place] for place in (USER_TIME, SYSTEM_TIME, STARTED) if place < len(rest)]
    if not stat or len(numbers) < 3 or not all(map(str.isdecimal, numbers)):
        return None
    user, system, started = map(int, numbers)
    moved = {name: int(number) for name, number in BYTES.findall(_text(folder / "io") or "")}
    words = tuple(word for word in (_text(folder / "cmdline") or "").split("\0") if word)
    wchan = (_text(folder / "wchan") or "").strip()
    return Member(
        pid=pid,
        started=started,
        name=name_of(words, stat["short"]),
        state=stat["state"],
        cpu=(user + system) / os.sysconf("SC_CLK_TCK"),
        read=moved.get("read"),
        written=moved.get("write"),
        wchan="" if wchan == "0" else wchan,
    )


def _text(file: Path) -> str | None:
    """Return what a file says; None where it can't be read, as when its process has just died."""
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return None
