"""Damaged copies of a checkpoint, made without the libraries that read it."""

import json
import shutil
import struct
from pathlib import Path


def exchange_layers(model: Path, copy: Path, first: int, second: int) -> Path:
    """Copy a checkpoint with two of its layers exchanged: the names of their tensors change places."""
    shutil.copytree(model, copy)
    file = copy / "model.safetensors"
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    names = {f"model.layers.{first}.": f"model.layers.{second}.", f"model.layers.{second}.": f"model.layers.{first}."}
    exchanged = {_renamed(name, names): entry for name, entry in header.items()}
    assert exchanged.keys() == header.keys()
    text = json.dumps(exchanged, separators=(",", ":")).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    return copy


def _renamed(name: str, names: dict[str, str]) -> str:
    return next((new + name.removeprefix(old) for old, new in names.items() if name.startswith(old)), name)
