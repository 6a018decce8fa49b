"""What is wrong in a file that a person wrote, with the place and the way out."""

import difflib
from collections.abc import Iterable

from appliance.core.record import record


@record
class Problem:
    """One mistake in a file."""

    file: str
    line: int | None
    key: str
    """The key as a person would name it, `[api] port`; empty where the file as a whole is meant."""
    what: str
    hint: str = ""
    transient: bool = False
    """True when waiting can help: a cable, an address or a driver that is still to come."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, self.key, self.what) if part)
        return f"{text}; {self.hint}" if self.hint else text


def place_of(origin: str) -> tuple[str, int | None]:
    """Return file and line of an origin; the line is None where it names none.

    >>> place_of("/etc/a:b.toml:12"), place_of("derived")
    (('/etc/a:b.toml', 12), ('derived', None))
    """
    file, _, line = origin.rpartition(":")
    if file and line.isascii() and line.isdigit() and len(line) < 10:
        return file, int(line)
    return origin, None


class RefusedError(Exception):
    """Files that can't be used; carries every problem found in them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known words, or lists them where none is near."""
    known = tuple(known)
    near = difflib.get_close_matches(word, known, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known here: {', '.join(known)}" if 0 < len(known) <= 12 else ""
