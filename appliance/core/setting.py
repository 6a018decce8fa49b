"""One flag of vLLM or one variable of its environment, with the place that set it."""

import json
import math
import re
from typing import Any

from appliance.core.kind import UnfitError, shown
from appliance.core.record import record

Scalar = str | int | float | bool


@record
class Json:
    """A table, kept as its JSON text so that a value stays hashable."""

    text: str


@record
class Setting:
    """A flag by its vLLM name, with underscores, and its value."""

    name: str
    value: Scalar | tuple[Scalar, ...] | Json
    origin: str
    """Where the value comes from: `file:line`, a recipe, or `derived`."""


@record
class Variable:
    """One variable of the engine's environment."""

    name: str
    value: str
    origin: str


def setting_value(found: object) -> Scalar | tuple[Scalar, ...] | Json:
    """Read the value of a flag. Raises UnfitError for dates and numbers that are not finite."""
    if isinstance(found, dict):
        return Json(text=_json(found))
    if isinstance(found, list):
        if any(isinstance(item, (dict, list)) for item in found):
            return Json(text=_json(found))
        return tuple(_scalar(item) for item in found)
    return _scalar(found)


def knob_value(found: object) -> Scalar | tuple[Scalar, ...] | Json:
    """Read the value of a knob: any that JSON can hold; text may begin with a dash. Raises UnfitError."""
    if isinstance(found, (dict, list)):
        return Json(text=_json(found))
    return found if isinstance(found, str) and "\0" not in found else _scalar(found)


def plain(value: Scalar | tuple[Scalar, ...] | Json) -> Any:
    """Return a value as JSON has it: a scalar, a list or a table."""
    if isinstance(value, Json):
        return json.loads(value.text)
    return list(value) if isinstance(value, tuple) else value


def _json(found: object) -> str:
    try:
        return json.dumps(found, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise UnfitError(f"found {shown(found)}, which JSON can't hold") from None


def _scalar(found: object) -> Scalar:
    if isinstance(found, float) and not math.isfinite(found):
        raise UnfitError(f"found {found}, wants a finite number")
    if not isinstance(found, (str, int, float, bool)):
        raise UnfitError(f"found {shown(found)}, wants a string, number, boolean, list or table")
    if isinstance(found, int) and abs(found) >= 1 << 63:
        raise UnfitError(f"found {shown(found)}, wants at most 63")
    if isinstance(found, str) and "\0" in found:
        raise UnfitError("found a NUL character in a string")
    if isinstance(found, str) and found.startswith("-"):
        raise UnfitError(f"found {shown(found)}, which vLLM would take for another flag")
    return found


def arguments_of(setting: Setting) -> tuple[str, ...]:
    """Return the command-line arguments of a flag.

    >>> arguments_of(Setting(name="max_model_len", value=1024, origin=""))
    ('--max-model-len', '1024')
    >>> arguments_of(Setting(name="enforce_eager", value=False, origin=""))
    ('--no-enforce-eager',)
    >>> arguments_of(Setting(name="served_model_name", value=("a", "b"), origin=""))
    ('--served-model-name', 'a', 'b')
    >>> arguments_of(Setting(name="watermark", value=-0.5, origin=""))
    ('--watermark=-0.5',)
    """
    flag = setting.name.replace("_", "-")
    value: Any = setting.value
    if value is True:
        return (f"--{flag}",)
    if value is False:
        return (f"--no-{flag}",)
    if isinstance(value, Json):
        return (f"--{flag}", value.text)
    values = tuple(argument_of(item) for item in (value if isinstance(value, tuple) else (value,)))
    if len(values) == 1 and looks_like_a_flag(values[0]):
        return (f"--{flag}={values[0]}",)
    return (f"--{flag}", *values)


def looks_like_a_flag(argument: str) -> bool:
    """Tell whether vLLM's parser would take a value for a flag when it stands alone; whole numbers it knows."""
    return argument.startswith("-") and not re.fullmatch(r"-\d+", argument)


def argument_of(value: Scalar) -> str:
    """Return a value as one argument."""
    return str(value).lower() if isinstance(value, bool) else str(value)
