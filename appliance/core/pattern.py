"""Regular expressions that other people write: bounded, for some need time that grows exponentially with the text."""

import math
import re

from appliance.core.kind import TEXT, Kind, UnfitError

PATIENCE = 1.0
"""Seconds for one search; sound patterns take microseconds."""

TRIAL = 0.2
"""Seconds for one of the texts that a pattern is tried on; there are up to fifty."""

LONGEST_PATTERN = 1000
"""Characters; none that a person reads comes near."""

REPEATED = re.compile(r"\{(\d{1,20})")
MOST_REPEATED = 100_000
"""The product of a pattern's fixed counts; a compiled pattern holds what is repeated as often as it must come, and
`a{1000000000}` takes all memory of the machine."""

PUMPED = 2000
"""Characters of the texts that a pattern is tried on: a nested repetition is lost after 30."""


class ExplodedError(Exception):
    """A search that did not end in time."""


def finds(pattern: str, text: str, seconds: float = PATIENCE) -> bool:
    """Tell whether a pattern finds something in a text. Raises ExplodedError when that takes too long."""
    import regex  # noqa: PLC0415  # few questions have a pattern, and every command reads questions

    try:
        return regex.search(pattern, text, timeout=seconds) is not None
    except TimeoutError:
        raise ExplodedError(f"the pattern did not end within {seconds:g} s on {len(text)} characters") from None


def _pattern(found: object) -> str:
    pattern = TEXT.read(found)
    if len(pattern) > LONGEST_PATTERN:
        raise UnfitError(f"found a pattern of {len(pattern)} characters, at most {LONGEST_PATTERN}")
    # With (?x) a count may have blanks and comments in it.
    forms = (pattern, re.sub(r"\s|#.*", "", pattern))
    if any(math.prod(max(1, int(n)) for n in REPEATED.findall(form)) > MOST_REPEATED for form in forms):
        raise UnfitError(f"found a pattern whose fixed counts multiply to more than {MOST_REPEATED}")
    import regex  # noqa: PLC0415  # as above

    try:
        regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise UnfitError(f"not a regular expression: {error}") from None
    for text in _pumped(pattern):
        try:
            finds(pattern, text, TRIAL)
        except ExplodedError:
            raise UnfitError(
                f'a pattern that needs more than {TRIAL:g} s for {len(text)} characters such as "{text[:8]}..."; '
                "write it without a repetition inside a repetition"
            ) from None
    return pattern


def _pumped(pattern: str) -> list[str]:
    """Return texts that a nested repetition takes longest for: what the pattern names, many times, then a misfit."""
    named = sorted({char for char in pattern if char.isalnum() or char == " "} | {"a", "0", " "})
    words = re.findall(r"[^\W_]{2,}", pattern)
    return [(unit * PUMPED)[:PUMPED] + "\0" for unit in (*named[:40], *words[:10])]


PATTERN = Kind("regular expression", _pattern, TEXT.schema)
