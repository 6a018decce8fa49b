"""A vllm-serve.toml in the making: its lines, what has no place in it, and what is wrong."""

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

from appliance.core.document import LARGEST_FILE, LONGEST_LINE
from appliance.core.envfile import Assignment, Environment
from appliance.core.imported.toml import Value, printable, toml_of
from appliance.core.kind import UnfitError
from appliance.core.problem import Problem, RefusedError
from appliance.core.record import record

SECTIONS = ("model", "vllm", "knobs", "env", "api", "engine", "gpu", "cluster", "paths", "log")
"""In the order in which they are written."""


class ClientKey(Enum):
    """The key that clients had to show to the script's API."""

    NONE = "none"
    LOST = "lost"
    """There was one, and this file can't hold it."""
    KEPT = "kept"


@record
class Line:
    """One key of the file."""

    value: Value
    text: str
    """The value as TOML."""
    given: Assignment
    notes: tuple[str, ...]


class Draft:
    """Collects what the variables of one environment come to."""

    def __init__(self, recipe: str, environment: Environment, arguments: tuple[str, ...]) -> None:
        self.recipe = recipe
        self.environment = environment
        self.arguments = arguments
        self.key = ClientKey.NONE
        self.problems: list[Problem] = list(environment.problems)
        self._sections: dict[str, dict[str, Line]] = {name: {} for name in SECTIONS}
        self._remarks: list[str] = []
        self._told: set[str] = set()

    def put(self, key: tuple[str, str], value: Value, given: Assignment, *notes: str) -> None:
        """Write a key, in place of what was written for it before; notes stand above it."""
        try:
            text = toml_of(value)
        except UnfitError as error:
            self.refuse(given, str(error), "remove that part")
            return
        if given.name not in self._told:
            self._told.add(given.name)
            notes = (*given.notes, *notes)
        self._sections[key[0]][key[1]] = Line(value=value, text=text, given=given, notes=notes)

    def note(self, key: tuple[str, str], text: str) -> None:
        """Add a note above a key that is written."""
        line = self._sections[key[0]][key[1]]
        self._sections[key[0]][key[1]] = replace(line, notes=(*line.notes, text))

    def remark(self, given: Assignment, why: str) -> None:
        """Say why a variable has no place in the file; its value is not shown, for it may be a secret."""
        self._remarks.append(f"{given.place}: {why}")

    def refuse(self, given: Assignment, what: str, hint: str = "") -> None:
        """Note a problem and go on."""
        self.problems.append(Problem(file=given.file, line=given.line, key=given.name, what=what, hint=hint))

    def line(self, section: str, key: str) -> Line | None:
        """Return what is written for a key so far."""
        return self._sections[section].get(key)

    def value(self, section: str, key: str) -> Value | None:
        """Return the value that is written for a key so far."""
        line = self.line(section, key)
        return line.value if line else None

    def text(self) -> str:
        """Return the file. Raises RefusedError with every problem."""
        lines = list(self._lines())
        if not self.problems and sum(len(line) + 1 for line in lines) > LARGEST_FILE:
            what = f"comes to more than {LARGEST_FILE} characters of TOML"
            hint = "name the file that holds the script's variables"
            self.problems.append(Problem(file=self.environment.file, line=None, key="", what=what, hint=hint))
        if self.problems:
            raise RefusedError(sorted(self.problems, key=lambda problem: problem.line or 0))
        return "\n".join(lines) + "\n"

    def _lines(self) -> Iterator[str]:
        source = f" from {printable(self.environment.file)}" if self.environment.file else ""
        yield f"# Written by `vllm-serve import-env {self.recipe}`{source}."
        yield f"recipe = {toml_of(self.recipe)}"
        for name, section in self._sections.items():
            if section:
                yield ""
                yield f"[{name}]"
            for key, line in section.items():
                yield from (f"# {printable(note)}" for note in line.notes)
                yield self._fitting(f"{key} = {line.text}  # {printable(line.given.place)}", line.given)
        if self._remarks:
            yield ""
            yield "# Without a place in this file:"
        yield from (f"# {printable(remark)}" for remark in self._remarks)

    def _fitting(self, line: str, given: Assignment) -> str:
        if len(line) > LONGEST_LINE:
            what = f"comes to a line of {len(line)} characters of TOML, at most {LONGEST_LINE}"
            self.refuse(given, what, "shorten it")
        return line
