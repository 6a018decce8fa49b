"""What a key of a file may hold: each kind turns a TOML value into ours or says why it can't."""

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

SPAN_UNITS = {
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
"""Seconds in a unit, by the names of systemd.time(7) that make sense here."""

OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"{OCTET}(\.{OCTET}){{3}}"
IPV6 = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[^%]+)?"
LABEL = r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?"
NUMBER_SHAPE = r"[0-9]+(\.[0-9]+)?"
"""Patterns that Python, and the JSON Schema of editors, read alike."""

NAME_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
DEVICE_SHAPE = re.compile(r"(GPU|MIG)-[0-9a-fA-F-]{4,60}")
MODEL_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
HOST_SHAPE = re.compile(rf"(?![0-9.]+$){LABEL}(\.{LABEL})*")
PREFIX_SHAPE = re.compile(rf"({OCTET}\.){{1,3}}")
SPAN_PART = re.compile(rf"\s*({NUMBER_SHAPE})\s*([a-z]*)")

LONGEST_HOST = 253
"""Characters; the limit of the DNS."""

Schema = Mapping[str, Any]
"""What JSON Schema can say of a kind; it may take more than the kind does, never less."""


class UnfitError(ValueError):
    """A value that its key can't hold; the text says what was found and what is wanted."""


class NotYetError(UnfitError):
    """Something of the machine that is not there, and may still come."""


