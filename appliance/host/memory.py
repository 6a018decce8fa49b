"""Main memory, as the kernel tells it."""

from pathlib import Path

UNIT = 1024
"""Bytes; /proc/meminfo says kB and means KiB."""


def memory_bytes(root: Path, name: str) -> int | None:
    """Return one line of /proc/meminfo in bytes; None where it is not there."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    values = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return next((int(value) * UNIT for value in values), None)
