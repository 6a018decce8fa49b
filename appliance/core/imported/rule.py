"""What becomes of a variable: a key of the file, a remark, or a refusal."""

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping

from appliance.core.config import RESERVED_VARIABLES, SECRET_NAME
from appliance.core.envfile import Assignment
from appliance.core.imported.draft import ClientKey, Draft
from appliance.core.imported.reading import Reading, devices, path
from appliance.core.kind import UnfitError
from appliance.core.problem import did_you_mean
from appliance.core.record import record

Rule = Callable[[Draft, Assignment], None]

PASSED_ON = re.compile(
    r"(VLLM|NCCL|CUDA|TORCH[A-Z]*|PYTORCH|GLOO|HF|OMP|RAY|MENTAT|TRITON|FLASHINFER|TILELANG|UCX|TRANSFORMERS|NUMEXPR)_\w+"
    r"|MAX_JOBS|LD_LIBRARY_PATH"
)
"""Names that vLLM and what it stands on read themselves; both scripts hand them on as they are."""

NEARLY = 0.9
"""How alike two names are when one is most likely a slip of the other."""

OWN_VALUE = "correct it, or remove it to keep the recipe's own value"
ABSOLUTE = "write the whole path: the service starts in another folder than the script"

EXPOSED = (
    "WARNING: anyone on the network can use the model; to keep them out, remove this line and set host = 127.0.0.1"
)
KEYLESS = (
    "WARNING: the script's API asked for a key, and this one asks for none: a start is refused on this address until"
    " allow_unauthenticated = true; safer is 127.0.0.1 behind a proxy that asks for the key"
)


@record
class Script:
    """How the environment of one script is read."""

    recipe: str
    start: Callable[[Draft], None]
    """What is written whatever is set; variables replace it."""
    rules: Mapping[str, Rule]
    families: tuple[tuple[str, Rule], ...]
    """Rules for all names of a pattern; the first one counts."""
    end: Callable[[Draft], None]
    """What depends on several variables, or on the arguments."""


def apply(script: Script, draft: Draft) -> None:
    """Take the variables of an environment one after the other, those that are set to something."""
    script.start(draft)
    for given in draft.environment.assignments:
        if given.value:
            _rule_for(given.name, script)(draft, given)
    script.end(draft)


def _rule_for(name: str, script: Script) -> Rule:
    if name in script.rules:
        return script.rules[name]
    for pattern, rule in script.families:
        if re.fullmatch(pattern, name):
            return rule
    if reason := _barred(name):
        return dropped(reason)
    if PASSED_ON.fullmatch(name):
        return passed_on(*_near(name, script))
    hint = did_you_mean(name, script.rules)
    return dropped("not a variable of this script" + (f"; {hint}" if hint else ""))


def _barred(name: str) -> str:
    """Return why [env] does not take a variable; empty where it does."""
    if RESERVED_VARIABLES.fullmatch(name):
        return "vllm-serve sets this variable itself"
    if SECRET_NAME.search(name):
        return "looks like a secret, and the configuration can be read by others; [env] takes none"
    return ""


def _near(name: str, script: Script) -> list[str]:
    near = difflib.get_close_matches(name, script.rules, n=1, cutoff=NEARLY)
    return [f"did you mean {near[0]}? the script does not know {name} and hands it on as it is"] if near else []


def into(section: str, key: str, read: Reading, hint: str = "") -> Rule:
    """Return the rule that a variable's reading is the value of a key."""

    def rule(draft: Draft, given: Assignment) -> None:
        try:
            value = read(given.value)
        except UnfitError as error:
            draft.refuse(given, str(error), hint or (ABSOLUTE if read is path else OWN_VALUE))
        else:
            draft.put((section, key), value, given)

    return rule


def passed_on(*notes: str, name: str = "") -> Rule:
    """Return the rule that a variable goes to the engine as it is, or by another name."""

    def rule(draft: Draft, given: Assignment) -> None:
        if reason := _barred(name or given.name):
            draft.remark(given, reason)
        else:
            draft.put(("env", name or given.name), given.value, given, *notes)

    return rule


def dropped(why: str) -> Rule:
    """Return the rule that a variable has no place in the file."""

    def rule(draft: Draft, given: Assignment) -> None:
        draft.remark(given, why)

    return rule


def switched(section: str, key: str, on: str = "1") -> Rule:
    """Return the rule that one word means yes and any other no, as the scripts compare."""

    def rule(draft: Draft, given: Assignment) -> None:
        notes = () if given.value in (on, "0") else (f"the script takes anything but {on} for off",)
        draft.put((section, key), given.value == on, given, *notes)

    return rule


def gpus(draft: Draft, given: Assignment) -> None:
    """Take CUDA's list of GPUs."""
    if given.value.isspace():
        draft.remark(given, "names no GPU; [gpu] devices names some, as [0, 1, 2, 3]")
    else:
        hint = "write it as 0,1,2,3, or remove it for the recipe's own GPUs"
        into("gpu", "devices", devices, hint)(draft, given)


def read_at_the_end(_draft: Draft, _given: Assignment) -> None:
    """Leave a variable to what is done when all are read."""


def asked_for_a_key(draft: Draft, given: Assignment) -> None:
    """Remember that clients had to show a key, which this file can't hold."""
    draft.key = ClientKey.LOST
    draft.remark(
        given, "looks like a secret, and the configuration can be read by others; let a proxy in front ask for the key"
    )


def open_api(draft: Draft) -> None:
    """Let other machines in where the script did, and say what that means."""
    listening = draft.line("api", "host")
    if listening is None or ipaddress.ip_address(str(listening.value)).is_loopback:
        return
    if draft.key is ClientKey.LOST:
        draft.note(("api", "host"), KEYLESS)
    elif draft.key is ClientKey.NONE:
        draft.put(("api", "allow_unauthenticated"), True, listening.given, EXPOSED)
