"""The list of the options of a vLLM: made from an engine, kept in its folder, shipped for known versions."""

import dataclasses
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from appliance.core.codec import record_of
from appliance.core.option import OptionList

PROGRAM = Path(__file__).parent / "lister.py"

SHIPPED = Path(__file__).parents[1] / "options"
"""One list for each version of vLLM that this program was tried with."""

OPTIONS = "options.json"
"""The list in the folder of an engine."""

SHIPPED_NAME = re.compile(r"vllm-(\d+(?:\.\d+)*)\.json")
NOTHING = OptionList(vllm="", options=(), variables=(), origin="no list")


def listed(folder: Path) -> OptionList:
    """Ask the vLLM of an engine for its options; it takes as long as importing it. Raises OSError and ValueError."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "VLLM_NO_USAGE_STATS": "1"}
    command = [str(folder / "bin" / "python"), "-I", str(PROGRAM)]
    try:
        asked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    except subprocess.TimeoutExpired:
        raise ValueError("vLLM did not tell its options within 600 s") from None
    if asked.returncode:
        raise ValueError(f"vLLM does not tell its options: {(asked.stderr.splitlines() or ['silent'])[-1]}")
    return record_of(OptionList, (asked.stdout.splitlines() or ["silent"])[-1])


def text_of(options: OptionList) -> str:
    """Return a list as its file holds it: JSON, an option a line, without what is absent."""
    lines = ",\n".join(_compact(_given(option)) for option in options.options)
    variables = _compact(list(options.variables))
    return f'{{"vllm":{_compact(options.vllm)},"options":[\n{lines}\n],"variables":{variables}}}\n'


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _given(value: Any) -> dict[str, Any]:
    """Return the fields of a record that are not as they would be anyway."""
    fields = dataclasses.fields(value)
    return {field.name: found for field in fields if (found := getattr(value, field.name)) != field.default}


def write_list(folder: Path) -> OptionList:
    """Ask the vLLM of an engine for its options and keep them in its folder. Raises OSError and ValueError."""
    options = listed(folder)
    (folder / OPTIONS).write_text(text_of(options))
    return options


def options_of(folder: Path | None, vllm: str | None) -> OptionList:
    """Return the options of an engine: its own list, else the shipped one of its version, else the newest shipped.

    `origin` says which; it is without any option where no list can be read.
    """
    shipped = {match[1]: file for file in SHIPPED.glob("*.json") if (match := SHIPPED_NAME.fullmatch(file.name))}
    newest_first = sorted(shipped, key=lambda version: [int(part) for part in version.split(".")], reverse=True)
    wanted = (vllm or "").partition("+")[0]
    files = [folder / OPTIONS] if folder else []
    files += [shipped[version] for version in sorted(newest_first, key=lambda version: version != wanted)]
    return next((options for file in files if (options := _read(file))), NOTHING)


def _read(file: Path) -> OptionList | None:
    """Return the list in a file; None when there is none, or none that can be read."""
    try:
        options = record_of(OptionList, file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return dataclasses.replace(options, origin=str(file)) if options.options else None
