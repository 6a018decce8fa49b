"""Whether what the files set fits the vLLM that will read it: flags, arguments and variables against its own list."""

import json
import re
from collections.abc import Iterator

from appliance.core.argument import argument_faults
from appliance.core.kind import shown
from appliance.core.option import Fault, Names, Option, OptionList, canonical, fault_of, unwanted
from appliance.core.problem import Problem, place_of
from appliance.core.record import record
from appliance.core.setting import Json, Scalar, Setting, Variable, argument_of, looks_like_a_flag

__all__ = ["Additions", "Wanted", "canonical", "misfits"]

MOST_ARGUMENTS = 1000


@record
class Wanted:
    """What the files ask of vLLM."""

    settings: tuple[Setting, ...] = ()
    extra_args: tuple[str, ...] = ()
    extra_args_origin: str = ""
    """`file:line`, as in a setting."""
    variables: tuple[Variable, ...] = ()


@record
class Additions:
    """What a recipe's own engine takes beyond the list of its vLLM."""

    flags: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """A name that ends with * stands for all that start so."""


NOTHING = Additions()


def misfits(wanted: Wanted, options: OptionList, additions: Additions = NOTHING) -> tuple[Problem, ...]:
    """Return everything that this vLLM would not take, each with its place.

    [vllm] is held to whole names and to values of the right type, also where vLLM's parser would guess what is
    meant. A list without options judges nothing.
    """
    if not options.options:
        return ()
    names = Names(options, additions.flags)
    return (
        *_settings(wanted.settings, names),
        *_arguments(wanted.extra_args, wanted.extra_args_origin, names),
        *_variables(wanted.variables, options, additions.variables, names),
    )


def _problem(origin: str, key: str, fault: Fault) -> Problem:
    file, line = place_of(origin)
    return Problem(file=file, line=line, key=key, what=fault.what, hint=fault.hint)


def _settings(settings: tuple[Setting, ...], names: Names) -> Iterator[Problem]:
    """Yield what is wrong in [vllm]."""
    spelled: dict[tuple[str, str], str] = {}
    for setting in settings:
        key = f"[vllm] {setting.name}"
        option = names.all.get(setting.name.replace("-", "_"))
        if option is None:
            fault = Fault(what=f"vLLM {names.vllm} has no such flag", hint=_name_hint(setting, names))
            yield _problem(setting.origin, key, fault)
            continue
        for fault in _value_faults(option, setting):
            yield _problem(setting.origin, key, fault)
        first = spelled.setdefault((place_of(setting.origin)[0], option.name), setting.name)
        if first != setting.name:
            yield _problem(setting.origin, key, Fault(what=f"set twice; also as {first}", hint=f"keep {option.name}"))


def _name_hint(setting: Setting, names: Names) -> str:
    """Return the way out of a name that is not in the list."""
    bare = setting.name.strip("-").replace("-", "_")
    if bare in names.all:
        return f"write {bare}"
    if bare.startswith("no_") and (option := names.long.get(bare[3:])):
        off = f"write {option.name} = {'true' if setting.value is False else 'false'}"
        return off if option.kind == "switch" else f"leave {option.name} out"
    full = names.starting(bare) if len(bare) > 1 else ()
    if len(full) == 1:
        return f"the full name is {full[0]}"
    if full:
        return f"it may stand for {', '.join(full[:4])}{', ...' if len(full) > 4 else ''}"
    return names.near(bare, tuple(names.long))


def _value_faults(option: Option, setting: Setting) -> Iterator[Fault]:
    """Yield what is wrong with the value of a flag in [vllm]."""
    value = setting.value
    match option.kind, value:
        case ("added", _) | ("flag", True) | ("switch", bool()):
            return
        case "flag", False:
            yield Fault(what="can't be switched off", hint="remove it")
        case (("flag" | "switch"), _):
            yield unwanted(option, _as_written(value), _switch_hint(option, value))
        case _, bool():
            if not (value and option.bare):
                yield unwanted(option, value, "" if value else "remove it")
        case _, Json():
            yield from _table_faults(option, value)
        case _, tuple():
            yield from _list_faults(option, value)
        case _:
            yield from _scalar_faults(option, value)


