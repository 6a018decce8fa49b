"""Values written as TOML, each on one line."""

import math
import re
from collections.abc import Mapping, Sequence

from appliance.core.kind import UnfitError

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
DEEPEST = 20


def toml_of(value: Value, depth: int = 0) -> str:
    """Return a value as TOML. Raises UnfitError for what TOML, or a key of ours, can't hold.

    >>> print(toml_of({"image": 4, "names": ["a", 'say "b"'], "max tokens": 0.5}))
    {image = 4, names = ["a", 'say "b"'], "max tokens" = 0.5}
    """
    if depth > DEEPEST:
        raise UnfitError("nested too deeply")
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _string(value)
        case int() | float():
            return _number(value)
        case Mapping():
            pairs = (f"{_key(name)} = {toml_of(item, depth + 1)}" for name, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case Sequence():
            return "[" + ", ".join(toml_of(item, depth + 1) for item in value) + "]"
    raise UnfitError("found null, which has no place in TOML")


def printable(text: str) -> str:
    r"""Return a text for a comment: one line, with nothing in it that a terminal acts upon.

    >>> printable("a\nb\x1b")
    'a\\nb\\u001b'
    """
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    if "\0" in text:
        raise UnfitError("found a NUL character in a string")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise UnfitError("found half a character (a lone surrogate) in a string")
    if ('"' in text or "\\" in text) and "'" not in text and text.isprintable():
        return f"'{text}'"
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"


def _number(number: float) -> str:
    if not math.isfinite(number):
        raise UnfitError(f"found {number}, wants a finite number")
    if isinstance(number, int) and abs(number) >= 1 << 63:
        raise UnfitError("found a number of more than 63 bits")
    return repr(number)
