"""`make proof` runs what is open of every proof; `--slice` runs a few cases of each, as `make test` does."""

import argparse
import json
import tempfile
from pathlib import Path

from tests.proof.damages import DAMAGED
from tests.proof.demo_answers import DEMO_ANSWERS
from tests.proof.demo_training import DEMO_TRAINING
from tests.proof.proof import RESULTS, Outcome, Proof, Record, age_of, chosen_slice, git, report_of, result_of
from tests.proof.sound_starts import SOUND_STARTS
from tests.system.cache import cache_folder

PROOFS = (DEMO_ANSWERS, DEMO_TRAINING, SOUND_STARTS, DAMAGED)


def run_cases(proof: Proof, cases: tuple[str, ...], record: Record | None) -> list[Outcome]:
    """Run cases; tell the failures at once."""
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for outcome in proof.run(cases, Path(folder)):
            outcomes.append(outcome)
            if record:
                record.add(outcome)
            if not outcome.passed:
                print(f"  FAILED {outcome.case}: {outcome.note}", flush=True)
    missing = set(cases) - {outcome.case for outcome in outcomes}
    return outcomes + [Outcome(case=case, passed=False, note="no outcome") for case in sorted(missing)]


def run_slice(proof: Proof) -> bool:
    """Run the cases that this commit draws; tell how old the full proof is."""
    print(f"{proof.name}: {age_of(proof)}", flush=True)
    cases = chosen_slice(proof, git("rev-parse", "HEAD"))
    outcomes = run_cases(proof, cases, None)
    passed = sum(outcome.passed for outcome in outcomes)
    print(f"{proof.name}: {passed} of {len(cases)} cases of the slice passed", flush=True)
    return passed == len(cases) > 0


def run_whole(proof: Proof) -> bool:
    """Run what is open, and write the result when nothing is."""
    record = Record(proof, cache_folder())
    cases = record.open_cases(proof)
    print(f"{proof.name}: {len(proof.cases) - len(cases)} of {len(proof.cases)} cases done before", flush=True)
    if cases:
        run_cases(proof, cases, record)
    result = result_of(proof, record.outcomes)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{proof.name}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    if proof.columns:
        (RESULTS / f"{proof.name}.md").write_text(report_of(proof, record.outcomes))
    print(f"{proof.name}: {result['passed']} of {result['cases']} passed", flush=True)
    return result["passed"] == result["cases"]


def main() -> None:
    """Run proofs by name, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(proof.name for proof in PROOFS)}")
    parser.add_argument("--slice", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.names) - {proof.name for proof in PROOFS}:
        parser.error(f"no proof is called {', '.join(sorted(unknown))}")
    wanted = [proof for proof in PROOFS if proof.name in options.names or not options.names]
    results = [run_slice(proof) if options.slice else run_whole(proof) for proof in wanted]
    raise SystemExit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
