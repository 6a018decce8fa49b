"""What real engines and kernels said, as tests read it."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from appliance.core.diagnosis import Evidence
from appliance.engine.line import line_of, split_lines

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS / "logs", TESTS / "fixtures/engine-logs")
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((TESTS / "logs/expected.toml").read_text())
WORDINGS: list[dict[str, Any]] = tomllib.loads((TESTS / "logs/wordings.toml").read_text())["wording"]

NONE = ("sound start", "asked stop")
"""What there is nothing to diagnose in."""


@cache
def lines_of(name: str) -> tuple[str, ...]:
    """Return the lines of a log as the supervisor keeps them."""
    file = next(file for folder in FOLDERS if (file := folder / f"{name}.log").exists())
    lines, rest = split_lines(file.read_bytes())
    return tuple(line_of(line).text for line in [*lines, rest])


def evidence_for(known: dict[str, Any], **more: Any) -> Evidence:
    """Return the evidence that an entry of either file has beside the lines."""
    fields = {name: known[name] for name in ("ready", "stalled", "oom_kills", "port") if name in known}
    kernel = known.get("kernel")
    said = known["lines"] if kernel is True else kernel
    return Evidence(kernel=None if said is None else tuple(said), **fields, **more)


class Witness(NamedTuple):
    """A failure, as its engine or the kernel told of it."""

    source: str
    """The log, or the address where it was reported."""
    id: str
    """What it is."""
    lines: tuple[str, ...]
    evidence: Evidence


def witnesses() -> list[Witness]:
    """Return every failure: real logs and reported wordings."""
    logs = [Witness(name, want["is"], lines_of(name), evidence_for(want)) for name, want in EXPECTED.items()]
    said = [
        Witness(want["source"], want["id"], () if want.get("kernel") else tuple(want["lines"]), evidence_for(want))
        for want in WORDINGS
    ]
    return [found for found in [*logs, *said] if found.id not in NONE]


def subject(wording: dict[str, Any]) -> str:
    """Return a name for a test."""
    return f"{wording['id']}:{wording['source'].rpartition('github.com/')[2]}"
