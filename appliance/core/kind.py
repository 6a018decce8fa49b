"""What a key of a file may hold: each kind turns a TOML value into ours or says why it can't."""

import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")

SPAN_UNITS = {
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
"""Seconds in a unit, by the names of systemd.time(7) that make sense here."""

NAME_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
SPAN_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)")


class UnfitError(ValueError):
    """A value that its key can't hold; the text says what was found and what is wanted."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[Value]):
    """A kind of value: its name for people, and the reading of it."""

    name: str
    read: Callable[[object], Value]


def shown(found: object) -> str:
    """Return a TOML value as a message shows it, cut to a readable length."""
    match found:
        case bool():
            text = str(found).lower()
        case str():
            text = f'"{found[:100]}"'
        case int() if abs(found) >= 1 << 63:
            text = "a number of more than 63 bits"
        case dict() | list():
            text = "a table" if isinstance(found, dict) else f"a list of {len(found)}"
        case _:
            text = str(found)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def typed(found: object, wanted: type[Value], name: str) -> Value:
    """Return a value of the wanted TOML type; a boolean is never a number."""
    if isinstance(found, wanted) and not (isinstance(found, bool) and wanted is not bool):
        return found
    raise UnfitError(f"found {shown(found)}, wants {name}")


def _text(found: object) -> str:
    text = typed(found, str, "a string")
    if not text.strip():
        raise UnfitError("found an empty string")
    if "\0" in text:
        raise UnfitError("found a NUL character in a string")
    return text


def _name(found: object) -> str:
    name = _text(found)
    if not NAME_SHAPE.fullmatch(name):
        raise UnfitError(f"found {shown(name)}, wants a plain name of letters, digits and ._+-")
    return name


def _port(found: object) -> int:
    port = typed(found, int, "a port number")
    if not 1 <= port <= 65535:
        raise UnfitError(f"found {shown(port)}, wants a port from 1 to 65535")
    return port


def _path(found: object) -> str:
    path = _text(found)
    if not path.startswith("/"):
        raise UnfitError(f"found {shown(path)}, wants an absolute path")
    return path


def _address(found: object) -> str:
    address = _text(found)
    if address == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise UnfitError(f"found {shown(address)}, wants an IP address of this machine") from None


def _span(found: object) -> float:
    text = _text(found) if isinstance(found, str) else None
    seconds, end = 0.0, 0
    while text and (part := SPAN_PART.match(text, end)):
        if part[2] not in SPAN_UNITS:
            break
        seconds, end = seconds + float(part[1]) * SPAN_UNITS[part[2]], part.end()
    if not text or text[end:].strip() or not math.isfinite(seconds):
        raise UnfitError(f'found {shown(found)}, wants a time span such as "90s" or "5min"')
    return seconds


def _texts(found: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in typed(found, list, "a list of strings"))


def _flag(found: object) -> bool:
    return typed(found, bool, "true or false")


TEXT = Kind("string", _text)
NAME = Kind("plain name", _name)
FLAG = Kind("true or false", _flag)
PORT = Kind("port", _port)
PATH = Kind("absolute path", _path)
ADDRESS = Kind("IP address", _address)
SPAN = Kind("time span", _span)
TEXTS = Kind("list of strings", _texts)
COUNT = Kind("whole number", lambda found: typed(found, int, "a whole number"))
