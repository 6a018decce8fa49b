"""The program that prints the options of an installed vLLM as one line of JSON; it runs on that engine's Python.

It imports nothing of this project. What a value of an option may be is found out by giving the parser values.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

LOOKED_UP = re.compile(r"""(?:environ(?:\.get)?\s*[\[(]|getenv\()\s*["'](VLLM_[A-Z0-9_]+)["']""")
"""A variable that a module reads without naming it in envs.py."""

REFUSED = object()


def entry_of(parser: argparse.ArgumentParser, action: argparse.Action) -> dict[str, Any] | None:
    """Return one option as the record of it has it, without what is absent; None for what takes no setting."""
    long = [flag[2:].replace("-", "_") for flag in action.option_strings if flag.startswith("--")]
    if not long or isinstance(action, argparse._HelpAction):  # noqa: SLF001  # it has no public name
        return None
    if isinstance(action, argparse.BooleanOptionalAction):
        long = [name for name in long if not (name.startswith("no_") and name[3:] in long)]
    name = action.dest if action.dest in long else long[0]
    entry: dict[str, Any] = {
        "name": name,
        "aliases": sorted(set(long) - {name}),
        "short": sorted(flag[1:] for flag in action.option_strings if not flag.startswith("--")),
        "several": action.nargs in ("+", "*") or (isinstance(action.nargs, int) and action.nargs > 1),
        "bare": action.nargs in ("?", "*"),
        "deprecated": is_deprecated(parser, action),
        **form_of(lambda text: value_of(parser, action, text), action),
    }
    return {key: value for key, value in entry.items() if value}


def value_of(parser: argparse.ArgumentParser, action: argparse.Action, text: str) -> Any:
    """Return what the parser makes of one value, before it looks at the choices; REFUSED when it takes none of it."""
    convert: Callable[[str], Any] = action.type if callable(action.type) else str
    try:
        value = convert(text)
        if type(action).__module__ != "argparse":  # an action of vLLM's own reads the value too
            namespace = argparse.Namespace()
            action(parser, namespace, [value] if action.nargs in ("+", "*") else value, action.option_strings[0])
            value = getattr(namespace, action.dest, REFUSED)
    except (argparse.ArgumentError, argparse.ArgumentTypeError, LookupError, SystemExit, TypeError, ValueError):
        return REFUSED
    return value


def form_of(value: Callable[[str], Any], action: argparse.Action) -> dict[str, Any]:
    """Return the kind of an option and what else is known of its values."""
    if action.nargs == 0:
        return {"kind": "switch" if isinstance(action, argparse.BooleanOptionalAction) else "flag"}
    kind = kind_of(value)
    choices = [choice for choice in action.choices or () if choice is not None]
    without = action.choices is None or None in action.choices
    return {
        "kind": kind,
        "choices": [str(choice) for choice in sorted(choices, key=int if kind == "int" else str)],
        "optional": value("None") is None and without,
        "auto": kind == "human_int" and value("auto") is not REFUSED,
        "folded": value("A-B") == "a_b",
        "text": kind == "json" and (value("x") is not REFUSED or value("a=b") is not REFUSED),
        "table": kind == "json" and value("{}") is not REFUSED and value("[]") is REFUSED,
    }


def kind_of(value: Callable[[str], Any]) -> str:
    """Return the kind of what a parser makes of texts; JSON is what takes neither any text nor any number."""
    if value("7") == 7 and value("1.5") is REFUSED:
        return "int" if value("4k") is REFUSED else "human_int"
    if value("1.5") == 1.5 and value("[]") is REFUSED:
        return "float"
    return "json" if value("x") is REFUSED or isinstance(value("{}"), dict) else "str"


def is_deprecated(parser: argparse.ArgumentParser, action: argparse.Action) -> bool:
    """Tell whether vLLM warns of an option: by its parser's own set, the name of its action, or its help."""
    marked = action in getattr(parser, "_deprecated", ()) or bool(getattr(action, "deprecated", False))
    return marked or "Deprecated" in type(action).__name__ or "is deprecated" in (action.help or "")


def variables_of(named: Iterable[str], sources: Path) -> Iterator[str]:
    """Yield the variables that envs.py names, then those that the sources below a folder look up."""
    yield from named
    for file in sources.rglob("*.py"):
        yield from LOOKED_UP.findall(file.read_text(encoding="utf-8", errors="replace"))


if __name__ == "__main__":
    # By name, for they are the engine's modules and none that this package depends on.
    vllm, envs = import_module("vllm"), import_module("vllm.envs")
    serve = import_module("vllm.entrypoints.launchers.cli_args").make_arg_parser(
        import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    )
    entries = [entry for action in serve._actions if (entry := entry_of(serve, action))]  # noqa: SLF001  # no public way
    names = set(variables_of(envs.environment_variables, Path(str(vllm.__file__)).parent))
    table = {
        "vllm": vllm.__version__.partition("+")[0],
        "options": sorted(entries, key=lambda entry: str(entry["name"])),
        "variables": sorted(names),
    }
    sys.stdout.write("\n" + json.dumps(table, sort_keys=True, separators=(",", ":")) + "\n")
