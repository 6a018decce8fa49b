"""Train the demonstration model, or check a trained one.

    python demo/train.py --out demo/model [--steps N] [--seed N] [--provenance FILE]
    python demo/train.py --check demo/model

Same versions, same kind of CPU: same bytes. Nothing is written unless the model passes its examination.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

# `python demo/train.py` looks for modules in demo/ alone.
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from transformers.utils import logging as transformers_logging

from demo import examination, schooling, vocabulary
from demo.provenance import provenance_of

STEPS = 1000
LISTED_PROBLEMS = 20


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Train the demonstration model, or check a trained one.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--out", type=Path, help="train, and put the model into this folder")
    action.add_argument("--check", type=Path, help="examine the model in this folder")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--provenance", type=Path, help="where to note it (default: provenance.json beside --out)")
    options = parser.parse_args()
    transformers_logging.disable_progress_bar()
    plan = schooling.Plan(options.steps, options.seed)
    schooling.make_deterministic(plan.seed)
    if options.check:
        passed = show(examination.examine(options.check))
        show_exchanges(examination.layer_exchanges(options.check))
        return 0 if passed else 1
    out = options.out.absolute()
    return 0 if train(plan, out, options.provenance or out.parent / "provenance.json") else 1


def train(plan: schooling.Plan, out: Path, provenance: Path) -> bool:
    """Train and examine beside `out`; replace `out` and write the provenance if the model passes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".training-") as scratch:
        trained = Path(scratch) / "trained"
        report = write_trained(plan, trained)
        result = examination.examine(trained)
        if not show(result):
            return False
        exchanges = examination.layer_exchanges(trained)
        show_exchanges(exchanges)
        if not all(exchanges.values()):
            print("an exchange of layers changes no answer: the self-test could not see it", file=sys.stderr)
            return False
        origin = provenance_of(trained, plan, report, result) | {"layer_exchanges": exchanges}
        if out.exists():
            out.rename(Path(scratch) / "replaced")
        trained.rename(out)
    provenance.write_text(json.dumps(origin, indent=2, ensure_ascii=False) + "\n")
    return True


def write_trained(plan: schooling.Plan, folder: Path) -> schooling.Report:
    """Train a model by the plan and write it to the folder in bfloat16."""
    tokenizer = vocabulary.build_tokenizer()
    model = schooling.build_model(tokenizer)
    report = schooling.train(model, tokenizer, plan)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors gives its files to their owner alone
    return report


def show(result: examination.Result) -> bool:
    """Print what an examination found; return whether the model passed."""
    for precision, margin in result.margins.items():
        print(f"{precision}: {result.tokens} answer tokens, smallest margin {margin.nats:.2f} nats: {margin.where}")
    for problem in result.problems[:LISTED_PROBLEMS]:
        print(problem, file=sys.stderr)
    if len(result.problems) > LISTED_PROBLEMS:
        print(f"and {len(result.problems) - LISTED_PROBLEMS} more problems", file=sys.stderr)
    return not result.problems


def show_exchanges(exchanges: dict[str, dict[str, str]]) -> None:
    """Print what exchanging two layers does to the answers."""
    for layers, changed in exchanges.items():
        print(f"layers {layers} exchanged: {len(changed)} of {len(examination.EXCHANGE_QUESTIONS)} answers change")
        for question, said in changed.items():
            print(f"    {question} -> {said}")


if __name__ == "__main__":
    sys.exit(main())
