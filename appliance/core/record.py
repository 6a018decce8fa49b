"""How the values of this program are declared: frozen, slotted, keyword-only dataclasses."""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

from appliance.core.kind import Kind

Declared = TypeVar("Declared")


def key(doc: str, kind: Kind[Any], *, default: Any = dataclasses.MISSING) -> Any:
    """Describe one key of a file: what it means, what it may hold, what it is when absent."""
    metadata = {"doc": doc, "kind": kind}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key,))
def record(cls: type[Declared]) -> type[Declared]:
    """Make a class a value."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
