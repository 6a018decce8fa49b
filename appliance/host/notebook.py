"""What stayed unknown while the machine was read, and why."""

from collections.abc import Callable
from typing import TypeVar

from appliance.core.facts import Unread

Found = TypeVar("Found")


class Notebook:
    """Asks one source after the other and keeps the reason for what stayed unknown."""

    def __init__(self) -> None:
        self.unread: list[Unread] = []

    def ask(self, what: str, source: Callable[[], Found]) -> Found | None:
        """Return what a source found; None, and a note of the reason, where it raises LookupError."""
        try:
            return source()
        except LookupError as error:
            self.note(what, str(error))
            return None

    def note(self, what: str, reason: str) -> None:
        """Keep the reason why something is unknown."""
        self.unread.append(Unread(what=what, reason=reason))
