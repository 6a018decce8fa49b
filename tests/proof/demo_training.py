"""The training of the demonstration model gives the same bytes again."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.contract.service import ENGINES
from tests.proof.proof import ROOT, Outcome, Proof

SHORT = """
import hashlib, sys
from demo import schooling, vocabulary
steps, seed = map(int, sys.argv[1:])
schooling.make_deterministic(seed)
tokenizer = vocabulary.build_tokenizer()
model = schooling.build_model(tokenizer)
schooling.train(model, tokenizer, schooling.Plan(steps=steps, seed=seed))
digest = hashlib.sha256()
for name, weights in model.named_parameters():
    digest.update(name.encode() + weights.detach().numpy().tobytes())
print(digest.hexdigest())
"""
"""A training cut short, and the digest of its weights."""

WHOLE = "whole"
SHORT_CASES = tuple(f"steps {steps}, seed {seed}" for steps in (6, 9, 12) for seed in (0, 1, 2, 3))


def run(cases: tuple[str, ...], folder: Path) -> Iterator[Outcome]:
    """Train each case twice; the whole training is compared with the model in the repository."""
    for case in cases:
        if case == WHOLE:
            yield _whole(folder)
        else:
            steps, seed = case.removeprefix("steps ").split(", seed ")
            digests = [_python("-c", SHORT, steps, seed).splitlines()[-1] for _ in range(2)]
            yield Outcome(case=case, passed=digests[0] == digests[1], note=" and ".join(digests))


def _whole(folder: Path) -> Outcome:
    """Train as the shipped model was trained. On another kind of CPU only the examination counts."""
    shipped = json.loads((ROOT / "demo/provenance.json").read_text())
    _python("demo/train.py", "--out", str(folder / "model"))
    trained = json.loads((folder / "provenance.json").read_text())
    if trained["cpu"]["instructions"] != shipped["cpu"]["instructions"]:
        return Outcome(case=WHOLE, passed=True, note=f"examined only: {trained['cpu']}")
    differing = [name for name, digest in shipped["sha256"].items() if trained["sha256"].get(name) != digest]
    return Outcome(case=WHOLE, passed=not differing, note=", ".join(differing))


def _python(*arguments: str) -> str:
    command = [str(ENGINES / "current/bin/python"), *arguments]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=3600)
    if done.returncode:
        raise RuntimeError(f"{command}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def versions() -> dict[str, str]:
    """Return what the training computes with."""
    code = "import json, torch, transformers; print(json.dumps([torch.__version__, transformers.__version__]))"
    torch, transformers = json.loads(_python("-c", code).splitlines()[-1])
    return {"torch": torch, "transformers": transformers}


DEMO_TRAINING = Proof(
    name="demo-training",
    promise="with the same versions on the same kind of CPU the demonstration model is trained to the same bytes",
    covers=("demo", "appliance/engine/lock", "tests/proof/demo_training.py"),
    seed=0,
    cases=(*SHORT_CASES, WHOLE),
    quick=SHORT_CASES,
    slice_size=1,
    run=run,
    versions=versions,
)
