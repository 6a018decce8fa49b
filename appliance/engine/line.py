"""One line of the engine's output: its text, its weight, and whether the journal has it already."""

import re

from appliance.core.record import record
from appliance.engine.journal import JOURNALED

LEVELS = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2, "FATAL": 2}
"""Names of Python's and uvicorn's levels, and syslog's priorities."""

LEVEL = re.compile(r"^(?:\([^)]*\) )?(DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\b")
TROUBLE = re.compile(r"^Traceback |^[A-Za-z_][\w.]*(?:Error|Exception): ")
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SPLIT = re.compile(rb"[\r\n]+")
LONGEST = 16384
"""Bytes of a line that are kept; vLLM prints its whole configuration on one of 4 KB."""


@record
class Line:
    """One line, without colours and without the mark."""

    text: str
    priority: int
    """As in syslog(3): 3 for an error, 6 for information."""
    journaled: bool


def line_of(raw: bytes) -> Line:
    """Read one line as the engine wrote it."""
    text = ESCAPE.sub("", raw[:LONGEST].decode("utf-8", "replace"))
    journaled = JOURNALED in text
    text = text.replace(JOURNALED, "")
    level = LEVEL.match(text)
    priority = LEVELS[level[1]] if level else 4 if TROUBLE.match(text) else 6
    return Line(text=text, priority=priority, journaled=journaled)


def split_lines(pending: bytes) -> tuple[list[bytes], bytes]:
    r"""Split what was read into whole lines and the rest; progress bars end theirs with a carriage return.

    >>> split_lines(b"a\r\nb\rc")
    ([b'a', b'b'], b'c')
    """
    *lines, rest = SPLIT.split(pending)
    if len(rest) > LONGEST:
        lines, rest = [*lines, rest], b""
    return [line for line in lines if line], rest
