"""How a cause of failure is described: what the engine prints, what that means, and what a person does about it."""

import enum
import re
from collections.abc import Callable, Mapping

from appliance.core.record import record

Fields = Mapping[str, str]
"""What is known by name: numbers that a line holds, settings of the plan."""

OPTIONAL = re.compile(r"<([^<>]*)>")
FIELD = re.compile(r"\{(\w+)\}")


class Depth(enum.IntEnum):
    """How near to the root a cause lies; where several are seen, the nearest counts, and of those the first."""

    MACHINE = 0
    """The kernel did it."""
    CAUSE = 1
    """It stands by itself."""
    HINT = 2
    """It may be the cause; what stands by itself outweighs it."""
    LOSS = 3
    """A process is gone, which has a reason of its own."""
    WAIT = 4
    """Somebody waited for another in vain."""
    ECHO = 5
    """Somebody only reports that another has failed."""


class When(enum.Enum):
    """In which failures a rule counts."""

    START = "start"
    """Before the engine ever answered: later the same words come from a request."""
    EVER = "ever"
    STALL = "stall"
    """Only where nothing moved any more: a sound start says it too, and goes on."""


class Source(enum.Enum):
    """Whose words a rule reads."""

    ENGINE = "engine"
    KERNEL = "kernel"


@record
class Rule:
    """One cause, by what is said of it. Patterns see a text without its prefix, never a file or a line number."""

    id: str
    """Stable name, `topic.subject`."""
    says: tuple[str, ...]
    """Regular expressions, one for each wording; their named groups are fields."""
    summary: str
    """What happened, with fields in braces; what stands between < and > is left out where a field is not known."""
    remedy: str
    """What to do, in the imperative, with the keys of vllm-serve.toml by their section; fields as above."""
    permanent: bool = True
    """Whether nothing mends itself."""
    depth: Depth = Depth.CAUSE
    when: When = When.START
    source: Source = Source.ENGINE
    within: str = ""
    """A regular expression that a function or source line of the exception's traceback must hold."""
    unless: str = ""
    """A regular expression that no later line holds."""
    quietly: bool = False
    """Also where the line was logged as a warning or as information."""
    derive: Callable[[Fields], Fields] | None = None
    """More fields from those of the line."""


def filled(template: str, fields: Fields) -> str:
    """Return a template with its fields.

    >>> filled("{free} is free<, {total} is there><; stop {other}>", {"free": "1 GiB", "total": "8 GiB"})
    '1 GiB is free, 8 GiB is there'
    """

    def part(found: re.Match[str]) -> str:
        known = all(name in fields for name in FIELD.findall(found[1]))
        return found[1] if known else ""

    return FIELD.sub(lambda found: fields.get(found[1], "?"), OPTIONAL.sub(part, template))
