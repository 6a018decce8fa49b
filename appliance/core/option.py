"""The flags that one vLLM takes and the variables that it reads, and what is wrong with the text of a value."""

import json
import math
import re

from appliance.core.kind import shown
from appliance.core.problem import did_you_mean
from appliance.core.record import record

HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
HUMAN_IN_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|\b\d+(?:\.\d+)?[kKmMgGtT]\b')
TABLE = re.compile(r"\s*\{.*\}\s*", re.DOTALL)

ADDED = "added"
"""The kind of a flag that only a recipe's own engine knows."""

MOST_SEARCHES = 20
"""Names of one check for which near ones are searched, which takes some milliseconds each."""

WANTED = {
    "flag": "true",
    "switch": "true or false",
    "int": "a whole number",
    "human_int": "a whole number such as 4096 or 4k",
    "float": "a number",
    "str": "a string",
    "json": "a table or the text of JSON",
}
"""What each kind wants, for people."""


@record
class Option:
    """One flag of `vllm serve`."""

    name: str
    """Without dashes in front, with underscores: `max_model_len`."""
    kind: str
    """`flag` (on), `switch` (on and --no-), `int`, `human_int` (4k, 1M), `float`, `str` or `json`."""
    several: bool = False
    """True when it takes a list of values."""
    choices: tuple[str, ...] = ()
    """Values that it takes; empty for any."""
    aliases: tuple[str, ...] = ()
    """Other names for it, without dashes in front, with underscores."""
    short: tuple[str, ...] = ()
    """Names for it that stand after one dash: `tp`."""
    optional: bool = False
    """True when the text None, or an empty one, means that nothing is set."""
    auto: bool = False
    """True for a whole number that may also be the word auto."""
    folded: bool = False
    """True when capitals and dashes in a value count as small letters and underscores."""
    text: bool = False
    """True for JSON that may also be a plain string."""
    table: bool = False
    """True for JSON that must be a table; numbers in it may be written 4k or 1M."""
    bare: bool = False
    """True when it may stand without a value."""
    deprecated: bool = False


@record
class OptionList:
    """What one version of vLLM takes."""

    vllm: str
    """Its version, without the build: `0.32.0`."""
    options: tuple[Option, ...]
    variables: tuple[str, ...]
    """Environment variables that vLLM's envs.py names, and the VLLM_ ones that its other modules look up."""
    origin: str = ""
    """Where the list was read from; empty in the file itself."""

    def is_of(self, vllm: str) -> bool:
        """Tell whether the list describes a version, whatever its build.

        >>> OptionList(vllm="0.32.0", options=(), variables=()).is_of("0.32.0+cpu")
        True
        """
        return bool(self.vllm) and self.vllm == vllm.partition("+")[0]


@record
class Fault:
    """What is wrong with a value, and the way out."""

    what: str
    hint: str = ""


def fault_of(option: Option, text: str, found: object = None) -> Fault | None:
    """Return what vLLM's parser has against the text of one value; None when it takes it.

    `found` is the value as it was written, for the message. The parser judges form only: what a table may
    hold, and which numbers make sense, vLLM finds out later.

    >>> fault_of(Option(name="seed", kind="int"), "x")
    Fault(what='found "x", wants a whole number', hint='')
    """
    found = text if found is None else found
    if option.optional and text in ("", "None"):
        return None
    if option.auto and text.strip().lower() == "auto":
        return None
    match option.kind:
        case "int" | "human_int":
            fault = None if _whole(option, text) else _number_fault(option, text, found)
        case "float":
            fault = None if _is_float(text) else unwanted(option, found)
        case "json":
            fault = _json_fault(option, text, found)
        case _:
            fault = None
    return fault or _choice_fault(option, text, found)


def unwanted(option: Option, found: object, hint: str = "") -> Fault:
    """Return the fault of a value of another kind."""
    return Fault(what=f"found {shown(found)}, wants {wanted_by(option)}", hint=hint or _listed(option.choices))


def wanted_by(option: Option) -> str:
    """Return what an option wants, for people."""
    if option.choices:
        return "one of its values"
    return "a table" if option.table else WANTED.get(option.kind, "another value")


