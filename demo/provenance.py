"""Where a trained demonstration model came from: enough to train it again and to compare."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import torch

from demo.examination import Result
from demo.schooling import Plan, Report

_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors")


def provenance_of(folder: Path, plan: Plan, report: Report, result: Result) -> dict[str, object]:
    """Return the provenance of the model in the folder, ready for JSON."""
    config = json.loads((folder / "config.json").read_text())
    return {
        "made_by": "demo/train.py",
        "plan": asdict(plan),
        "loss": round(report.loss, 6),
        "training_seconds": round(report.seconds),
        "smallest_margins": {name: asdict(margin) for name, margin in result.margins.items()},
        "answer_tokens_checked": result.tokens,
        "parameters": parameter_count(folder / "model.safetensors"),
        "vocabulary": config["vocab_size"],
        "versions": {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES},
        "cpu": {"model": cpu_name(), "instructions": torch.backends.cpu.get_cpu_capability()},
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())},
    }


def parameter_count(weights: Path) -> int:
    """Return the number of values in a safetensors file, from its header alone."""
    with weights.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    shapes = [torch.Size(entry["shape"]) for name, entry in header.items() if name != "__metadata__"]
    return sum(shape.numel() for shape in shapes)


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the processor's name; None where the kernel does not tell one (as on Arm)."""
    for line in cpuinfo.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return None
