"""The installed engine, as its manifest tells it."""

import os
from pathlib import Path
from typing import Any

from appliance.core.codec import record_of
from appliance.core.facts import EngineFacts
from appliance.core.manifest import CURRENT, MANIFEST
from appliance.core.option import OptionList
from appliance.host.source import AbsentError, is_this_machine, named, place, plain, table_of, text_of

OPTIONS = "options.json"
"""Its file in the folder of an engine, where that engine's flags and variables are its own."""

SHIPPED = Path(__file__).parents[1] / "options"
"""The lists that come with this program, a version each."""


def engine_facts(root: Path, engines: str, wanted: str | None) -> EngineFacts:
    """Return the wanted engine, or the one in use. Raises LookupError with the reason when it can't be used."""
    link = f"{engines}/{wanted or CURRENT}"
    folder = named(root, Path(os.path.realpath(place(root, link))))
    try:
        manifest = table_of(root, f"{folder}/{MANIFEST}")
    except AbsentError:
        raise AbsentError(f"engine {wanted} is not installed" if wanted else "no engine is installed") from None
    vllm = _word(manifest, "vllm", link)
    facts = EngineFacts(
        id=_word(manifest, "id", link),
        folder=plain(folder),
        vllm=vllm,
        torch=_word(manifest, "torch", link),
        device=_word(manifest, "device", link),
        tree=_word(manifest, "tree", link) if manifest.get("tree") else None,
        options=_own_options(root, folder),
    )
    if not _has_python(root, folder):
        raise LookupError(f"{link}/bin/python is gone")
    return facts


def _word(manifest: dict[str, Any], name: str, link: str) -> str:
    found = manifest.get(name)
    if not isinstance(found, str):
        raise LookupError(f"{link}/{MANIFEST} is damaged: it names no {name}")
    return plain(found)


def _has_python(root: Path, folder: str) -> bool:
    """Tell whether the interpreter is there; a copy of a machine may hold only the link to it."""
    python = place(root, folder) / "bin" / "python"
    try:
        python.stat()
    except OSError:
        return python.is_symlink() and not is_this_machine(root)
    return True


def _own_options(root: Path, folder: str) -> OptionList | None:
    """Return the engine's own flags and variables; None where it has no list or the one that is shipped."""
    try:
        options = record_of(OptionList, text_of(root, f"{folder}/{OPTIONS}"))
    except (LookupError, ValueError, RecursionError):
        return None
    return differing(options)


def packages_of(root: Path, engine: EngineFacts | None) -> tuple[str, ...]:
    """Return the folders of an engine's Python packages, as that machine names them."""
    if engine is None:
        return ()
    folders = sorted(place(root, engine.folder).glob("lib/python3.*/*-packages"))
    return tuple(
        f"{engine.folder}/{folder.parent.parent.name}/{folder.parent.name}/{folder.name}" for folder in folders
    )


def differing(options: OptionList) -> OptionList | None:
    """Return a list where it is not the one that is shipped for its version."""
    file = SHIPPED / f"vllm-{options.vllm.partition('+')[0]}.json"
    try:
        shipped = record_of(OptionList, file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return options
    same = (shipped.options, shipped.variables) == (options.options, options.variables)
    return None if same else options
