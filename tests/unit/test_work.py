"""What a server's /metrics says of its requests."""

import random

import pytest

from appliance.core.work import PROGRESS, Work, work_in

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 9.0
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="weights_offloaded"} 0.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 27.0
vllm:prompt_tokens_created{engine="0",model_name="tiny"} 1.7960738457154782e+09
vllm:generation_tokens_total{engine="0",model_name="tiny"} 1.2e+06
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 1.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 3.0
vllm:request_success_created{engine="0",finished_reason="stop",model_name="tiny"} 1.79e+09
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="tiny"} 37.0
vllm:iteration_tokens_total_count{engine="0",model_name="tiny"} 40.0
vllm:iteration_tokens_total_sum{engine="0",model_name="tiny"} 67.0
process_cpu_seconds_total 12.5
"""

DONE = (
    ("vllm:generation_tokens_total", 1.2e6),
    ("vllm:prompt_tokens_total", 27.0),
    ("vllm:iteration_tokens_total_count", 40.0),
    ("vllm:request_success_total", 4.0),
)


def test_a_page_of_vllm_tells_of_its_engine() -> None:
    assert work_in(PAGE) == (Work(engine="0", running=2.0, waiting=1.0, done=DONE),)


def test_engines_that_share_the_requests_are_told_apart() -> None:
    other = PAGE.replace('engine="0"', 'engine="1"').replace("27.0", "5.0")
    first, second = work_in(PAGE + other)
    assert (first.engine, second.engine) == ("0", "1")
    assert dict(first.done)["vllm:prompt_tokens_total"] == 27.0
    assert dict(second.done)["vllm:prompt_tokens_total"] == 5.0


def test_an_engine_that_an_operator_put_to_sleep_is_asleep() -> None:
    asleep = PAGE.replace('awake"} 1.0', 'awake"} 0.0').replace('offloaded"} 0.0', 'offloaded"} 1.0')
    assert work_in(asleep)[0].asleep
    assert not work_in(PAGE)[0].asleep
    assert not work_in("vllm:num_requests_running 0.0\n")[0].asleep


@pytest.mark.parametrize(
    "text", ["", "\n\n", "garbage", "# vllm:num_requests_running 1", "process_cpu_seconds_total 1"]
)
def test_a_page_without_the_counters_tells_nothing(text: str) -> None:
    assert work_in(text) == ()


@pytest.mark.parametrize(
    ("line", "running"),
    [
        ("vllm:num_requests_running 3", 3.0),
        ("vllm:num_requests_running{} 3", 3.0),
        ("vllm:num_requests_running 3 1796073845000", 3.0),
        ("vllm:num_requests_running 3.5e+01\r", 35.0),
        ('vllm:num_requests_running{model_name="a}b",engine="0"} 3', 3.0),
        ('vllm:num_requests_running{model_name="a\\"} 9",engine="0"} 3', 3.0),
        ('vllm:num_requests_running{model_name="engine=\\"7\\"",engine="0"} 3', 3.0),
        ("vllm:num_requests_running NaN", None),
        ("vllm:num_requests_running +Inf", None),
        ("vllm:num_requests_running many", None),
    ],
)
def test_a_line_may_be_written_in_every_way_that_the_format_has(line: str, running: float | None) -> None:
    found = work_in(f"{line}\nvllm:num_requests_waiting 0\n")
    assert running in [work.running for work in found]
    assert sum(work.running or 0 for work in found) == (running or 0)


@pytest.mark.parametrize(
    ("running", "waiting", "busy"),
    [(0, 0, False), (1, 0, True), (0, 1, True), (None, None, False), (None, 2, True), (2, None, True)],
)
def test_an_engine_is_busy_when_requests_run_or_wait(running: float | None, waiting: float | None, busy: bool) -> None:
    assert Work(engine="0", running=running, waiting=waiting).busy is busy


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({"a": 1}, {"a": 1}, False),
        ({"a": 1}, {"a": 2}, True),
        ({"a": 2}, {"a": 1}, False),
        ({"a": 2, "b": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2}, False),
        ({}, {"a": 1}, False),
        ({"a": 1}, {}, False),
    ],
)
def test_any_counter_that_grew_is_progress(before: dict[str, float], after: dict[str, float], moved: bool) -> None:
    old, new = (Work(engine="0", done=tuple(done.items())) for done in (before, after))
    assert new.moved_since(old) is moved


def test_no_page_breaks_the_reading() -> None:
    for seed in range(500):
        draw = random.Random(seed)
        parts = [*PAGE.split('"'), '"', "{", "}", "\\", "\n", " ", "NaN", "\x00", "é", *PROGRESS]
        text = "".join(draw.choice(parts) for _ in range(draw.randint(0, 60)))
        assert all(isinstance(work, Work) for work in work_in(text)), f"seed {seed}"
