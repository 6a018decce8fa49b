"""What comes back from a server, and what goes wrong between a question and its answer."""

import enum
import json
from typing import Any

from appliance.core.record import record

LATER = (408, 425, 429, 502, 503, 504)
"""HTTP statuses of a server that is busy or not there at the moment."""

LOCKED = (401, 403)
"""HTTP statuses of a server that asks for a key."""


class Trouble(enum.StrEnum):
    """What kept an answer away."""

    BUSY = "busy"
    """Asking again may help."""
    LOCKED = "locked"
    """The key is missing or wrong."""
    BROKEN = "broken"
    """The server says that it failed."""
    REFUSED = "refused"
    """The server understood the question and will not take it."""
    GARBLED = "garbled"
    """Something came that is not what the API promises."""


class ReplyError(Exception):
    """No answer, or one that is not what the API promises; the text says what came."""

    def __init__(self, what: str, trouble: Trouble) -> None:
        super().__init__(what)
        self.trouble = trouble


@record
class Reply:
    """One HTTP reply."""

    status: int
    text: str

    def table(self) -> dict[str, Any]:
        """Return the JSON object of a good reply. Raises ReplyError for any other."""
        if self.status != 200:
            raise ReplyError(f"HTTP {self.status}: {shortened(self.text)}", trouble_of(self.status))
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            raise ReplyError(f"not JSON: {shortened(self.text)}", Trouble.GARBLED) from None
        if not isinstance(found, dict):
            raise ReplyError(f"not a JSON object: {shortened(self.text)}", Trouble.GARBLED)
        return found


def trouble_of(status: int) -> Trouble:
    """Return what an HTTP status other than 200 means for a question.

    >>> str(trouble_of(429)), str(trouble_of(400)), str(trouble_of(500)), str(trouble_of(302))
    ('busy', 'refused', 'broken', 'garbled')
    """
    if status in LATER:
        return Trouble.BUSY
    if status in LOCKED:
        return Trouble.LOCKED
    return Trouble.BROKEN if status >= 500 else Trouble.REFUSED if status >= 400 else Trouble.GARBLED


def shortened(text: str, longest: int = 200) -> str:
    """Return a text on one line, cut to a readable length."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[: longest + 1])
    return line if len(line) <= longest else f"{line[: longest - 3]}..."