def as_toml(value: Any) -> Any:
    """Return one of our values as TOML has it: tuples are lists there."""
    return [as_toml(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Kind(Generic[Value]):
    """A kind of value: its name for people, and the reading of it."""

    name: str
    read: Callable[[object], Value]
    schema: Schema = field(default_factory=dict, compare=False)
    write: Callable[[Any], Any] = field(default=as_toml, compare=False)
    """The way back from our value to TOML's."""


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


def _model(found: object) -> str:
    model = _text(found)
    if not model.startswith("/") and not MODEL_SHAPE.fullmatch(model):
        raise UnfitError(f"found {shown(model)}, wants an absolute path, or NAME or ORG/NAME below [paths] models")
    return model


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
        if part[3] not in SPAN_UNITS:
            break
        seconds, end = seconds + float(part[1]) * SPAN_UNITS[part[3]], part.end()
        if not part[3]:
            break
    if not text or text[end:].strip() or not math.isfinite(seconds):
        raise UnfitError(f'found {shown(found)}, wants a time span such as "90s" or "5min"')
    return seconds


def shown_span(seconds: float) -> str:
    """Return a time span as a person writes it, with nothing lost.

    >>> shown_span(5400), shown_span(20), shown_span(1.5)
    ('1h 30min', '20s', '1.5s')
    """
    if seconds % 1 or not 0 < seconds < 1 << 53:
        return f"{Decimal(repr(float(seconds))):f}s"
    parts, left = [], int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts)


def _texts(found: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in typed(found, list, "a list of strings"))


def _count(found: object) -> int:
    count = typed(found, int, "a whole number")
    if abs(count) >= 1 << 63:
        raise UnfitError(f"found {shown(count)}, wants a whole number")
    return count


def _counts(found: object) -> tuple[int, ...]:
    return tuple(_count(item) for item in typed(found, list, "a list of whole numbers"))


def _number(found: object) -> float:
    if isinstance(found, int):
        return _count(typed(found, int, "a number"))
    number = typed(found, float, "a number")
    if not math.isfinite(number):
        raise UnfitError(f"found {shown(number)}, wants a finite number")
    return number


def _positive(found: object) -> int:
    number = typed(found, int, "a whole number of at least 1")
    if not 1 <= number < 1 << 31:
        raise UnfitError(f"found {shown(number)}, wants a whole number of at least 1")
    return number


def _names(found: object) -> tuple[str, ...]:
    names = (_text(found),) if isinstance(found, str) else _texts(found)
    if not names or len(set(names)) < len(names):
        raise UnfitError(f"found {shown(found)}, wants a name or a list of different names")
    if dashed := next((name for name in names if name.startswith("-")), None):
        raise UnfitError(f"found {shown(dashed)}, which vLLM would take for another flag")
    return names


def _devices(found: object) -> tuple[str, ...]:
    devices = tuple(_device(item) for item in typed(found, list, "a list of indexes or GPU-UUIDs"))
    if not devices or len(set(devices)) < len(devices):
        raise UnfitError(f"found {shown(found)}, wants at least one GPU and each only once")
    return devices


def _device(found: object) -> str:
    if isinstance(found, str) and DEVICE_SHAPE.fullmatch(found):
        return found
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1024:
        raise UnfitError(f"found {shown(found)}, wants the index of a GPU or its UUID, GPU-...")
    return str(found)


def _host(found: object) -> str:
    host = _text(found)
    if len(host) > LONGEST_HOST or not (HOST_SHAPE.fullmatch(host) or is_address(host)):
        raise UnfitError(f"found {shown(host)}, wants an IP address or a host name")
    return host


def is_address(text: str) -> bool:
    """Tell whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _subnet(found: object) -> str:
    subnet = _text(found)
    if PREFIX_SHAPE.fullmatch(subnet):
        return subnet
    try:
        return str(ipaddress.ip_network(subnet, strict=False)) if "/" in subnet else str(ipaddress.ip_address(subnet))
    except ValueError:
        raise UnfitError(
            f'found {shown(subnet)}, wants the start of addresses, "10.10.1.", or "10.10.1.0/24"'
        ) from None


def _subnets(found: object) -> tuple[str, ...]:
    return tuple(_subnet(item) for item in typed(found, list, "a list of subnets"))


def one_of(*words: str) -> "Kind[str]":
    """Return the kind of a few words."""

    def read(found: object) -> str:
        if found not in words or not isinstance(found, str):
            raise UnfitError(f"found {shown(found)}, wants one of {', '.join(words)}")
        return found

    return Kind(" | ".join(f'"{word}"' for word in words), read, {"enum": list(words)})


def _pattern(*choices: str) -> Schema:
    return {"type": "string", "pattern": f"^({'|'.join(choices)})$"}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _span_schema() -> Schema:
    units = "|".join(sorted(filter(None, SPAN_UNITS), key=lambda unit: (-len(unit), unit)))
    part = rf"{NUMBER_SHAPE}\s*({units})"
    return _pattern(rf"\s*({part}\s*)+({NUMBER_SHAPE}\s*)?", rf"\s*{NUMBER_SHAPE}\s*")


def _flag(found: object) -> bool:
    return typed(found, bool, "true or false")


_SOME_TEXT = _pattern(r"[^\u0000]*[^\s\u0000][^\u0000]*")
_SOME_NAME = _pattern(r"(?!-)[^\u0000]*[^\s\u0000][^\u0000]*")
_SOME_ADDRESS = _pattern("localhost", IPV4, IPV6)
_DEVICE = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 1023}, _pattern(DEVICE_SHAPE.pattern)]}
_SUBNET = _pattern(PREFIX_SHAPE.pattern, rf"({IPV4}|{IPV6})(/[0-9.]+)?")

TEXT = Kind("string", _text, _SOME_TEXT)
NAME = Kind("plain name", _name, _pattern(NAME_SHAPE.pattern))
FLAG = Kind("true or false", _flag, {"type": "boolean"})
PORT = Kind("port", _port, {"type": "integer", "minimum": 1, "maximum": 65535})
PATH = Kind("absolute path", _path, _pattern(r"/[^\u0000]*"))
MODEL = Kind("absolute path or name", _model, _pattern(r"/[^\u0000]*", MODEL_SHAPE.pattern))
ADDRESS = Kind("IP address", _address, _SOME_ADDRESS)
SPAN = Kind("time span", _span, _span_schema(), shown_span)
TEXTS = Kind("list of strings", _texts, _list(_SOME_TEXT))
COUNT = Kind("whole number", _count, {"type": "integer"})
COUNTS = Kind("list of whole numbers", _counts, _list({"type": "integer"}))
NUMBER = Kind("number", _number, {"type": "number"})
POSITIVE = Kind("whole number of at least 1", _positive, {"type": "integer", "minimum": 1, "maximum": (1 << 31) - 1})
NAMES = Kind(
    "string or list of strings",
    _names,
    {"anyOf": [_SOME_NAME, _list(_SOME_NAME, minItems=1, uniqueItems=True)]},
    lambda names: names[0] if len(names) == 1 else list(names),
)
DEVICES = Kind(
    "list of GPU indexes or UUIDs",
    _devices,
    _list(_DEVICE, minItems=1, uniqueItems=True),
    lambda devices: [int(device) if device.isdecimal() else device for device in devices],
)
HOST = Kind("IP address or host name", _host, _pattern(HOST_SHAPE.pattern, IPV4, IPV6))
SUBNETS = Kind("list of subnets", _subnets, _list(_SUBNET))
TABLE = Kind("table", lambda found: typed(found, dict, "a table"))
ANY = Kind("any value", lambda found: found)
