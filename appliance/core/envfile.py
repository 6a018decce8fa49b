"""Environment files, NAME=VALUE a line, as docker compose and a shell read them."""

import re

from appliance.core.config import VARIABLE_NAME
from appliance.core.document import LARGEST_FILE, LONGEST_LINE
from appliance.core.kind import shown
from appliance.core.problem import Problem, RefusedError
from appliance.core.record import record

MOST_LINES = 2000
"""No environment file that a person writes comes near it."""

PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|(=|[^\s='"\\]+)""", re.DOTALL)
"""One part of a shell's word: in single quotes, in double quotes, an escaped character, plain."""

ESCAPED = re.compile(r'\\(["\\$`])')
"""What a backslash protects inside double quotes."""

EXPANSION = re.compile(r"\$[A-Za-z_{(]|`")
COMMENT = re.compile(r"\s#.*", re.DOTALL)


@record
class Assignment:
    """One value and where it was set: a variable of a file, or the arguments of a command."""

    name: str
    value: str
    file: str
    line: int | None
    notes: tuple[str, ...] = ()
    """What a person should know about the reading of this line."""

    @property
    def place(self) -> str:
        """Return where it was set, as a comment says it."""
        return self.name if self.line is None else f"{self.name}, line {self.line}"


@record
class Environment:
    """What one file sets; of several lines for one name the last."""

    file: str
    assignments: tuple[Assignment, ...] = ()
    problems: tuple[Problem, ...] = ()
    """The lines that could not be read."""

    def value(self, name: str) -> str:
        """Return the value of a variable; empty where it is not set, because compose passes both alike."""
        found = self.assignment(name)
        return found.value if found else ""

    def assignment(self, name: str) -> Assignment | None:
        """Return the line that sets a variable; None where it is empty or absent."""
        return next((found for found in self.assignments if found.name == name and found.value), None)


class BrokenLineError(ValueError):
    """A line that sets nothing: what was found, and what to do."""

    def __init__(self, key: str, what: str, hint: str) -> None:
        self.key, self.what, self.hint = key, what, hint
        super().__init__(what)


def environment_of(content: bytes, file: str) -> Environment:
    """Read an environment file. Raises RefusedError where it is none at all; broken lines are noted in the result."""
    lines = _text(content, file).split("\n")
    if len(lines) > MOST_LINES:
        raise _refusal(file, f"{len(lines)} lines, at most {MOST_LINES}")
    found: dict[str, Assignment] = {}
    problems = []
    for number, line in enumerate(lines, start=1):
        try:
            name, value, notes = _line(line.removesuffix("\r"))
        except BrokenLineError as error:
            problems.append(Problem(file=file, line=number, key=error.key, what=error.what, hint=error.hint))
            continue
        if not name:
            continue
        if name in found:
            notes = (*notes, f"line {found.pop(name).line} sets {name} too; the last line wins")
        found[name] = Assignment(name=name, value=value, file=file, line=number, notes=notes)
    return Environment(file=file, assignments=tuple(found.values()), problems=tuple(problems))


def _text(content: bytes, file: str) -> str:
    if len(content) > LARGEST_FILE:
        raise _refusal(file, f"more than {LARGEST_FILE} bytes", "name the file that holds the NAME=VALUE lines")
    if b"\0" in content:
        raise _refusal(file, "not a text: it holds NUL bytes", "save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refusal(file, f"byte {error.start} is not UTF-8", "save it as UTF-8") from None


def _refusal(file: str, what: str, hint: str = "") -> RefusedError:
    return RefusedError([Problem(file=file, line=None, key="", what=what, hint=hint)])


def _line(line: str) -> tuple[str, str, tuple[str, ...]]:
    r"""Return name, value and notes of one line; an empty name for a line that sets nothing on purpose.

    >>> _line("export A='b c' # d")
    ('A', 'b c', ())
    >>> _line('LIMIT_MM={"image":4, "video":0}  # as compose reads it')
    ('LIMIT_MM', '{"image":4, "video":0}', ())
    """
    bare = line.strip()
    if not bare or bare.startswith("#"):
        return "", "", ()
    start, equals, rest = bare.partition("=")
    if len(bare) > LONGEST_LINE:
        raise BrokenLineError("", f"a line of {len(bare)} characters, at most {LONGEST_LINE}", "shorten it")
    if not equals:
        raise BrokenLineError("", f"no = in {shown(bare)}", "write NAME=VALUE, or # in front of a remark")
    name = re.sub(r"\Aexport\s+", "", start).strip()
    if not VARIABLE_NAME.match(name):
        raise BrokenLineError("", f"{shown(name)} is not the name of a variable", "write NAME=VALUE")
    value, expands = _value(name, rest)
    if expands:
        return name, value, ("a $ or ` stays as it stands: nothing is filled in",)
    return name, value, ()


def _value(name: str, text: str) -> tuple[str, bool]:
    """Return a value, and whether a shell would fill something in."""
    if not text.lstrip().startswith(("'", '"')):
        value = COMMENT.sub("", text, count=1).strip()
        return value, bool(EXPANSION.search(value))
    text = text.lstrip()
    value, end, expands = word_at(text, 0)
    rest = text[end:]
    if rest.startswith(("'", '"')):
        raise BrokenLineError(name, f"the quote {rest[0]} is not closed", "close it on the same line")
    if COMMENT.sub("", rest).strip():
        raise BrokenLineError(
            name, f"found {shown(rest.strip())} after the closing quote", "put all of the value into the quotes"
        )
    return value, expands


def word_at(text: str, start: int) -> tuple[str, int, bool]:
    r"""Return the shell's word at a place, where it ends, and whether a shell would fill something in.

    The end is before white space, the end of the text, or a quote that nothing closes.

    >>> word_at("'it'\\''s' \"a $B\"", 0)
    ("it's", 9, False)
    """
    parts, end, expands = [], start, False
    while piece := PIECE.match(text, end):
        part, filled = unquoted(piece)
        parts.append(part)
        end, expands = piece.end(), expands or filled
    return "".join(parts), end, expands


def unquoted(piece: re.Match[str]) -> tuple[str, bool]:
    """Return what one part of a word stands for, and whether a shell would fill something in."""
    single, double, escaped, plain = piece.groups()
    if double is not None:
        return ESCAPED.sub(r"\1", double), bool(EXPANSION.search(re.sub(r"\\.", "", double)))
    if plain is not None:
        return plain, bool(EXPANSION.search(plain))
    return single if single is not None else escaped, False
