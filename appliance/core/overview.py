"""Every effective value of a configuration, with the place that sets it."""

import json
from collections.abc import Iterator
from typing import Any

from appliance.core.config import OPEN_SECTIONS, ORDER, Config
from appliance.core.document import shown_key
from appliance.core.imported.toml import printable, toml_of
from appliance.core.kind import UnfitError
from appliance.core.question import written
from appliance.core.record import Key, keys_of, record
from appliance.core.secret import arguments_without_secrets, without_secrets
from appliance.core.section import SECTIONS, Top
from appliance.core.setting import Variable, plain

DEFAULT = "default"

WIDTH = 40
"""Characters of a key and its value before the comment."""


@record
class Shown:
    """One key as it may be shown."""

    name: str
    value: Any
    """As TOML has it; None where nothing is set and only `absent` says what that means."""
    origin: str
    absent: str = ""


def toml_overview(config: Config) -> str:
    """Return a configuration as a vllm-serve.toml that says everything, without secrets."""
    return "\n".join(_lines(config)) + "\n"


def json_overview(config: Config) -> str:
    """Return a configuration as one line of JSON: sections, keys, then value and origin."""
    sections = {name: _table(values_of(config, name)) for name in ORDER}
    questions = [{**written(question), "origin": question.origin} for question in config.questions]
    table = {"files": config.files, **_table(values_of(config, "")), **sections, "question": questions}
    return json.dumps(table, ensure_ascii=False)


def _table(values: Iterator[Shown]) -> dict[str, Any]:
    return {shown.name: {"value": shown.value, "origin": shown.origin} for shown in values}


def values_of(config: Config, section: str) -> Iterator[Shown]:
    """Yield what a section comes to; the top level is the section without a name."""
    if section in OPEN_SECTIONS:
        for entry in getattr(config, section):
            value = entry.value if isinstance(entry, Variable) else plain(entry.value)
            yield Shown(name=entry.name, value=without_secrets(value, entry.name), origin=entry.origin)
        return
    origins = dict(config.origins)
    owner = getattr(config, section) if section else config
    for name, key in keys_of(SECTIONS.get(section, Top)).items():
        origin = origins.get(shown_key((section, name) if section else (name,)), DEFAULT)
        yield Shown(name=name, value=_value(key, getattr(owner, name)), origin=origin, absent=key.absent)


def _value(key: Key, value: Any) -> Any:
    if value is None or (value == () and key.absent):
        return None
    written = key.kind.write(value)
    return list(arguments_without_secrets(written)) if key.name == "extra_args" else without_secrets(written)


def _lines(config: Config) -> Iterator[str]:
    yield from (f"# {file}" for file in config.files)
    yield from _rows(values_of(config, ""))
    for section in ORDER:
        yield ""
        yield f"[{section}]"
        yield from _rows(values_of(config, section))
    for question in config.questions:
        yield ""
        yield f"{'[[question]]':<{WIDTH}}  # {printable(question.origin)}"
        yield from (f"{name} = {_toml(value)}" for name, value in written(question).items())


def _rows(values: Iterator[Shown]) -> Iterator[str]:
    for shown in values:
        if shown.value is None:
            yield f"# {shown.name}: {shown.absent}"
        else:
            yield f"{f'{shown.name} = {_toml(shown.value)}':<{WIDTH}}  # {printable(shown.origin)}"


def _toml(value: Any) -> str:
    """Return a value as TOML; what vLLM takes and TOML can't hold becomes its JSON text, which vLLM takes as well."""
    try:
        return toml_of(value)
    except UnfitError:
        return toml_of(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
