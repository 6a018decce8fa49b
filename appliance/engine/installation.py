"""The folder of engines: which are there, which is in use, and how that changes."""

import os
import shutil
from pathlib import Path

from appliance.core.codec import json_of, record_of
from appliance.core.manifest import CURRENT, MANIFEST, Manifest


def installed(engines: Path) -> tuple[Manifest, ...]:
    """Return every finished engine, by id; half an engine and strange folders are left out."""
    files = (file for file in sorted(engines.glob(f"*/{MANIFEST}")) if not file.parent.is_symlink())
    return tuple(manifest for file in files if (manifest := _manifest(file)))


def _manifest(file: Path) -> Manifest | None:
    try:
        return record_of(Manifest, file.read_text())
    except (OSError, ValueError):
        return None


def in_use(engines: Path) -> str | None:
    """Return the id of the engine that the service starts; None when there is none."""
    try:
        name = str((engines / CURRENT).readlink())
    except OSError:
        return None
    return name if (engines / name / MANIFEST).is_file() else None


def use(engines: Path, identity: str) -> None:
    """Make an installed engine the one in use. Raises LookupError when it is not installed."""
    if not (engines / identity / MANIFEST).is_file():
        known = ", ".join(manifest.id for manifest in installed(engines)) or "none"
        raise LookupError(f"engine {identity} is not installed under {engines}; installed: {known}")
    link = engines / f".{CURRENT}.new"
    link.unlink(missing_ok=True)
    link.symlink_to(identity)
    link.replace(engines / CURRENT)


def remove(engines: Path, identity: str) -> None:
    """Delete an engine. Raises LookupError when it is not installed or in use."""
    if in_use(engines) == identity:
        raise LookupError(f"engine {identity} is in use; `vllm-serve engine use` another one first")
    if identity in ("", ".", "..", CURRENT) or "/" in identity or not (engines / identity).is_dir():
        raise LookupError(f"there is no engine {identity} under {engines}")
    (engines / identity / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(engines / identity)


def finish(engines: Path, manifest: Manifest) -> None:
    """Declare an installation complete, on disk and in one step, and use it."""
    folder = engines / manifest.id
    draft = folder / f".{MANIFEST}.new"
    with draft.open("w") as stream:
        stream.write(json_of(manifest) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(folder / MANIFEST)
    use(engines, manifest.id)
