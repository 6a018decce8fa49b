"""docs/coverage.md: every row of the scripts' inventory has a test that exists, or a part that will own it."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from appliance.core.record import record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/coverage.md"
PARITY = "tests/unit/test_parity.py"
RECORDS = {"rtx3090x4": "start_4x3090.json", "gx10": "entrypoint_gx10.json"}

INVENTORY = {"A": 134, "B": 232, "DA": 17, "DB": 26, "U": 32}
"""How many rows each list of the inventory has: the scripts' behaviour, their defects, what people ask for."""

PARTS = {
    *("lifecycle", "engine", "preflight", "reload", "self-test", "topology", "several boxes", "status page"),
}
"""Parts of the product that come later."""

LONGEST_SUMMARY = 14
"""Words; the column names a behaviour and does not repeat the inventory."""

PROOF = re.compile(r"`(?P<file>[\w./-]+\.py)(?:::(?P<name>\w+))?(?:\[(?P<case>[^`]+)\])?`")


@record
class Line:
    """One line of the table."""

    row: str
    what: str
    here: str
    proofs: tuple[str, ...]
    owners: tuple[str, ...]


def cells_of(text: str) -> Iterator[list[str]]:
    """Yield the cells of every line of the table but its head."""
    for line in text.splitlines():
        if re.match(r"\| [A-Z]+\d+ ", line):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def lines() -> tuple[Line, ...]:
    return tuple(line_of(cells) for cells in cells_of(PAGE.read_text()))


def line_of(cells: list[str]) -> Line:
    row, what, here, last = cells
    parts = [] if last == "-" else last.split(", ")
    return Line(
        row=row,
        what=what,
        here=here,
        proofs=tuple(part for part in parts if part.startswith("`")),
        owners=tuple(part for part in parts if not part.startswith("`")),
    )


def proofs() -> list[str]:
    return sorted({proof for line in lines() for proof in line.proofs})


@cache
def functions_of(file: str) -> dict[str, tuple[ast.FunctionDef, str]]:
    """Return the functions of a file by name, each with the text of its decorators, where the cases stand."""
    text = (ROOT / file).read_text()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {node.name: (node, decorators_of(node, text)) for node in functions}


def decorators_of(function: ast.FunctionDef, text: str) -> str:
    return "\n".join(ast.get_source_segment(text, decorator) or "" for decorator in function.decorator_list)


@cache
def recorded_cases() -> frozenset[str]:
    """Return the ids of the recorded runs that the parity test has a case of."""
    return frozenset(
        f"{machine}-{row['case']['id']}"
        for machine, name in RECORDS.items()
        for row in json.loads((ROOT / "tests/parity" / name).read_text())
        if "argv" in row["result"] or row["result"]["rc"]
    )


def test_every_row_of_the_inventory_stands_once_and_in_order() -> None:
    wanted = [f"{letters}{number}" for letters, last in INVENTORY.items() for number in range(1, last + 1)]
    assert [line.row for line in lines()] == wanted


def test_every_row_says_what_and_where_in_few_words() -> None:
    for line in lines():
        assert line.what, line.row
        assert line.here, line.row
        assert len(line.what.split()) <= LONGEST_SUMMARY, line.row


def test_every_row_has_a_test_or_an_owner_or_a_reason_to_have_neither() -> None:
    for line in lines():
        assert line.proofs or line.owners or line.here.startswith("differs: "), line.row
        assert {owner.removeprefix("owner: ") for owner in line.owners} <= PARTS, line.row
        assert all(owner.startswith("owner: ") for owner in line.owners), line.row


@pytest.mark.parametrize("proof", proofs())
def test_every_test_that_is_named_is_there(proof: str) -> None:
    found = PROOF.fullmatch(proof)
    assert found, "names no test"
    file, name, case = found["file"], found["name"], found["case"]
    if file == PARITY:
        assert (name, case in recorded_cases()) == (None, True)
    elif file.startswith("tests/"):
        assert name.startswith("test_")
        assert (case or "") in functions_of(file)[name][1]
    else:
        assert ">>> " in (ast.get_docstring(functions_of(file)[name][0]) or "")
