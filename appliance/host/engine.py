"""The installed engine, as its manifest tells it."""

import json
from pathlib import Path

from appliance.core.facts import EngineFacts
from appliance.core.manifest import CURRENT, MANIFEST


def engine_facts(engines: Path, wanted: str | None) -> EngineFacts:
    """Return the wanted engine, or the one in use. Raises LookupError with the reason when it can't be used."""
    folder = engines / (wanted or CURRENT)
    try:
        manifest = json.loads((folder.resolve() / MANIFEST).read_text())
        facts = EngineFacts(
            folder=str(folder.resolve()), **{k: str(manifest[k]) for k in ("id", "vllm", "torch", "device")}
        )
    except FileNotFoundError:
        raise LookupError(f"engine {wanted} is not installed" if wanted else "no engine is installed") from None
    except OSError as error:
        raise LookupError(f"can't read {folder / MANIFEST}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise LookupError(f"{folder / MANIFEST} is damaged: {error}") from None
    if not (Path(facts.folder) / "bin" / "python").exists():
        raise LookupError(f"{folder}/bin/python is gone")
    return facts
