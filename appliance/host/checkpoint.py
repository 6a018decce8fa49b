"""A folder with a model: what it says of itself and whether its files are whole."""

import json
import struct
from pathlib import Path
from typing import Any

from appliance.core.facts import CheckpointFacts, WeightFile
from appliance.host.source import LARGEST, AbsentError, files_of, plain, table_of

WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "tiktoken.model")
LARGEST_HEADER = 100_000_000
"""Bytes; the limit that the safetensors library itself sets."""

LARGEST_INDEX = 2**26
"""Bytes; the largest checkpoints name hundreds of thousands of tensors in their index."""

LARGEST_CONFIG = 2**18
"""Characters of config.json as one line; real ones have a few thousand, some hundred thousand with a list of layers."""


def checkpoint_facts(root: Path, folder: str) -> CheckpointFacts:
    """Return what a folder holds. Raises LookupError with the reason when it can't be read."""
    try:
        files = files_of(root, folder)
    except AbsentError:
        raise AbsentError(f"there is no folder {folder}") from None
    except LookupError as error:
        raise LookupError(f"the folder {error}") from None
    config = _table(root, f"{folder}/config.json")
    try:
        line = config_line(root, folder)
    except LookupError:
        line = None
    return CheckpointFacts(
        folder=folder,
        architecture=_architecture(config),
        max_position_embeddings=_positions(config),
        weights=tuple(weight_file(files[name], name) for ending in WEIGHTS for name in files if name.endswith(ending)),
        missing=_missing(root, folder, set(files)),
        config=line,
    )


def config_line(root: Path, folder: str) -> str:
    """Return a checkpoint's config.json as one line of JSON. Raises LookupError with the reason."""
    file = f"{folder}/config.json"
    table = table_of(root, file)
    try:
        line = json.dumps(table, separators=(",", ":"))
    except RecursionError:
        raise LookupError(f"{file} is nested too deeply") from None
    if len(line) > LARGEST_CONFIG:
        raise LookupError(f"{file} is {len(line)} bytes long as one line, more than {LARGEST_CONFIG}")
    return line


def _table(root: Path, file: str, largest: int = LARGEST) -> dict[str, Any]:
    try:
        return table_of(root, file, largest)
    except LookupError:
        return {}


def _architecture(config: dict[str, Any]) -> str | None:
    found = config.get("architectures")
    return plain(found[0]) if isinstance(found, list) and found and isinstance(found[0], str) else None


def _positions(config: dict[str, Any]) -> int | None:
    inner = config.get("text_config", config)
    found = inner.get("max_position_embeddings") if isinstance(inner, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _missing(root: Path, folder: str, names: set[str]) -> tuple[str, ...]:
    missing = [] if "config.json" in names else ["config.json"]
    if not names & set(TOKENIZERS):
        missing.append("a tokenizer (tokenizer.json or the like)")
    index = _table(root, f"{folder}/model.safetensors.index.json", LARGEST_INDEX).get("weight_map")
    shards = {plain(str(name)) for name in index.values()} if isinstance(index, dict) else set()
    missing += sorted(shards - names)
    if not any(name.endswith(WEIGHTS) for name in names):
        missing.append("weights (*.safetensors)")
    return tuple(missing)


def weight_file(file: Path, name: str) -> WeightFile:
    """Return a file of weights, with the fault of its header if it has one."""
    size, fault = 0, None
    try:
        size = file.stat().st_size
        fault = header_fault(file, size) if name.endswith(".safetensors") else None
    except OSError as error:
        fault = f"can't be read: {error.strerror}"
    return WeightFile(name=plain(name), bytes=size, fault=fault)


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
