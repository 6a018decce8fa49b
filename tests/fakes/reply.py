"""What a route hands to the server."""

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeAlias


@dataclasses.dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    body: Any
    """An object for JSON, or text."""
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Stream:
    """Server-sent events."""

    events: Iterator[dict[str, Any]]


Answer: TypeAlias = Reply | Stream
