"""The status line and status.json."""

import dataclasses

import pytest

from appliance.core.codec import json_of, record_of
from appliance.core.machine import Machine
from appliance.core.phase import Phase, Purpose, Result
from appliance.core.status import LONGEST_LINE, WAYS_OUT, Identity, Status, status_line, status_of
from tests.unit.example import plan

HELD = Machine(phase=Phase.HOLDING, plan=plan(), wrong='self-test: "3 + 4?" got "8"')
SERVING = Machine(phase=Phase.SERVING, plan=plan(), ready=True)


def test_a_held_engine_tells_the_reason_first_and_then_both_ways_out() -> None:
    line = status_line(HELD, "")
    assert line.startswith('self-test: "3 + 4?" got "8"; kept up for probing, not ready: ')
    assert "`vllm-serve selftest --record`" in line
    assert line.endswith("`systemctl restart vllm-serve`")


@pytest.mark.parametrize(
    "wrong", ["x" * 10000, "\u8abf" * 500, "\u0130\n" * 300, "\U0001f40d" * 90, "\x1b[31m\r\0" * 20, ""]
)
@pytest.mark.parametrize("due", [False, True])
def test_the_ways_out_stand_whole_behind_a_reason_of_any_length_and_script(wrong: str, due: bool) -> None:
    line = status_line(dataclasses.replace(HELD, wrong=wrong, due=due), "")
    assert line.isascii()
    assert line.isprintable()
    assert len(line) <= LONGEST_LINE
    assert line.endswith(WAYS_OUT)


def test_a_reason_that_just_fits_is_not_cut() -> None:
    room = LONGEST_LINE - len(WAYS_OUT)
    assert status_line(dataclasses.replace(HELD, wrong="x" * room), "") == "x" * room + WAYS_OUT
    cut = status_line(dataclasses.replace(HELD, wrong="x" * (room + 1)), "")
    assert cut == "x" * (room - 3) + "..." + WAYS_OUT


def test_a_probe_in_work_shows() -> None:
    assert status_line(dataclasses.replace(HELD, due=True), "").startswith('asking again after self-test: "3 + 4?"')


def test_a_reload_of_a_held_engine_shows_as_such() -> None:
    machine = dataclasses.replace(HELD, phase=Phase.CHECKING, purpose=Purpose.RELOAD)
    assert status_line(machine, "") == "reloading: checking the machine"


def test_an_engine_that_is_known_to_be_wrong_and_serves_says_so_until_it_is_right() -> None:
    assert status_line(SERVING, "") == "serving demo on http://127.0.0.1:8000"
    wrong = dataclasses.replace(SERVING, wrong="no")
    assert status_line(wrong, "") == "serving demo on http://127.0.0.1:8000, WRONGLY: no"
    refused = dataclasses.replace(wrong, result=Result.REFUSED, why="x.toml:1: bad")
    assert status_line(refused, "").endswith(", WRONGLY: no; last reload refused: x.toml:1: bad")


def test_a_restart_for_wrong_answers_shows_as_such() -> None:
    machine = Machine(phase=Phase.LOADING, purpose=Purpose.RESTART, plan=plan())
    assert status_line(machine, "loading weights: 5 %") == "restarting: loading demo: loading weights: 5 %"


def test_status_json_tells_what_is_wrong_and_an_older_one_without_it_can_be_read() -> None:
    status = status_of(HELD, Identity(pid=1, started=2), "")
    assert (status.phase, status.wrong) == ("self-test-failed", HELD.wrong)
    text = json_of(status)
    assert record_of(Status, text) == status
    older = text.replace(f', "wrong": {json_of_text(HELD.wrong)}', "")
    assert older != text
    assert record_of(Status, older).wrong == ""


def json_of_text(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
