"""The last failure: how it is kept, what damage does to it, and how it is told."""

import dataclasses
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.codec import json_of, record_of
from appliance.core.diagnosis import Diagnosis
from appliance.core.failure import KEPT, Failure, kept, story
from appliance.service.failure import NAME, keep_failure, read_failure

FOUND = Diagnosis(
    id="engine.kv-cache-too-small",
    summary="it does not fit",
    remedy="lower [vllm] max_model_len",
    line="ValueError: too long",
    speaker="EngineCore",
    permanent=True,
    lines=("EngineCore: ValueError: too long",),
)
FAILURE = Failure(
    time="2026-12-01T10:00:00+01:00",
    launch=3,
    phase="loading the model",
    status=1,
    elapsed=12.5,
    engine="vllm-0.32.0-cpu",
    model="/models/tiny",
    diagnosis=FOUND,
    lines=("(EngineCore pid=2) ValueError: too long",),
)


def test_it_is_kept_and_read_again(tmp_path: Path) -> None:
    assert read_failure(tmp_path) is None
    assert keep_failure(tmp_path, FAILURE) is None
    assert read_failure(tmp_path) == FAILURE
    newer = dataclasses.replace(FAILURE, launch=4, status=None)
    assert keep_failure(tmp_path, newer) is None
    assert read_failure(tmp_path) == newer
    assert [file.name for file in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_services_group_may_read_it_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert keep_failure(tmp_path, FAILURE) is None
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o640


def test_a_folder_that_is_not_there_is_told_and_nothing_is_raised(tmp_path: Path) -> None:
    missing = tmp_path / "state"
    assert keep_failure(missing, FAILURE) == f"{missing / NAME} can't be written: No such file or directory"
    assert read_failure(missing) is None


def test_a_full_disk_keeps_the_record_before(tmp_path: Path) -> None:
    assert keep_failure(tmp_path, FAILURE) is None
    Path(tmp_path / f".{NAME}.new").symlink_to("/dev/full")
    assert "can't be written" in (keep_failure(tmp_path, dataclasses.replace(FAILURE, launch=4)) or "")
    assert read_failure(tmp_path) == FAILURE
    assert [file.name for file in tmp_path.iterdir()] == [NAME]


def test_a_draft_that_a_power_cut_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / f".{NAME}.new").write_text('{"half')
    assert keep_failure(tmp_path, FAILURE) is None
    assert read_failure(tmp_path) == FAILURE


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "{}", '{"time": 1}', "\udce9", json_of(FAILURE)[:-20]])
def test_a_damaged_record_is_an_error_of_its_own(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=r"\S"):
        read_failure(tmp_path)


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_of_an_engine_can_be_kept(text: str, lines: list[str]) -> None:
    failure = dataclasses.replace(
        FAILURE, lines=kept(lines), diagnosis=dataclasses.replace(FOUND, summary=text, lines=tuple(lines))
    )
    assert record_of(Failure, json_of(failure)) == failure


def test_only_the_last_lines_are_kept_and_no_secret() -> None:
    lines = kept([*(f"line {number}" for number in range(200)), "--hf-token hf_abcdef"])
    assert (len(lines), lines[0]) == (KEPT, f"line {201 - KEPT}")
    assert "abcdef" not in lines[-1]


def test_it_is_told_with_what_when_why_and_what_to_do() -> None:
    assert list(story(FAILURE)) == [
        "2026-12-01T10:00:00+01:00: engine 3 failed while loading the model, after 12 s (exit status 1)",
        "model /models/tiny, engine vllm-0.32.0-cpu",
        "",
        "what:  it does not fit (engine.kv-cache-too-small)",
        "do:    lower [vllm] max_model_len",
        "read:  EngineCore said: ValueError: too long",
        "again: nothing mends itself",
        "",
        "the last lines that matter:",
        "    EngineCore: ValueError: too long",
    ]


def test_what_is_not_known_is_not_told() -> None:
    bare = Diagnosis(id="engine.unknown", summary="it ended")
    told = list(story(dataclasses.replace(FAILURE, engine=None, model=None, status=None, diagnosis=bare)))
    assert told == [
        "2026-12-01T10:00:00+01:00: engine 3 failed while loading the model, after 12 s (it hung and was ended)",
        "",
        "what:  it ended (engine.unknown)",
        "again: another try may go well",
    ]
