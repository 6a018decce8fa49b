"""Arguments of `vllm serve` as its parser walks them: argparse's way, with dotted names made into tables before it."""

import re
from collections.abc import Iterator

from appliance.core.option import ADDED, Fault, Names, Option, fault_of, wanted_by

NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
"""What argparse takes for a number and not for a flag."""

OPTIMIZATION_LEVEL = "--optimization-level"
OPTIMIZATION_LEVELS = ("0", "1", "2", "3")

HELP = Option(name="help", kind="help")


def argument_faults(arguments: tuple[str, ...], names: Names) -> tuple[tuple[str, Fault], ...]:
    """Return what vLLM's parser would not take, each with the argument that it is about.

    Abbreviations of one flag alone are fine, as they are for vLLM.
    """
    walk = _Walk(names)
    walk.through(_respelled(arguments))
    return tuple(walk.faults)


def dashed(name: str) -> str:
    """Return the spelling of a name in arguments, without dashes in front."""
    return name.replace("_", "-")


def _respelled(arguments: tuple[str, ...]) -> list[str]:
    """Return the arguments as vLLM spells them before it parses: dashes in names, -O3 in full."""
    spelled: list[str] = []
    for argument, following in zip(arguments, (*arguments[1:], ""), strict=False):
        if argument.startswith("--"):
            key, equals, value = argument.partition("=")
            name, dot, keys = key.partition(".")
            spelled.append(f"{dashed(name)}{dot}{keys}{equals}{value}")
        elif argument.startswith("-O") and argument != "-O":
            spelled += [OPTIMIZATION_LEVEL, argument[2:].removeprefix("=")]
        elif argument == "-O" and following in OPTIMIZATION_LEVELS:
            spelled.append(OPTIMIZATION_LEVEL)
        else:
            spelled.append(argument)
    return spelled


def _strings_of(names: Names) -> dict[str, Option]:
    """Return each spelling that argparse knows."""
    strings = {"-h": HELP, "--help": HELP}
    for name, option in names.all.items():
        if name not in names.long:
            strings[f"-{dashed(name)}"] = option
            continue
        strings[f"--{dashed(name)}"] = option
        if option.kind in ("switch", ADDED):
            strings[f"--no-{dashed(name)}"] = option
    return strings


def _attached(argument: str, spelling: str) -> str | None:
    """Return the value that is written with a flag, as in --flag=value or -q4; None where there is none."""
    if argument.startswith(("--", f"{spelling}=")):
        _, equals, value = argument.partition("=")
        return value if equals else None
    return argument[2:] if argument != spelling and argument[:2] == spelling else None


class _Walk:
    """Reads arguments one after the other."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.strings = _strings_of(names)
        self.rest: list[str] = []
        """What is still to be read, the next one last."""
        self.faults: list[tuple[str, Fault]] = []

    def refuse(self, argument: str, what: str, hint: str = "") -> None:
        """Note a fault and go on."""
        self.faults.append((argument, Fault(what=what, hint=hint)))

    def through(self, arguments: list[str]) -> None:
        """Read all of them."""
        self.rest = list(self._without_dotted(arguments))[::-1]
        while self.rest:
            argument = self.rest.pop()
            if argument == "--":
                self.refuse(argument, "ends the flags, and vLLM takes nothing behind them", "remove it")
                return
            if self._is_value(argument):
                hint = "write a flag and its value as two strings" if " " in argument.strip() else ""
                self.refuse(argument, "belongs to no flag", hint)
            else:
                self._take(argument)

    def _without_dotted(self, arguments: list[str]) -> Iterator[str]:
        """Yield what is left when vLLM has made tables of --flag.key value."""
        coming = iter(zip(arguments, (*arguments[1:], None), strict=False))
        for argument, following in coming:
            key, equals, _ = argument.partition("=")
            if not argument.startswith("-") or "." not in key:
                yield argument
            elif NEGATIVE.fullmatch(argument):
                self.refuse(argument, "vLLM takes a negative fraction for a flag", f"write it as --flag={argument}")
                yield "-1"  # so that the flag before it has its value
            else:
                self._take_dotted(argument, key.partition(".")[0])
                if not equals and (following is None or following.startswith("--")):
                    self.refuse(argument, "wants a value behind it")
                elif not equals:
                    next(coming)

    def _take_dotted(self, argument: str, name: str) -> None:
        option, _ = self._named(name)
        if option and option.kind not in ("json", ADDED):
            self.refuse(argument, f"{option.name} takes no keys")

    def _is_value(self, argument: str) -> bool:
        """Tell whether argparse takes an argument for a value."""
        if argument in ("", "-") or not argument.startswith("-"):
            return True
        looks_so = NEGATIVE.fullmatch(argument) or " " in argument
        return bool(looks_so) and not self._candidates(argument)

    def _candidates(self, argument: str) -> list[str]:
        """Return the spellings that an argument may stand for; argparse takes abbreviations and -q4."""
        name = argument.partition("=")[0]
        if argument in self.strings or name in self.strings:
            return [argument if argument in self.strings else name]
        if argument.startswith("--"):
            return [string for string in self.strings if string.startswith(name)]
        return [string for string in self.strings if string == argument[:2] or string.startswith(argument)]

    def _named(self, argument: str) -> tuple[Option | None, str]:
        """Return the option that an argument names, and its spelling; None after a fault."""
        candidates = self._candidates(argument)
        name = argument.partition("=")[0]
        if len(candidates) == 1:
            return self.strings[candidates[0]], candidates[0]
        if candidates:
            several = f"{', '.join(candidates[:4])}{', ...' if len(candidates) > 4 else ''}"
            self.refuse(name, f"may stand for {several}", "write the whole name")
        else:
            self.refuse(name, f"vLLM {self.names.vllm} has no such flag", self._unknown_hint(name))
        return None, name

    def _unknown_hint(self, name: str) -> str:
        bare = name.strip("-").replace("-", "_")
        positive = bare.removeprefix("no_")
        if bare in self.names.all:
            return f"write {'--' if bare in self.names.long else '-'}{dashed(bare)}"
        if positive in self.names.long:
            return f"--{dashed(positive)} has no --no- form; remove it"
        if name == "-O":
            return "write -O3, in one"
        return self.names.near(name, tuple(self.strings))

    def _take(self, argument: str) -> None:
        """Read one flag with its values."""
        option, spelling = self._named(argument)
        if option is None or option.kind == ADDED:
            self._values(len(self.rest))
        elif option.kind == "help":
            self.refuse(argument, "vLLM would print its help and end", "remove it")
        elif option.kind in ("flag", "switch"):
            if _attached(argument, spelling) is not None:
                self.refuse(argument, "takes no value")
        else:
            self._take_values(option, spelling, _attached(argument, spelling))

    def _take_values(self, option: Option, spelling: str, attached: str | None) -> None:
        values = [attached] if attached is not None else self._values(len(self.rest) if option.several else 1)
        if not values and not option.bare:
            self.refuse(spelling, f"wants {wanted_by(option)} behind it")
        self.faults += [(spelling, fault) for value in values if (fault := fault_of(option, value))]

    def _values(self, most: int) -> list[str]:
        """Take the values that come next."""
        values: list[str] = []
        while len(values) < most and self.rest and self._is_value(self.rest[-1]):
            values.append(self.rest.pop())
        return values
