"""What the text of a variable becomes; each reading raises UnfitError with what was found and what is wanted."""

import json
import re
from collections.abc import Callable
from typing import Any

from appliance.core import kind
from appliance.core.imported.toml import Value
from appliance.core.kind import ADDRESS, DEVICES, HOST, PATH, PORT, SUBNETS, TEXT, Kind, UnfitError, shown

Reading = Callable[[str], Value]

DIGITS = re.compile(r"[0-9]+")
DECIMAL = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
SHORT_AMOUNT = re.compile(r"[1-9][0-9]*[kKmMgG]")
SHORT_LENGTH = re.compile(r"[0-9]+(\.[0-9]+)?[kKmMgGtT]|auto")


def whole(least: int) -> Callable[[str], int]:
    """Return the reading of a whole number; zeros in front do not make it octal.

    >>> whole(1)("010")
    10
    """

    def read(text: str) -> int:
        if not DIGITS.fullmatch(text):
            raise UnfitError(f"found {shown(text)}, wants a whole number")
        number = int(text.lstrip("0")[:20] or "0")
        if number >= 1 << 63:
            raise UnfitError("found a number of more than 63 bits")
        if number < least:
            raise UnfitError(f"found {shown(text)}, wants at least {least}")
        return number

    return read


def length(text: str) -> Value:
    """Read a length in tokens, which vLLM also takes as 128k, and as auto or -1."""
    if text == "-1":
        return -1
    return text if SHORT_LENGTH.fullmatch(text) else whole(1)(text)


def amount(text: str) -> Value:
    """Read a whole number of at least 1, which vLLM also takes as 16k or 8G."""
    return text if SHORT_AMOUNT.fullmatch(text) else whole(1)(text)


def decimal(text: str) -> Value:
    """Read a number with or without a fraction."""
    if not DECIMAL.fullmatch(text):
        raise UnfitError(f"found {shown(text)}, wants a number such as 0.88")
    return float(text) if "." in text else whole(0)(text)


def of_kind(wanted: Kind[Any]) -> Reading:
    """Return the reading of a text by the kind of the key that takes it."""

    def read(text: str) -> Value:
        value: Value = wanted.read(text)
        return value

    return read


plain = of_kind(TEXT)
path = of_kind(PATH)
address = of_kind(ADDRESS)
host = of_kind(HOST)


def port(text: str) -> Value:
    """Read a TCP port."""
    return PORT.read(whole(1)(text))


def flag_value(text: str) -> Value:
    """Read the text of a flag; vLLM would take one with a dash in front for another flag."""
    if text.startswith("-"):
        raise UnfitError(f"found {shown(text)}, which vLLM would take for another flag")
    return plain(text)


def one_of(*choices: str) -> Reading:
    """Return the reading of one word out of a few."""
    return of_kind(kind.one_of(*choices))


def words(text: str) -> list[str]:
    """Read words with white space between them."""
    found = text.split()
    if not found:
        raise UnfitError("found blanks only, wants at least one word")
    return found


def names(text: str) -> Value:
    """Read one name, or a list of several; a name that comes again says nothing new."""
    found = list(dict.fromkeys(words(text)))
    return found[0] if len(found) == 1 else found


def subnets(text: str) -> Value:
    """Read subnets, or the starts of their addresses, with white space between them."""
    found = words(text)
    SUBNETS.read(found)
    return found


def numbers(text: str) -> Value:
    """Read whole numbers with white space between them."""
    return [whole(1)(word) for word in words(text)]


def devices(text: str) -> Value:
    """Read CUDA's list of GPUs: numbers, or UUIDs."""
    found = [device.strip() for device in text.split(",")]
    read: list[Value] = [whole(0)(device) if DIGITS.fullmatch(device) else device for device in found]
    DEVICES.read(read)
    return read


def json_object(text: str) -> dict[str, Value]:
    """Read a JSON object; the order of its keys stays."""
    try:
        found = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise UnfitError(f"found {shown(text)}, not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise UnfitError("nested too deeply") from None
    except ValueError as error:
        # Python reads no number of more than 4300 digits.
        raise UnfitError(str(error) if isinstance(error, UnfitError) else "a number is too large to be read") from None
    if not isinstance(found, dict):
        raise UnfitError(f"found {shown(found)}, wants a JSON object")
    return found


def _no_number(name: str) -> None:
    raise UnfitError(f"found {name}, wants a finite number")
