"""What each log of a real engine is diagnosed as: failures by name and number, sound runs as nothing."""

from itertools import accumulate

import pytest

from appliance.core.diagnosis import LONGEST_QUOTE, Diagnosis, cause_seen, diagnosed
from appliance.core.phase import ExitStatus
from appliance.core.utterance import utterances
from tests.unit.witness import EXPECTED, FOLDERS, NONE, WORDINGS, evidence_for, lines_of, subject

FAILED = {name: want for name, want in EXPECTED.items() if want["is"] not in NONE}
SOUND = [name for name, want in EXPECTED.items() if want["is"] in NONE]


def told(found: Diagnosis) -> str:
    return f"{found.summary}; {found.remedy}"


def test_every_log_has_a_diagnosis_to_be_held_against() -> None:
    assert {file.stem for folder in FOLDERS for file in folder.glob("*.log")} == set(EXPECTED)


@pytest.mark.parametrize("name", FAILED)
def test_a_failure_is_recognised_with_its_numbers(name: str) -> None:
    want = FAILED[name]
    found = diagnosed(lines_of(name), evidence_for(want))
    assert found.id == want["is"]
    for text in want.get("tells", ()):
        assert text in told(found)
    if "by" in want:
        assert found.speaker == want["by"]
    assert "?" not in told(found)
    assert any(found.line in line for line in found.lines)
    assert len(found.line) <= LONGEST_QUOTE


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_wrong_with_a_sound_start_nor_with_a_part_of_it(name: str) -> None:
    want, lines = EXPECTED[name], lines_of(name)
    for part in accumulate(([line] for line in lines), initial=[]):
        seen = cause_seen(utterances(part), evidence_for(want))
        assert seen is None, f"{seen.rule.id}: {seen.line}" if seen else ""


@pytest.mark.parametrize("wording", WORDINGS, ids=subject)
def test_a_failure_that_somebody_else_reported_is_recognised_too(wording: dict[str, object]) -> None:
    lines = wording["lines"]
    assert isinstance(lines, list)
    found = diagnosed(() if wording.get("kernel") else lines, evidence_for(wording))
    assert found.id == wording["id"], found.summary
    tells = wording.get("tells", [])
    assert isinstance(tells, list)
    for text in tells:
        assert text in told(found)
    assert "?" not in told(found)


def by_process(lines: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the lines of each process; those without a name of any are last."""
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(line.partition(")")[0] if line.startswith("(") else "", []).append(line)
    return {name: found[name] for name in sorted(found, reverse=True)}


@pytest.mark.parametrize("name", [name for name in FAILED if len(by_process(lines_of(name))) > 2])
def test_the_other_order_of_the_processes_changes_nothing(name: str) -> None:
    """The lines of each process keep their order; which process is heard first is chance."""
    other = [line for said in by_process(lines_of(name)).values() for line in said]
    want = FAILED[name]
    assert diagnosed(other, evidence_for(want)).id == want["is"]


def test_what_mends_itself_ends_otherwise_than_what_does_not() -> None:
    missing = diagnosed(lines_of("missing_shard"), evidence_for({}))
    assert (missing.permanent, missing.status) == (True, ExitStatus.CONFIGURATION)
    taken = diagnosed(lines_of("port_in_use"), evidence_for({}))
    assert (taken.permanent, taken.status) == (False, ExitStatus.TRY_LATER)


def test_a_diagnosis_reads_as_one_line() -> None:
    found = diagnosed(lines_of("kv_too_small"), evidence_for({}))
    assert str(found) == f"{found.id}: {found.summary}; {found.remedy}"
    assert str(Diagnosis(id="engine.unknown", summary="it ended")) == "engine.unknown: it ended"
