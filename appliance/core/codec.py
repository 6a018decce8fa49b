"""Records to JSON and back."""

import json
from typing import Any, TypeVar

import cattrs

Value = TypeVar("Value")

_CONVERTER = cattrs.GenConverter(forbid_extra_keys=True)


def json_of(value: Any) -> str:
    """Return a record as one line of JSON."""
    return json.dumps(_CONVERTER.unstructure(value), ensure_ascii=False)


def record_of(cls: type[Value], text: str) -> Value:
    """Read a record from JSON. Raises ValueError when the text is not such a record."""
    table = json.loads(text)
    if not isinstance(table, dict):
        raise ValueError(f"not a {cls.__name__}: {text[:60]}")
    try:
        return _CONVERTER.structure(table, cls)
    except (cattrs.errors.BaseValidationError, cattrs.errors.ForbiddenExtraKeysError, TypeError, KeyError) as error:
        raise ValueError(f"not a {cls.__name__}: {_innermost(error)}") from error


def _innermost(error: BaseException) -> str:
    """Return the first cause in a tree of errors, with the field that it is about."""
    notes: list[str] = []
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        notes += getattr(error, "__notes__", [])
    field = notes[-1].rpartition(" ")[2] if notes else ""
    what = f"missing {error}" if isinstance(error, KeyError) else str(error)
    return f"{field}: {what}" if field else what
