"""The ground of the long proofs: slices, resuming, results."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.proof.damages import DAMAGED, judged
from tests.proof.proof import Outcome, Proof, Record, chosen_slice, digest, report_of, result_of
from tests.proof.sound_starts import SOUND_STARTS
from tests.proof.trial import Examined


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


def run_with_rows(cases: tuple[str, ...], _folder: Path) -> Iterator[Outcome]:
    for case in cases:
        yield Outcome(case=case, passed=case != "b", note="" if case != "b" else "no x", row=("did | this", f"{case}1"))


TABLED = Proof(
    name="tabled",
    promise="every letter is written",
    covers=("Makefile",),
    seed=1,
    cases=("a", "b", "c"),
    slice_size=1,
    run=run_with_rows,
    columns=("what", "found"),
    remark=lambda outcomes: f"{len(outcomes)} letters.",
)


def test_a_proof_with_columns_keeps_what_was_found_in_passed_cases_too(tmp_path: Path) -> None:
    record = Record(TABLED, tmp_path)
    for outcome in run_with_rows(TABLED.cases, tmp_path):
        record.add(outcome)
    outcomes = Record(TABLED, tmp_path).outcomes
    assert outcomes == record.outcomes
    result = result_of(TABLED, outcomes)
    assert result["columns"] == ["what", "found"]
    assert result["rows"] == {case: ["did | this", f"{case}1"] for case in "abc"}


def test_a_proof_without_columns_keeps_what_it_always_kept() -> None:
    assert not {"columns", "rows"} & set(result_of(PROOF, {"a": Outcome(case="a", passed=True)}))


def test_the_table_for_people_has_a_row_a_case_and_names_the_failed() -> None:
    report = report_of(TABLED, {outcome.case: outcome for outcome in run_with_rows(TABLED.cases, Path())})
    assert "2 of 3 cases passed" in report
    assert "3 letters." in report
    assert "| a | did \\| this | a1 |\n" in report
    assert "| b | did \\| this | b1 | **failed**: no x |\n" in report


def asked(status: int, outcome: str, **outcomes: str) -> Examined:
    more = {"gate": True, "judge": "answer", "why": "", "found": "", "measures": {}, "bounds": {}}
    return Examined(status, outcome, tuple({"name": name, "outcome": word, **more} for name, word in outcomes.items()))


def test_a_damage_is_caught_only_where_nothing_called_it_right() -> None:
    wrong, right = asked(1, "wrong", france="wrong"), asked(0, "right", france="right")
    unknown = asked(75, "unknown", france="unknown")
    assert judged("c", "", wrong, called_ready=False, excuse="").passed
    assert not judged("c", "", wrong, called_ready=True, excuse="").passed
    assert not judged("c", "", right, called_ready=True, excuse="").passed
    assert not judged("c", "", unknown, called_ready=False, excuse="").passed


def test_a_damage_with_an_excuse_may_pass_but_not_as_right_and_wrong_at_once() -> None:
    wrong, right = asked(1, "wrong", france="wrong"), asked(0, "right", france="right")
    outcome = judged("c", "", right, called_ready=True, excuse="as large as noise")
    assert outcome.passed
    assert outcome.row[1] == "nothing: as large as noise"
    assert judged("c", "", wrong, called_ready=False, excuse="e").passed
    assert not judged("c", "", wrong, called_ready=True, excuse="e").passed


def test_slices_of_damages_and_of_sound_starts_are_others_than_the_kept_cases() -> None:
    for proof in (DAMAGED, SOUND_STARTS):
        assert not set(proof.quick) & set(proof.cases)
        assert len(set(proof.cases)) == len(proof.cases)
    assert len(SOUND_STARTS.cases) == 80
