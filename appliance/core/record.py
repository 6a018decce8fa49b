"""How the values of this program are declared: frozen, slotted, keyword-only dataclasses."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

from appliance.core.kind import Kind

Declared = TypeVar("Declared")


def key(doc: str, kind: Kind[Any], *, default: Any = dataclasses.MISSING, absent: str = "", example: Any = None) -> Any:
    """Describe one key of a file.

    What it means, what it may hold, what it is when absent, in words where no value can say that, and what a person
    could write.
    """
    metadata = {"doc": doc, "kind": kind, "absent": absent, "example": example}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key,))
def record(cls: type[Declared]) -> type[Declared]:
    """Make a class a value."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)


@record
class Key:
    """What `key` says of a field."""

    name: str
    doc: str
    kind: Kind[Any]
    required: bool
    default: Any
    absent: str
    example: Any


def keys_of(cls: type[Any]) -> Mapping[str, Key]:
    """Return the described fields of a record by name, in their order."""
    fields = (found for found in dataclasses.fields(cls) if "kind" in found.metadata)
    return {
        found.name: Key(
            name=found.name,
            required=found.default is dataclasses.MISSING,
            default=None if found.default is dataclasses.MISSING else found.default,
            **found.metadata,
        )
        for found in fields
    }
