"""A folder with a model: what it says of itself and whether its files are whole."""

import json
import struct
from pathlib import Path
from typing import Any

from appliance.core.facts import CheckpointFacts, WeightFile

WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "tiktoken.model")
LARGEST_HEADER = 100_000_000
"""Bytes; the limit that the safetensors library itself sets."""


def checkpoint_facts(folder: Path) -> CheckpointFacts:
    """Return what a folder holds. Raises LookupError with the reason when it can't be read."""
    try:
        names = {entry.name for entry in folder.iterdir() if entry.is_file()}
    except FileNotFoundError:
        raise LookupError(f"there is no folder {folder}") from None
    except OSError as error:
        raise LookupError(f"can't read the folder {folder}: {error.strerror}") from None
    config = _json(folder / "config.json")
    architectures = config.get("architectures")
    positions = _table(config.get("text_config", config)).get("max_position_embeddings")
    weights = [file for pattern in WEIGHTS for file in sorted(folder.glob(pattern)) if file.is_file()]
    return CheckpointFacts(
        folder=str(folder),
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        max_position_embeddings=positions if isinstance(positions, int) else None,
        weights=tuple(weight_file(file) for file in weights),
        missing=_missing(folder, names),
    )


def _missing(folder: Path, names: set[str]) -> tuple[str, ...]:
    missing = [] if "config.json" in names else ["config.json"]
    if not names & set(TOKENIZERS):
        missing.append("a tokenizer (tokenizer.json or the like)")
    shards = {str(name) for name in _table(_json(folder / "model.safetensors.index.json").get("weight_map")).values()}
    missing += sorted(shards - names)
    if not any(Path(name).match(pattern) for name in names for pattern in WEIGHTS):
        missing.append("weights (*.safetensors)")
    return tuple(missing)


def _json(file: Path) -> dict[str, Any]:
    try:
        return _table(json.loads(file.read_text()))
    except (OSError, ValueError, RecursionError):
        return {}


def _table(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def weight_file(file: Path) -> WeightFile:
    """Return a file of weights, with the fault of its header if it has one."""
    size = file.stat().st_size
    fault = None
    if file.suffix == ".safetensors":
        try:
            fault = header_fault(file, size)
        except OSError as error:
            fault = f"can't be read: {error.strerror}"
    return WeightFile(name=file.name, bytes=size, fault=fault)


def header_fault(file: Path, size: int) -> str | None:
    """Return what is wrong with a safetensors header: eight bytes of length, JSON, then the tensors."""
    with file.open("rb") as stream:
        start = stream.read(8)
        if start.startswith(b"version "):
            return "is a Git LFS pointer, not the weights"
        if len(start) < 8:
            return f"is {size} bytes long, too short for a header"
        (length,) = struct.unpack("<Q", start)
        if length > LARGEST_HEADER or length + 8 > size:
            return f"its header claims {length} bytes in a file of {size}"
        try:
            header = json.loads(stream.read(length))
            ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
            end = max(ends, default=0)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
            return "its header is not a table of tensors"
    if end + 8 + length != size:
        return f"is {size} bytes long, its header describes {end + 8 + length}"
    return None
