"""The report of the stacks in an engine's output; the outputs are those of vLLM 0.32 on a CPU."""

import random
from pathlib import Path

import pytest

from appliance.core.activity import Member
from appliance.engine.stack import LONGEST_REPORT, MARK, MOST_FRAMES, stacks_in, standing

RECORDED = Path(__file__).parents[1] / "fixtures/stacks"


def recorded(name: str) -> list[str]:
    return (RECORDED / f"{name}.txt").read_text().splitlines()


def written(process: str, *functions: str, mark: bool = True, thread: str = "Thread 0x00007f0a321fe6c0") -> list[str]:
    """Return what a process writes that has a side thread and a main thread in these functions."""
    frames = [f'  File "/opt/lib/python3.11/site-packages/vllm/x.py", line {n} in {f}' for n, f in enumerate(functions)]
    return [
        *([f"{MARK}{process}"] if mark else []),
        "Fatal Python error: Aborted",
        f"{thread} (most recent call first):",
        '  File "/usr/lib/python3.11/threading.py", line 320 in wait',
        '  File "/usr/lib/python3.11/threading.py", line 995 in _bootstrap',
        "Thread 0x00007f0a74c47300 (most recent call first):",
        *frames,
        '  File "<string>", line 1 in <module>',
        "Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)",
    ]


@pytest.mark.parametrize(
    ("name", "processes", "innermost", "somewhere"),
    [
        ("import", ["API server (pid 24099), running"], ["_create_fn"], "vllm/env_override.py:894"),
        ("spawn", ["python (pid 27309), running", "API server"], ["<module>", "poll"], "wait_for_engine_startup"),
        ("load", ["VLLM::Worker", "VLLM::EngineCore", "API server"], ["register_buffer", "select", "poll"], "get_rope"),
        (
            "frozen",
            ["VLLM::Worker", "VLLM::EngineCore (pid 25936), stopped in do_signal_stop", "API server"],
            ["sched_yield", "wait", "run"],
            "vllm/v1/engine/core.py:1588 _process_input_queue",
        ),
        ("busy", ["VLLM::EngineCore", "API server"], ["copy_to_gpu", "run"], "_prepare_inputs"),
    ],
)
def test_the_report_of_a_real_engine_has_each_process_and_where_it_stood(
    name: str, processes: list[str], innermost: list[str], somewhere: str
) -> None:
    report = stacks_in(recorded(name))
    places = [place for place, line in enumerate(report) if not line.startswith(" ")]
    assert len(places) == len(processes)
    assert all(report[place].startswith(said) for place, said in zip(places, processes, strict=True))
    assert [report[place + 1].rpartition(" ")[2] for place in places] == innermost
    assert any(somewhere in line for line in report)
    assert len(report) <= LONGEST_REPORT
    assert not any("importlib" in line or "site-packages" in line or "/lib/python3" in line for line in report)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["INFO:     Application startup complete."],
        ["Traceback (most recent call last):", '  File "/x/y.py", line 3, in f', "ValueError: no"],
        ["Thread 0x00007f0a321fe6c0 (most recent call first):", '  File "x.py", line 1 in f'],
    ],
)
def test_an_output_without_stacks_has_no_report(lines: list[str]) -> None:
    assert stacks_in(lines) == ()


def test_a_sound_start_has_no_report() -> None:
    log = RECORDED.parent / "engine-logs/ok_start_stop_sigterm.log"
    assert stacks_in(log.read_text().splitlines()) == ()


def test_of_a_process_the_main_thread_is_shown_whichever_took_the_signal() -> None:
    lines = written("VLLM::Worker (pid 7), running", "inner", "outer", thread="Current thread 0x00007f0a321fe6c0")
    assert stacks_in(lines) == (
        "VLLM::Worker (pid 7), running",
        "    vllm/x.py:0 inner",
        "    vllm/x.py:1 outer",
        "    <string>:1 <module>",
    )


def test_without_a_module_at_its_root_the_main_thread_is_the_oldest() -> None:
    """Python writes a hundred frames at most, so the root of a deep import is missing."""
    lines = [line for line in written("x", "inner") if "<module>" not in line]
    assert stacks_in([*lines[:-1], "  ..."])[1] == "    vllm/x.py:0 inner"


