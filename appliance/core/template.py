"""Values of a recipe that depend on other values: `{name}` in a string, or a named formula."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

NAME = r"[A-Za-z][A-Za-z0-9_]*"
PLACE = re.compile(r"\{(" + NAME + r")\}")

Lookup = Callable[[str], Any]
"""Returns the value of a name; None when it is not set."""

ABSENT = {"absent": True}
"""A flag that only a layout row or a person sets; it has its place in the command line."""


def is_formula(raw: object) -> bool:
    """Tell whether a value of a recipe is a call of a formula: `{ formula = "name", of = [...] }`."""
    return isinstance(raw, dict) and "formula" in raw


def _parts(raw: object) -> Iterable[object]:
    """Return what a table or a list is made of; nothing for other values."""
    return raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ()


def misshapen(raw: object) -> str | None:
    """Return what is wrong with the calls of formulas in a value, whatever the formulas are.

    >>> misshapen({"a": {"formula": "f", "of": "x"}})
    'of wants a list of names and whole numbers'
    """
    if is_formula(raw):
        assert isinstance(raw, dict)
        of = raw.get("of", [])
        if raw.keys() - {"formula", "of"}:
            return f"a formula takes `of` and nothing else, found {', '.join(sorted(raw.keys() - {'formula', 'of'}))}"
        if not isinstance(of, list) or not all(type(item) in (str, int) for item in of):
            return "of wants a list of names and whole numbers"
        return None
    return next((fault for part in _parts(raw) if (fault := misshapen(part))), None)


def names_in(raw: object) -> frozenset[str]:
    """Return the names that a value depends on.

    >>> sorted(names_in({"a": "{cache}/{tag}", "b": {"formula": "f", "of": ["x", 3]}}))
    ['cache', 'tag', 'x']
    """
    if isinstance(raw, str):
        return frozenset(PLACE.findall(raw))
    if is_formula(raw):
        assert isinstance(raw, dict)
        return frozenset(name for name in raw.get("of", ()) if isinstance(name, str))
    return frozenset(name for part in _parts(raw) for name in names_in(part))


def formulas_in(raw: object) -> frozenset[str]:
    """Return the names of the formulas that a value calls."""
    if is_formula(raw):
        assert isinstance(raw, dict)
        return frozenset((str(raw["formula"]),))
    return frozenset(name for part in _parts(raw) for name in formulas_in(part))


def filled(raw: object, look_up: Lookup, formulas: Mapping[str, Callable[..., Any]]) -> Any:
    """Return a value with its names and formulas replaced; None when it is not set.

    A string that is one `{name}` keeps the type of what it names.

    >>> values, twice = {"n": 3, "root": "/c"}.get, {"twice": lambda n: 2 * n}
    >>> filled({"a": "{n}", "b": "{root}/x", "c": {"formula": "twice", "of": ["n"]}}, values, twice)
    {'a': 3, 'b': '/c/x', 'c': 6}
    """
    if raw == ABSENT:
        return None
    if isinstance(raw, str):
        whole = PLACE.fullmatch(raw)
        return look_up(whole[1]) if whole else _text(raw, look_up)
    if is_formula(raw):
        assert isinstance(raw, dict)
        given = (look_up(item) if isinstance(item, str) else item for item in raw.get("of", ()))
        return formulas[raw["formula"]](*given)
    if isinstance(raw, dict):
        table = {name: filled(part, look_up, formulas) for name, part in raw.items()}
        return {name: part for name, part in table.items() if part is not None}
    if isinstance(raw, list):
        return [filled(part, look_up, formulas) for part in raw]
    return raw


def _text(raw: str, look_up: Lookup) -> str | None:
    """Fill a text; one that names something unset is itself unset."""
    values = {name: look_up(name) for name in PLACE.findall(raw)}
    if any(value is None for value in values.values()):
        return None
    return PLACE.sub(lambda place: str(values[place[1]]), raw)