def _as_written(value: object) -> object:
    """Return a value as the TOML that it was, for a message."""
    if isinstance(value, Json):
        return {} if value.text.startswith("{") else [value.text]
    return list(value) if isinstance(value, tuple) else value


def _switch_hint(option: Option, value: object) -> str:
    word = str(value).lower()
    if word in ("1", "true", "on", "yes"):
        return f"write {option.name} = true"
    if word in ("0", "false", "off", "no"):
        return f"write {option.name} = false" if option.kind == "switch" else "remove it"
    return ""


def _table_faults(option: Option, value: Json) -> Iterator[Fault]:
    is_list = not value.text.startswith("{")
    if option.kind != "json":
        yield unwanted(option, _as_written(value))
    elif is_list and option.several:
        yield Fault(what="found a list of tables, wants a list of strings", hint="write each as the text of its JSON")
    elif is_list and option.table:
        yield Fault(what="found a list, wants a table")
    elif fault := fault_of(option, value.text):
        yield fault


def _list_faults(option: Option, values: tuple[Scalar, ...]) -> Iterator[Fault]:
    if not option.several:
        text = json.dumps(values, ensure_ascii=False)
        as_text = option.kind == "json" and len(text) < 60 and "'" not in text
        yield Fault(what=f"found {shown(list(values))}, takes one value", hint=f"write '{text}'" if as_text else "")
    elif not values:
        yield Fault(what="found an empty list, wants at least one value", hint="remove it")
    else:
        for value in values:
            if len(values) > 1 and looks_like_a_flag(argument_of(value)):
                yield Fault(what=f"found {shown(value)} in a list, which vLLM would take for a flag")
            else:
                yield from _scalar_faults(option, value)


def _scalar_faults(option: Option, value: Scalar) -> Iterator[Fault]:
    """Yield what is wrong with one value, which is an argument of its own."""
    text = argument_of(value)
    if option.kind == "json" and not option.text and not isinstance(value, str):
        yield unwanted(option, value)
    elif fault := fault_of(option, text, value):
        yield fault


def _arguments(arguments: tuple[str, ...], origin: str, names: Names) -> Iterator[Problem]:
    """Yield what is wrong in [engine] extra_args."""
    key = "[engine] extra_args"
    if len(arguments) > MOST_ARGUMENTS:
        yield _problem(origin, key, Fault(what=f"found {len(arguments)} arguments, takes at most {MOST_ARGUMENTS}"))
        return
    for argument, fault in argument_faults(arguments, names):
        yield _problem(origin, key, Fault(what=f"{shown(argument)}: {fault.what}", hint=fault.hint))


def _variables(
    variables: tuple[Variable, ...], options: OptionList, added: tuple[str, ...], names: Names
) -> Iterator[Problem]:
    """Yield the variables that look like vLLM's and are not; those of others are none of its business."""
    known = frozenset(options.variables)
    for variable in variables if known else ():
        name, capitals = variable.name, variable.name.upper()
        if name in known or not capitals.startswith("VLLM_") or _is_added(name, added):
            continue
        if capitals in known:
            fault = Fault(what="vLLM reads this variable in capitals only", hint=f"write {capitals}")
        elif name.startswith("VLLM_"):
            fault = Fault(what=f"vLLM {options.vllm} reads no such variable", hint=_near_variable(name, known, names))
        else:
            continue
        yield _problem(variable.origin, f"[env] {name}", fault)


def _is_added(name: str, patterns: tuple[str, ...]) -> bool:
    return any(name == p or (p.endswith("*") and name.startswith(p[:-1])) for p in patterns)


def _near_variable(name: str, known: frozenset[str], names: Names) -> str:
    """Compare without the start that all of them share."""
    endings = tuple(sorted(word.removeprefix("VLLM_") for word in known if word.startswith("VLLM_")))
    return re.sub(r"( mean | or )", r"\1VLLM_", names.near(name.removeprefix("VLLM_"), endings))