def test_threads_may_have_names_and_frames_none_of_python() -> None:
    lines = written("x", "inner", thread="Thread 0x00007f0a321fe6c0 [MainThread]")
    assert stacks_in(lines)[1] == "    vllm/x.py:0 inner"
    bare = [f"{MARK}x", "Fatal Python error: Aborted", "Current thread 0x00007f0a (most recent call first):"]
    assert stacks_in([*bare, "  <no Python frame>"]) == ("x", "    no stack was written")


def test_workers_that_stand_at_the_same_place_stand_there_once() -> None:
    lines = [line for rank in range(8) for line in written(f"VLLM::Worker_TP{rank}", "all_reduce", "forward")]
    report = stacks_in([*lines, *written("VLLM::EngineCore", "get")])
    assert report[:8] == tuple(f"VLLM::Worker_TP{rank}" for rank in range(8))
    assert report[8:] == (
        "    vllm/x.py:0 all_reduce",
        "    vllm/x.py:1 forward",
        "    <string>:1 <module>",
        "VLLM::EngineCore",
        "    vllm/x.py:0 get",
        "    <string>:1 <module>",
    )


def test_a_deep_stack_is_cut_and_says_so() -> None:
    report = stacks_in(written("x", *(f"f{number}" for number in range(90))))
    assert len(report) == MOST_FRAMES + 2
    assert report[1] == "    vllm/x.py:0 f0"
    assert report[-1] == f"    ... and {91 - MOST_FRAMES} frames further out"


def test_many_processes_are_cut_and_say_so() -> None:
    lines = [line for rank in range(16) for line in written(f"VLLM::Worker_TP{rank}", f"f{rank}", *"abcdefgh")]
    report = stacks_in(lines)
    assert len(report) == LONGEST_REPORT
    assert report[-1] == f"... and {16 * 11 - LONGEST_REPORT + 1} lines more, in the engine's output"


def test_a_process_that_wrote_nothing_is_named_all_the_same() -> None:
    assert stacks_in([f"{MARK}a", *written("b", "inner")])[:3] == ("a", "    no stack was written", "b")
    assert stacks_in([*written("b", "inner"), f"{MARK}a"])[-2:] == ("a", "    no stack was written")


def test_a_process_that_died_by_itself_is_told_with_what_it_died_of() -> None:
    crash = [line.replace("Aborted", "Segmentation fault") for line in written("", "kernel", mark=False)]
    assert stacks_in(crash)[:2] == ("a process that died of: Segmentation fault", "    vllm/x.py:0 kernel")
    assert stacks_in([*written("b", "inner"), *crash])[3] == "a process that died of: Segmentation fault"


def test_other_lines_between_them_do_no_harm() -> None:
    sound = written("VLLM::Worker", "inner", "outer")
    for seed in range(200):
        draw = random.Random(seed)
        lines = list(sound)
        for _ in range(draw.randint(1, 10)):
            lines.insert(draw.randint(0, len(lines)), draw.choice(["", "INFO x", '  File "y", line 1, in z', "  ..."]))
        assert stacks_in(lines) == stacks_in(sound), f"seed {seed}"


def test_no_output_breaks_the_report() -> None:
    every = [line for name in ("import", "load", "frozen", "busy") for line in recorded(name)]
    for seed in range(200):
        draw = random.Random(seed)
        lines = [draw.choice(every)[: draw.randint(0, 90)] for _ in range(draw.randint(0, 300))]
        assert len(stacks_in(lines)) <= LONGEST_REPORT, f"seed {seed}"


@pytest.mark.parametrize(
    ("state", "wchan", "told"),
    [
        ("R", "", "w (pid 7), running"),
        ("T", "do_signal_stop", "w (pid 7), stopped in do_signal_stop"),
        ("D", "", "w (pid 7), waiting for a device"),
        ("I", "", "w (pid 7), I"),
    ],
)
def test_a_process_is_told_with_its_state_and_where_it_waits(state: str, wchan: str, told: str) -> None:
    assert standing(Member(pid=7, started=1, name="w", state=state, cpu=0.0, wchan=wchan)) == told
