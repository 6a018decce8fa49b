"""Where each key of a TOML text stands, which the TOML readers do not tell."""

import re

import tomli

WORD = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*')"""
KEY = rf"\s*({WORD}(?:\s*\.\s*{WORD})*)\s*"
HEADER = re.compile(rf"\s*\[{{1,2}}{KEY}\]{{1,2}}\s*(?:#.*)?$")
ASSIGNMENT = re.compile(rf"{KEY}=")
TOKEN = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#.*|[\[\]{}]')
PART = re.compile(WORD)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(_name(part[0]) for part in PART.finditer(dotted))


def _name(word: str) -> str:
    """Return a part of a key as the reader gives it: quoted ones may hold escapes."""
    if word[0] != '"':
        return word.strip("'")
    try:
        return str(tomli.loads(f"x = {word}")["x"])
    except tomli.TOMLDecodeError:
        return word[1:-1]


class _Scanner:
    """Reads lines in order; knows whether a string or a list is still open."""

    def __init__(self) -> None:
        self.section: tuple[str, ...] = ()
        self.quote = ""
        self.depth = 0
        self.number = 0
        self.counts: dict[tuple[str, ...], int] = {}
        """How many tables each list of tables has so far, less one."""
        self.lines: dict[tuple[str, ...], int] = {}

    def take(self, number: int, line: str) -> None:
        self.number = number
        if not self.quote and not self.depth:
            line = self._start(number, line)
        self._rest(line)

    def _start(self, number: int, line: str) -> str:
        if header := HEADER.match(line):
            self.section = self._numbered(_parts(header[1]), many=line.lstrip().startswith("[["))
            self.lines.setdefault(self.section, number)
            return ""
        if assignment := ASSIGNMENT.match(line):
            parts = _parts(assignment[1])
            for end in range(1, len(parts) + 1):
                self.lines.setdefault(self.section + parts[:end], number)
            return line[assignment.end() :]
        return ""

    def _string(self, line: str) -> str:
        """Return what follows the end of an open multi-line string; nothing when it goes on."""
        escapes = r"\\.|" if self.quote == '"""' else ""
        for token in re.finditer(escapes + self.quote, line):
            if token[0] == self.quote:
                self.quote = ""
                return line[token.end() :]
        return ""

    def _numbered(self, parts: tuple[str, ...], *, many: bool) -> tuple[str, ...]:
        """Return a header's path with the number of the table behind the name of a list of tables."""
        if many:
            self.counts[parts] = self.counts.get(parts, -1) + 1
            self.lines.setdefault(parts, self.number)
        path: tuple[str, ...] = ()
        for end, part in enumerate(parts, start=1):
            count = self.counts.get(parts[:end])
            path += (part,) if count is None else (part, str(count))
        return path

    def _rest(self, line: str) -> None:
        while line:
            if self.quote:
                line = self._string(line)
                continue
            token = TOKEN.search(line)
            if token is None:
                return
            line = line[token.end() :]
            if token[0] in ('"""', "'''"):
                self.quote = token[0]
            else:
                self.depth += (token[0] in "[{") - (token[0] in "]}")


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    r"""Map each section and key of a TOML text that parses to its line, counted from 1.

    >>> key_lines('a = 1\n[b]\nc = [\n 1,\n]\nd = 2')
    {('a',): 1, ('b',): 2, ('b', 'c'): 3, ('b', 'd'): 6}
    >>> key_lines('[[q]]\na = 1\n[[q]]\na = 2')[("q", "1", "a")]
    4
    """
    scanner = _Scanner()
    for number, line in enumerate(text.split("\n"), start=1):
        scanner.take(number, line.rstrip("\r"))
    return scanner.lines
