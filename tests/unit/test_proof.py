"""The ground of the long proofs: slices, resuming, results."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.proof.proof import Outcome, Proof, Record, chosen_slice, digest, result_of


def run(cases: tuple[str, ...], _folder: Path) -> Iterator[Outcome]:
    for case in cases:
        yield Outcome(case=case, passed=case != "c", note="" if case != "c" else "was d")


PROOF = Proof(name="example", promise="p", covers=("Makefile",), seed=1, cases=tuple("abcdefgh"), slice_size=3, run=run)


def test_a_slice_is_drawn_by_the_commit() -> None:
    slices = {chosen_slice(PROOF, f"commit {number}") for number in range(20)}
    assert len(slices) > 5
    assert all(len(set(cases)) == 3 and set(cases) <= set(PROOF.cases) for cases in slices)


def test_an_interrupted_proof_goes_on_where_it_was(tmp_path: Path) -> None:
    record = Record(PROOF, tmp_path)
    for outcome in run(("a", "b", "c"), tmp_path):
        record.add(outcome)
    file = next((tmp_path / "proofs").glob("example-*.jsonl"))
    file.write_text(file.read_text() + '["d", tr')
    again = Record(PROOF, tmp_path)
    assert again.open_cases(PROOF) == ("c", "d", "e", "f", "g", "h"), "what failed is run again"
    assert again.outcomes["c"] == Outcome(case="c", passed=False, note="was d")


def test_a_result_counts_every_case_and_names_the_failed(tmp_path: Path) -> None:
    outcomes = {outcome.case: outcome for outcome in run(PROOF.cases, tmp_path)}
    result = result_of(PROOF, outcomes)
    assert (result["cases"], result["passed"], result["failed"]) == (8, 7, 1)
    assert result["failures"] == {"c": "was d"}
    assert json.loads(json.dumps(result)) == result


def test_a_case_without_an_outcome_is_not_passed() -> None:
    assert result_of(PROOF, {})["passed"] == 0


def test_the_digest_follows_the_content() -> None:
    other = Proof(name="o", promise="", covers=("pyproject.toml",), seed=1, cases=(), slice_size=0, run=run)
    assert digest(PROOF) != digest(other)
