"""Where lines go: ours to standard error with their priority, the engine's to the journal under its own name."""

import re
import socket
import sys
from collections import deque
from pathlib import Path
from typing import TextIO

from appliance.engine.journal import IDENTIFIER
from appliance.engine.line import Line
from appliance.service.notify import under_systemd
from systemd import journal

JOURNAL_SOCKET = Path("/run/systemd/journal/socket")

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6
"""Priorities of syslog(3)."""


def journal_answers() -> bool:
    """Tell whether a journal takes messages here, for us and for the engine's own handler."""
    if not under_systemd():
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            probe.connect(str(JOURNAL_SOCKET))
    except OSError:
        return False
    return True


def say(text: str, priority: int = INFO) -> None:
    """Write a line of our own; journald takes the priority from the prefix, a terminal need not see it."""
    prefix = f"<{priority}>" if under_systemd() else ""
    for line in text.splitlines() or [""]:
        print(f"{prefix}{line}", file=sys.stderr, flush=True)


LOOKED = re.compile(r'"GET /(?:health|metrics|ping) HTTP/[\d.]+" 200')
"""A line of the access log about a look that the supervisor takes every two seconds, or a scraper now and then."""

KEPT = 4000
"""Lines of the engine's newest ones that are kept: eight ranks that fail together print a thousand of tracebacks."""


class EngineOutput:
    """Sends the engine's lines where people look for them, and keeps the last ones for the reason of a failure."""

    def __init__(self, journal_there: bool, log_file: str | None) -> None:
        self._journal = journal_there
        self._file = _opened(log_file)
        self.tail: deque[str] = deque(maxlen=KEPT)
        """The newest lines."""

    def take(self, line: Line) -> None:
        """Handle one line; that somebody looked how the engine is says nothing."""
        if LOOKED.search(line.text):
            return
        self.tail.append(line.text)
        self._append(line.text)
        if not self._journal:
            say(line.text, line.priority)
        elif not line.journaled:
            journal.send(line.text, SYSLOG_IDENTIFIER=IDENTIFIER, PRIORITY=line.priority)

    def _append(self, text: str) -> None:
        """Write to the log file; a full disk ends that, and not the engine, whose output must be read on."""
        if self._file is None:
            return
        try:
            self._file.write(text + "\n")
        except OSError as error:
            say(f"[log] file can't be written any more, the journal has everything: {error.strerror}", ERROR)
            self._file = None

    def close(self) -> None:
        """Close the log file."""
        if self._file:
            self._file.close()
            self._file = None


def _opened(log_file: str | None) -> TextIO | None:
    """Open a log for appending, so that logrotate's copytruncate works; without it the engine still starts."""
    if log_file is None:
        return None
    try:
        return Path(log_file).open("a", buffering=1, encoding="utf-8", errors="replace")  # closed by close()
    except OSError as error:
        say(f"[log] file {log_file} can't be opened, the journal has everything: {error.strerror}", ERROR)
        return None
