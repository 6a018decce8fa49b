"""Fingerprints computed by an installed engine's transformers, as another implementation than vLLM."""

import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from appliance.core.codec import record_of
from appliance.core.fingerprint import Prompt, Reference
from appliance.core.phase import ExitStatus
from appliance.core.record import record

PROGRAM = Path(__file__).parent / "fingerprinter.py"


@record
class Computed:
    """What the program answers."""

    reference: Reference
    most: int
    """Bytes of weights that lay in memory at once."""
    whole: int
    """Bytes of all weights in float32."""


class NoFingerprintError(Exception):
    """Why there is none."""

    def __init__(self, text: str, status: ExitStatus = ExitStatus.CONFIGURATION) -> None:
        super().__init__(text)
        self.status = status
        """TRY_LATER: the same call may succeed with more memory or space."""


def computed(engine: Path, checkpoint: Path, passages: Sequence[Prompt]) -> Computed:
    """Compute the fingerprint of a checkpoint; the progress goes to the error output. Raises NoFingerprintError.

    It takes as long as reading the weights once and some seconds a billion of them.
    """
    python = engine / "bin" / "python"
    if not python.is_file():
        raise NoFingerprintError(f"no engine under {engine}; `vllm-serve engine install` makes one")
    refuse_unreadable(checkpoint)
    asked_for = [dataclasses.asdict(prompt) for prompt in passages]
    request = json.dumps({"folder": str(checkpoint.absolute()), "passages": asked_for})
    with tempfile.TemporaryDirectory(prefix="vllm-serve-") as home:
        asked = subprocess.run(
            [str(python), "-I", str(PROGRAM)],
            input=request + "\n",
            env=_environment(home),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if asked.returncode < 0:
        what = f"signal {-asked.returncode} ended the computation"
        hint = "; for want of memory, as it seems: a layer in float32 must fit" if asked.returncode == -9 else ""
        raise NoFingerprintError(what + hint, ExitStatus.TRY_LATER)
    return _answer(asked.returncode, asked.stdout.strip("\n").split("\n")[-1])


def _environment(home: str) -> dict[str, str]:
    """Return what the program sees: no GPU, no network."""
    kept = {name: value for name in ("OMP_NUM_THREADS", "LANG") if (value := os.environ.get(name))}
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {"PATH": "/usr/bin:/bin", "HOME": home, **offline, **kept}


def _answer(code: int, line: str) -> Computed:
    """Return the answer in the program's last line. Raises NoFingerprintError when it is an error or none."""
    try:
        if code == 0:
            return record_of(Computed, line)
        text = str(json.loads(line)["error"])
    except (ValueError, KeyError, TypeError) as error:
        raise NoFingerprintError(f"the engine's Python ended with {code} and no answer") from error
    raise NoFingerprintError(text, ExitStatus.TRY_LATER if code == ExitStatus.TRY_LATER else ExitStatus.CONFIGURATION)


def refuse_unreadable(checkpoint: Path) -> None:
    """Raise NoFingerprintError for a folder without config.json, or whose weights are no, or not all, safetensors."""
    if not checkpoint.is_dir():
        raise NoFingerprintError(f"{checkpoint} is no folder; name the one that holds config.json")
    if not (checkpoint / "config.json").is_file():
        raise NoFingerprintError(f"{checkpoint} has no config.json")
    index = checkpoint / "model.safetensors.index.json"
    try:
        wanted = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except FileNotFoundError:
        wanted = set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoFingerprintError(f"{index} is not an index of weights: {error}") from error
    there = {file.name for file in checkpoint.glob("*.safetensors")}
    if lost := sorted(str(name) for name in wanted - there):
        raise NoFingerprintError(f"{len(lost)} of {len(wanted)} files of weights are not there: {', '.join(lost[:3])}")
    if not there:
        others = sorted(file.name for kind in ("*.bin", "*.gguf", "*.pt", "*.pth") for file in checkpoint.glob(kind))
        found = f"only {', '.join(others[:3])}" if others else "no weights"
        raise NoFingerprintError(f"{checkpoint} has {found}, wants safetensors")
