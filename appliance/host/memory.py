"""Main memory, as the kernel tells it."""

import re
from pathlib import Path

from appliance.host.source import text_of

UNIT = 1024
"""Bytes; /proc/meminfo says kB and means KiB."""


def memory_bytes(root: Path, name: str) -> int:
    """Return one line of /proc/meminfo in bytes. Raises LookupError with the reason where it is not there."""
    return line_bytes(text_of(root, "/proc/meminfo"), name, "/proc/meminfo")


def line_bytes(text: str, name: str, file: str) -> int:
    """Return one line of a meminfo, the machine's or a node's, in bytes. Raises LookupError where it is not there.

    >>> line_bytes("Node 0 MemTotal:        5336560 kB", "MemTotal", "meminfo")
    5464637440
    """
    found = re.search(rf"^(?:Node [0-9]+ )?{re.escape(name)}: *([0-9]{{1,15}}) kB$", text, re.MULTILINE)
    if not found:
        raise LookupError(f"{file} has no line {name}")
    return int(found[1]) * UNIT
