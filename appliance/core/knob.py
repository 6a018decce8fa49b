"""What only a recipe knows: a named value with a default, a kind and a reason."""

import json
from collections.abc import Mapping
from typing import Any

from appliance.core.document import Reader
from appliance.core.kind import (
    ANY,
    COUNT,
    COUNTS,
    FLAG,
    NUMBER,
    PATH,
    PORT,
    TABLE,
    TEXT,
    TEXTS,
    Kind,
    UnfitError,
    shown,
)
from appliance.core.problem import did_you_mean
from appliance.core.record import key, record
from appliance.core.template import is_formula, names_in

KINDS: Mapping[str, Kind[Any]] = {
    "text": TEXT,
    "path": PATH,
    "count": COUNT,
    "bytes": COUNT,
    "port": PORT,
    "number": NUMBER,
    "flag": FLAG,
    "counts": COUNTS,
    "table": TABLE,
}
"""What a knob can hold, by the word that a recipe writes."""


@record
class KnobTable:
    """[knobs.NAME] of a recipe."""

    kind: str = key("what it holds", TEXT)
    doc: str = key("what it does", TEXT)
    default: Any = key("its value when the file says nothing; absent for none", ANY, default=None)
    choices: tuple[str, ...] = key("the values that it takes; absent for any", TEXTS, default=())
    least: int | None = key("smallest number that makes sense", COUNT, default=None)
    source: str = key("where the number comes from", TEXT, default="")


@record
class Knob:
    """One knob of a recipe."""

    name: str
    kind: str
    doc: str
    default: str | None
    """JSON of what stands in the recipe; None when it has no value unless somebody sets it."""
    choices: tuple[str, ...]
    least: int | None
    source: str
    origin: str


def knobs_of(reader: Reader, path: tuple[str, ...]) -> tuple[Knob, ...]:
    """Read the [knobs] of a recipe."""
    knobs = []
    for name, table in reader.table(path).items():
        place = (*path, name)
        if not isinstance(table, dict):
            reader.refuse(place, "wants a table", f"write [{'.'.join(place)}]")
        elif found := reader.record(KnobTable, place, table):
            knobs.append(_knob(reader, place, found))
    return tuple(knobs)


def _knob(reader: Reader, place: tuple[str, ...], found: KnobTable) -> Knob:
    if found.kind not in KINDS:
        reader.refuse((*place, "kind"), f"found {shown(found.kind)}", did_you_mean(found.kind, KINDS))
    elif found.default is not None and not (is_formula(found.default) or names_in(found.default)):
        try:
            KINDS[found.kind].read(found.default)
        except UnfitError as error:
            reader.refuse((*place, "default"), str(error))
    return Knob(
        name=place[-1],
        kind=found.kind,
        doc=found.doc,
        default=None if found.default is None else json.dumps(found.default),
        choices=found.choices,
        least=found.least,
        source=found.source,
        origin=reader.document.origin(place),
    )


def fitted(knob: Knob, found: object) -> Any:
    """Return a value that a person gives a knob. Raises UnfitError with what it wants."""
    value = KINDS[knob.kind].read(found)
    if knob.choices and value not in knob.choices:
        raise UnfitError(f"found {shown(value)}, wants one of {', '.join(knob.choices)}")
    if knob.least is not None and isinstance(value, (int, float)) and value < knob.least:
        raise UnfitError(f"found {shown(value)}, wants at least {knob.least}")
    return value
