"""The rules by which the code reads; none has exemptions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(file for file in (ROOT / "appliance").rglob("*.py") if "vendor" not in file.parts)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OTHERS = sorted((ROOT / "demo").glob("*.py"))
EVERYTHING = [*SOURCES, *TESTS, *OTHERS]

ALLOWED = {
    "core": {"core"},
    "host": {"core", "host", "vendor"},
    "engine": {"core", "engine"},
    "selftest": {"core", "selftest"},
    "cluster": {"core", "cluster"},
    "service": {"core", "host", "engine", "selftest", "cluster", "service"},
    "web": {"core", "web"},
}
"""What each folder may import of the program; cli may import all."""

IMPURE = {"asyncio", "logging", "os", "pathlib", "psutil", "random", "signal", "socket", "subprocess", "sys", "time"}
NAMELESS = {"util", "utils", "helper", "helpers", "common", "manager", "base", "misc"}
MOCKS = re.compile(r"\bmonkeypatch\b|\bmock\b|\bmocker\b|\btime\.sleep\b|\bMagicMock\b")


def named(files: list[Path]) -> list[object]:
    return [pytest.param(file, id=str(file.relative_to(ROOT))) for file in files]


def imports_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "appliance")


@pytest.mark.parametrize("file", named(SOURCES))
def test_a_folder_imports_only_what_the_design_allows(file: Path) -> None:
    folder = file.relative_to(ROOT / "appliance").parts[0]
    for name in imports_of(file):
        parts = name.split(".")
        if parts[0] == "appliance" and len(parts) > 1 and folder in ALLOWED:
            assert parts[1] in ALLOWED[folder], f"{file.name} imports {name}"
        if folder == "core":
            assert parts[0] not in IMPURE, f"core touches the machine: {name}"


@pytest.mark.parametrize("file", named(EVERYTHING))
def test_modules_and_functions_stay_short(file: Path) -> None:
    text = file.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < 40, f"{node.name} is too long"


@pytest.mark.parametrize("file", named(EVERYTHING))
def test_modules_have_names_that_say_something(file: Path) -> None:
    assert file.stem not in NAMELESS


@pytest.mark.parametrize("file", named(EVERYTHING))
def test_errors_are_caught_by_name_and_types_ignored_with_a_reason(file: Path) -> None:
    text = file.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            names = set(re.findall(r"\w+", caught))
            assert not names & {"everything", "Exception", "BaseException"}, f"line {node.lineno} catches {caught}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            assert "Exception" not in map(ast.unparse, node.args), f"line {node.lineno} suppresses everything"
    for line in text.splitlines():
        if re.search(r"# type: ?ignore", line) and file != Path(__file__):
            assert re.search(r"# type: ignore\[[a-z-]+\]  # \w", line), line


@pytest.mark.parametrize("file", named(sorted((ROOT / "tests/unit").glob("test_*.py"))))
def test_unit_tests_hold_no_mocks_and_no_sleep(file: Path) -> None:
    if file != Path(__file__):
        assert not MOCKS.search(file.read_text())
