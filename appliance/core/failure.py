"""A failed start or a lost engine, as it is kept for the one who looks later, and as it is told."""

from collections.abc import Iterable, Iterator

from appliance.core.cause.derivation import how_it_ended
from appliance.core.diagnosis import Diagnosis, quoted
from appliance.core.record import record

KEPT = 60
"""Lines of the engine's last ones that are kept as they were printed."""


@record
class Failure:
    """last-failure.json: what failed, when, and why."""

    time: str
    """When it was noticed: ISO 8601 with the zone."""
    launch: int
    """Which launch of the service's life it was, from 1."""
    phase: str
    """What the service was doing."""
    status: int | None
    """How the API server ended: an exit status, negative for a signal; None where it was ended, because it hung."""
    elapsed: float
    """Seconds from the launch to its end."""
    engine: str | None
    model: str | None
    diagnosis: Diagnosis
    lines: tuple[str, ...] = ()
    """The engine's last lines as they were printed, of all processes, oldest first."""


def kept(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the last lines as they may be kept: not too many, not endless, without secrets.

    >>> kept(["one", "vllm --api-key abc"])
    ('one', 'vllm --api-key (hidden)')
    """
    return tuple(quoted(line) for line in tuple(lines)[-KEPT:])


def story(failure: Failure) -> Iterator[str]:
    """Yield what a person is told of a failure, a line each."""
    found = failure.diagnosis
    how = "it hung and was ended" if failure.status is None else how_it_ended(failure.status)
    yield f"{failure.time}: engine {failure.launch} failed while {failure.phase}, after {failure.elapsed:.0f} s ({how})"
    of = [f"{name} {value}" for name, value in (("model", failure.model), ("engine", failure.engine)) if value]
    if of:
        yield ", ".join(of)
    yield ""
    yield f"what:  {found.summary} ({found.id})"
    if found.remedy:
        yield f"do:    {found.remedy}"
    if found.line:
        yield f"read:  {found.speaker + ' said: ' if found.speaker else ''}{found.line}"
    yield f"again: {'nothing mends itself' if found.permanent else 'another try may go well'}"
    if found.lines:
        yield ""
        yield "the last lines that matter:"
        yield from (f"    {line}" for line in found.lines)
