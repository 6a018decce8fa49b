"""A TOML file with the lines of its keys, and the reading of its tables into records."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import tomli

from appliance.core.kind import Kind, UnfitError
from appliance.core.location import key_lines
from appliance.core.problem import Problem, RefusedError, did_you_mean
from appliance.core.record import keys_of, record

Read = TypeVar("Read")

LARGEST_FILE = 1 << 18
LONGEST_LINE = 1 << 14
"""Characters; no file that a person writes comes near them, and reading takes longer than in proportion."""

MOST_DOTS = 32
"""In a key or a header: the reader's time grows with the square of it."""

LONGEST_KEY = 200
"""Characters of a key in a message."""

QUOTED = re.compile(r"""\"[^\"]*\"|'[^']*'|#.*""")
HINTS = {
    "Invalid value": "write text in quotes, and true, false and numbers without",
    "Illegal character '\\n'": "a text ends with the quote that it began with",
    "twice": "keep one of the tables",
    "Cannot overwrite a value": "keep one of the keys",
}
"""What to do about the parser's commonest messages."""

POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@record
class Document:
    """One parsed file."""

    file: str
    table: Mapping[str, Any]
    lines: Mapping[tuple[str, ...], int]

    def problem(self, path: tuple[str, ...], what: str, hint: str = "") -> Problem:
        """Return a problem placed at a key, or at the nearest table around it."""
        return Problem(file=self.file, line=self._line(path), key=shown_key(path), what=what, hint=hint)

    def origin(self, path: tuple[str, ...]) -> str:
        """Return where a value comes from, as `file:line`; inside a table on one line, that of the table."""
        line = self._line(path)
        return self.file if line is None else f"{self.file}:{line}"

    def _line(self, path: tuple[str, ...]) -> int | None:
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)


def shown_key(path: tuple[str, ...]) -> str:
    """Return a key as people write about it.

    >>> shown_key(("api", "port"))
    '[api] port'
    >>> shown_key(("question", "1", "ask"))
    '[[question]] ask'
    """
    if len(path) > 1 and path[1].isdigit():
        return " ".join((f"[[{path[0]}]]", ".".join(path[2:]))).rstrip()
    text = path[0] if len(path) == 1 else f"[{path[0]}] {'.'.join(path[1:])}" if path else ""
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:LONGEST_KEY])
    return f"{text}..." if len(text) >= LONGEST_KEY else text


def document_of(text: str, file: str) -> Document:
    """Parse a TOML text. Raises RefusedError with file and line when it can't be parsed."""
    if excess := _excess(text):
        raise RefusedError([Problem(file=file, line=excess[0], key="", what=excess[1])])
    try:
        table = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        position = POSITION.search(str(error))
        line = int(position[1]) if position and position[1] else text.rstrip("\n").count("\n") + 1
        what = "not valid TOML: " + POSITION.sub("", str(error))[:LONGEST_KEY]
        hint = next((hint for start, hint in HINTS.items() if start in what), "")
        raise RefusedError([Problem(file=file, line=line, key="", what=what, hint=hint)]) from None
    except (RecursionError, ValueError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else "a number is too large to be read"
        raise RefusedError([Problem(file=file, line=None, key="", what=what)]) from None
    return Document(file=file, table=table, lines=key_lines(text))


def _excess(text: str) -> tuple[int | None, str] | None:
    """Return where and why a text is beyond what is worth reading."""
    if len(text) > LARGEST_FILE:
        return None, f"{len(text)} characters, at most {LARGEST_FILE}"
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > LONGEST_LINE:
            return number, f"a line of {len(line)} characters, at most {LONGEST_LINE}"
        if _dots_of_key(line) > MOST_DOTS:
            return number, f"a key of more than {MOST_DOTS} dots"
    return None


def _dots_of_key(line: str) -> int:
    """Count the dots of the key or header that a line starts with; other lines have none."""
    bare = QUOTED.sub("", line).strip()
    key, assigned, _ = bare.partition("=")
    return key.count(".") if assigned or (bare.startswith("[") and bare.endswith("]")) else 0


class Reader:
    """Reads the tables of a document into records and collects every problem on the way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def refuse(self, path: tuple[str, ...], what: str, hint: str = "") -> None:
        """Note a problem and go on."""
        self.problems.append(self.document.problem(path, what, hint))

    def table(self, path: tuple[str, ...]) -> Mapping[str, Any]:
        """Return the table at a path; an absent one is empty, something else is a problem."""
        found: Any = self.document.table
        for part in path:
            found = found.get(part, {})
        if isinstance(found, dict):
            return found
        self.refuse(path, "wants a table", f"write [{'.'.join(path)}] on a line of its own")
        return {}

    def unknown(self, path: tuple[str, ...], found: Iterable[str], known: Iterable[str]) -> None:
        """Note each key that nobody reads."""
        known = tuple(known)
        for name in found:
            if name not in known:
                self.refuse((*path, name), "unknown key", did_you_mean(name, known))

    def values(self, cls: type[Any], path: tuple[str, ...], table: Mapping[str, Any]) -> dict[str, Any]:
        """Read those keys of a table that the description of a record names; None where there was a problem."""
        keys = keys_of(cls)
        self.unknown(path, table, keys)
        return {name: self.value((*path, name), table[name], keys[name].kind) for name in table if name in keys}

    def record(self, cls: type[Read], path: tuple[str, ...], table: Mapping[str, Any]) -> Read | None:
        """Read one table into a record by the description in its fields; None after a problem."""
        before = len(self.problems)
        values = self.values(cls, path, table)
        for name, described in keys_of(cls).items():
            if described.required and name not in table:
                self.refuse((*path, name), "missing")
        return cls(**values) if len(self.problems) == before else None

    def required(self, path: tuple[str, ...], table: Mapping[str, Any], kind: Kind[Read]) -> Read | None:
        """Read one value that must be there; None after a problem."""
        if path[-1] in table:
            return self.value(path, table[path[-1]], kind)
        self.refuse(path, "missing")
        return None

    def value(self, path: tuple[str, ...], found: object, kind: Kind[Read]) -> Read | None:
        """Read one value; None after a problem."""
        try:
            return kind.read(found)
        except UnfitError as error:
            self.refuse(path, str(error))
            return None
