"""Who said what: prefixes of all kinds, and tracebacks of processes that speak at the same time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.utterance import parts_of, utterances
from tests.unit.witness import EXPECTED, lines_of

PREFIXES = {
    "(EngineCore_DP0 pid=42) ERROR 07-31 10:00:00 [core.py:632] no": ("EngineCore_DP0", "ERROR", "no"),
    "(Worker_TP1 pid=7) no": ("Worker_TP1", "", "no"),
    "(VllmWorker rank=4 pid=7) ERROR 03-16 06:12:38 [multiproc_executor.py:375] no": ("VllmWorker", "ERROR", "no"),
    "(VllmWorker TP0 pid=7) INFO 08-25 12:24:19 [multiproc_executor.py:520] no": ("VllmWorker", "INFO", "no"),
    "ERROR 04-05 01:12:55 [core.py:390] no": ("", "ERROR", "no"),
    "ERROR 11-18 18:07:28 engine.py:366] no": ("", "ERROR", "no"),
    "DEBUG 08-09 21:13:56 [compilation/decorators.py:221] no": ("", "DEBUG", "no"),
    "(APIServer pid=1) (Worker pid=2) CRITICAL 12-23 23:04:22 [core.py:15] no": ("Worker", "CRITICAL", "no"),
    "\x1b[36m(RayWorkerWrapper pid=37, ip=10.0.0.8)\x1b[0m WARNING 06-12 15:44:15 worker_base.py:148] no": (
        "RayWorkerWrapper",
        "WARNING",
        "no",
    ),
    "[rank1]: no": ("rank1", "", "no"),
    "[rank1]:[E731 10:00:00.123456789 ProcessGroupNCCL.cpp:616] no": ("rank1", "ERROR", "no"),
    "[rank7]:[W806 14:25:27.650991133 ProcessGroupGloo.cpp:524] no": ("rank7", "WARNING", "no"),
    "W0819 19:28:50.060000 140406652626752 torch/distributed/run.py:779] no": ("", "WARNING", "no"),
    "2024-04-23 10:17:27,901\tINFO worker.py:1752 -- no": ("", "INFO", "no"),
    "INFO:     no": ("", "INFO", "no"),
    "ng3:3063025:3066048 [0] misc/socket.cc:49 NCCL WARN no": ("", "", "NCCL WARN no"),
    "gpu05:24037:24037 [0] NCCL INFO Bootstrap : Using bond0": ("", "INFO", "NCCL INFO Bootstrap : Using bond0"),
    "\x1eno": ("", "", "no"),
    "vllm serve: error: no": ("", "", "vllm serve: error: no"),
}


@pytest.mark.parametrize("line", PREFIXES)
def test_a_prefix_tells_who_speaks_and_how_loud(line: str) -> None:
    assert parts_of(line)[1:] == PREFIXES[line]


def test_tracebacks_of_two_ranks_that_speak_at_once_are_told_apart() -> None:
    first = [
        "(Worker_TP0 pid=1) Traceback (most recent call last):",
        '(Worker_TP0 pid=1)   File "/a/b.py", line 1, in load',
        "(Worker_TP0 pid=1)     read()",
        "(Worker_TP0 pid=1)     ~~~~^^",
        "(Worker_TP0 pid=1) ValueError: zero",
    ]
    second = [line.replace("_TP0 pid=1", "_TP1 pid=2").replace("zero", "one").replace("load", "send") for line in first]
    said = utterances(line for pair in zip(first, second, strict=True) for line in pair)
    assert [(one.speaker, one.text, one.frames) for one in said] == [
        ("Worker_TP0", "ValueError: zero", ("load", "read()")),
        ("Worker_TP1", "ValueError: one", ("send", "read()")),
    ]


def test_frames_hold_no_paths() -> None:
    for name in EXPECTED:
        for one in utterances(lines_of(name)):
            assert not any(".py" in frame and frame.startswith("/") for frame in one.frames)


def test_what_pydantic_says_of_a_field_has_its_name() -> None:
    said = utterances(
        [
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig",
            "max_num_seqs",
            "  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]",
            "    For further information visit https://errors.pydantic.dev/2.14/v/greater_than_equal",
        ]
    )
    assert said[2].text.startswith("max_num_seqs: Input should be greater than")
    assert said[3].text.startswith("For further")


PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    code()",
        "ValueError: no",
        "",
        "(Worker pid=1) ",
        "ERROR 01-01 00:00:00 [a.py:1] ",
    ]
)


@given(st.lists(st.one_of(st.text(), st.lists(PIECES, max_size=3).map("".join))))
def test_any_lines_are_read_and_each_utterance_knows_its_place(lines: list[str]) -> None:
    said = utterances(lines)
    assert [one.place for one in said] == sorted({one.place for one in said})
    assert all(one.text and lines[one.place].strip() for one in said)


@given(st.lists(PIECES), st.lists(PIECES))
def test_what_was_said_does_not_change_when_more_is(lines: list[str], more: list[str]) -> None:
    assert utterances([*lines, *more])[: len(utterances(lines))] == utterances(lines)