def _whole(option: Option, text: str) -> bool:
    """Tell whether vLLM reads a whole number; K, M, G and T are powers of 1024 and take no fraction."""
    if option.kind == "human_int" and (human := HUMAN.fullmatch(text.strip())):
        return math.isfinite(float(human[1]) * 1e12) if human[2].islower() else _is_int(human[1])
    return _is_int(text)


def _is_int(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number_fault(option: Option, text: str, found: object) -> Fault:
    """Return the fault of a text that is no whole number, with the nearest one that it may have meant."""
    human = HUMAN.fullmatch(text.strip())
    if human and option.kind == "int":
        return unwanted(option, found, "it takes digits only")
    if human:
        return unwanted(
            option, found, f"{human[2]} takes no fraction; {human[1]}{human[2].lower()} counts in thousands"
        )
    whole = text.removesuffix(".0")
    return unwanted(option, found, f"write {whole}" if whole != text and _is_int(whole) else "")


def _json_fault(option: Option, text: str, found: object) -> Fault | None:
    if option.text and not TABLE.fullmatch(text):
        return None
    try:
        value = json.loads(HUMAN_IN_JSON.sub(_expanded, text) if option.table else text)
    except RecursionError:
        return Fault(what="JSON that is nested too deeply")
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            return Fault(what=f"found {shown(found)}, which is not JSON: {error}")
        return unwanted(option, found)
    fits = isinstance(value, dict) or (not option.table and (value is None or isinstance(value, list)))
    return None if fits else unwanted(option, found)


def _expanded(match: re.Match[str]) -> str:
    """Return a digit in place of a number such as 4k: only the form of the JSON is judged."""
    human = HUMAN.fullmatch(match[0])
    return "0" if human and (human[1].isdigit() or human[2].islower()) else match[0]


def _choice_fault(option: Option, text: str, found: object) -> Fault | None:
    value = text.lower().replace("-", "_") if option.folded else text
    if option.kind == "int" and _is_int(text):
        value = str(int(text))
    if not option.choices or value in option.choices:
        return None
    return Fault(
        what=f"found {shown(found)}, which it does not take",
        hint=nearest(value, option.choices) or _listed(option.choices),
    )


def _listed(choices: tuple[str, ...]) -> str:
    return f"it takes {', '.join(choices[:12])}{', ...' if len(choices) > 12 else ''}" if choices else ""


def nearest(word: str, known: tuple[str, ...]) -> str:
    """Return a hint that names the known words that are nearest, whatever their case.

    >>> nearest("BFLOAT16", ("auto", "bfloat16"))
    'did you mean bfloat16?'
    """
    word = word[:100]
    same = next((name for name in known if name.lower() == word.lower()), None)
    return f"did you mean {same}?" if same else did_you_mean(word, known)


def canonical(name: str, options: OptionList) -> str | None:
    """Return the name that vLLM's documentation uses for a flag or an alias of it; None for an unknown one.

    >>> listed = OptionList(vllm="1", options=(Option(name="seed", kind="int", short=("s",)),), variables=())
    >>> canonical("s", listed), canonical("seed", listed), canonical("see", listed)
    ('seed', 'seed', None)
    """
    name = name.replace("-", "_")
    named = (o.name for o in options.options if name == o.name or name in o.aliases or name in o.short)
    return next(named, None)


class Names:
    """Finds options by their names; the names of a recipe's own engine count, and take anything."""

    def __init__(self, options: OptionList, added: tuple[str, ...] = ()) -> None:
        self.vllm = options.vllm
        own = (Option(name=flag.lstrip("-").replace("-", "_"), kind=ADDED) for flag in added)
        known = (*options.options, *own)
        self.long = {name: option for option in known for name in (option.name, *option.aliases)}
        self.all = {name: option for option in known for name in option.short} | self.long
        self._searches_left = MOST_SEARCHES

    def near(self, word: str, known: tuple[str, ...]) -> str:
        """Return a hint that names the nearest known words; nothing after many searches."""
        self._searches_left -= 1
        return nearest(word, known) if self._searches_left >= 0 else ""

    def starting(self, beginning: str) -> tuple[str, ...]:
        """Return the options that an abbreviation may stand for."""
        return tuple(sorted({option.name for name, option in self.long.items() if name.startswith(beginning)}))
