"""What is known beside an engine's lines, and what follows from not knowing it."""

import dataclasses

import pytest

from appliance.core.diagnosis import LONGEST_QUOTE, OOM, UNKNOWN, Diagnosis, Evidence, diagnosed, evidence_of
from appliance.core.phase import ExitStatus
from appliance.core.setting import Setting
from tests.unit.example import plan
from tests.unit.witness import lines_of

KILLED = (
    "Memory cgroup out of memory: Killed process 4242 (VLLM::Worker) total-vm:9kB, anon-rss:2097152kB, file-rss:0kB"
)
FOREIGN = "Out of memory: Killed process 4242 (firefox) total-vm:9kB, anon-rss:2097152kB, file-rss:0kB"
XID = "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus"
LOST = lines_of("crash_worker_sigkill")


def test_the_kernels_words_outweigh_the_engines() -> None:
    found = diagnosed(LOST, Evidence(kernel=(KILLED,)))
    assert (found.id, found.speaker, found.line) == (OOM, "kernel", KILLED)
    assert "VLLM::Worker" in found.summary
    assert "2.0 GiB" in found.summary
    assert found.lines[0] == f"kernel: {KILLED}"
    assert diagnosed(LOST, Evidence(kernel=(XID,))).id == "gpu.lost"


def test_of_what_the_kernel_says_the_first_counts() -> None:
    assert diagnosed((), Evidence(kernel=(XID, KILLED))).id == "gpu.lost"
    assert diagnosed((), Evidence(kernel=(KILLED, XID))).id == OOM


def test_what_the_kernel_did_to_another_program_is_no_cause() -> None:
    assert diagnosed(LOST, Evidence(kernel=(FOREIGN,))).id == "engine.worker-lost"
    ours = FOREIGN.replace("firefox", "nvcc")
    assert diagnosed(LOST, Evidence(kernel=(ours,))).id == OOM
    assert diagnosed(LOST, Evidence(kernel=(ours,), oom_kills=1)).id == OOM
    assert diagnosed(LOST, Evidence(kernel=(ours,), oom_kills=0)).id == "engine.worker-lost"


def test_the_kernels_count_stands_where_its_words_cant_be_read() -> None:
    found = diagnosed(LOST, Evidence(kernel=None, oom_kills=2))
    assert (found.id, found.line) == (OOM, "memory.events: oom_kill 2")
    assert diagnosed((), Evidence(kernel=(), oom_kills=1)).id == OOM
    assert diagnosed(LOST, Evidence(kernel=(KILLED,), oom_kills=1)).line == KILLED


def test_not_to_know_whether_the_kernel_killed_is_told_and_is_no_no() -> None:
    unknown = diagnosed(LOST, Evidence())
    assert unknown.id == "engine.worker-lost"
    assert "could not be told" in unknown.summary
    denied = diagnosed(LOST, Evidence(oom_kills=0))
    assert "not the kernel for lack of memory" in denied.summary


def test_what_a_request_may_say_is_no_cause_once_the_engine_answered() -> None:
    lines = ("jinja2.exceptions.TemplateSyntaxError: no", *LOST)
    assert diagnosed(lines, Evidence()).id == "setting.chat-template"
    assert diagnosed(lines, Evidence(ready=True)).id == "engine.worker-lost"


def test_an_engine_that_once_answered_is_worth_another_try() -> None:
    lines = ("OSError: [Errno 24] Too many open files",)
    assert diagnosed(lines, Evidence()).permanent
    found = diagnosed(lines, Evidence(ready=True))
    assert (found.id, found.permanent, found.status) == ("host.open-files", False, ExitStatus.TRY_LATER)


def test_waiting_is_a_cause_only_where_the_engine_was_ended_for_it() -> None:
    lines = (
        "(EngineCore pid=2) INFO 11-30 21:00:00 [shm.py:1] No available shared memory broadcast block found in 60s",
    )
    assert diagnosed(lines, Evidence(stalled=True)).id == "engine.worker-hung"
    assert diagnosed(lines, Evidence(stalled=False)).id == UNKNOWN
    went_on = (*lines, "(APIServer pid=1) INFO:     Application startup complete.")
    assert diagnosed(went_on, Evidence(stalled=True)).id == UNKNOWN


def test_what_a_hung_engine_says_when_it_is_ended_is_no_cause() -> None:
    stacks = ("Fatal Python error: Aborted", "Thread 0x7f (most recent call first):")
    assert diagnosed(stacks, Evidence(stalled=False)).id == "engine.crashed"
    hung = diagnosed(stacks, Evidence(stalled=True))
    assert (hung.id, hung.summary) == (UNKNOWN, "the engine hung: nothing moved any more, and it named no error")


def test_what_an_engine_says_after_it_was_asked_to_stop_is_no_cause() -> None:
    stop = "(APIServer pid=1) INFO 11-30 21:00:00 [api_server.py:9] [shutdown] API server: shutdown triggered"
    found = diagnosed((stop, "RuntimeError: CUDA error: an illegal memory access was encountered"), Evidence(status=0))
    assert found.id == UNKNOWN
    assert found.summary == "the engine ended (exit status 0): it was asked to stop, but not by vllm-serve"


@pytest.mark.parametrize(
    ("status", "how"),
    [(None, ""), (1, " (exit status 1)"), (-15, " (killed by SIGTERM)"), (-64, " (killed by signal 64)")],
)
def test_an_engine_that_said_nothing_is_told_by_its_end(status: int | None, how: str) -> None:
    found = diagnosed((), Evidence(status=status))
    assert found == Diagnosis(id=UNKNOWN, summary=f"the engine ended by itself{how} and named no error")


def test_of_an_engine_that_was_killed_it_is_told_whether_the_kernel_did_it() -> None:
    assert diagnosed((), Evidence(status=-9)).summary.endswith("for lack of memory could not be told")
    assert diagnosed((), Evidence(status=-9, oom_kills=0)).summary.endswith(
        "not the kernel for lack of memory, by its own count"
    )
    assert diagnosed((), Evidence(status=-9, oom_kills=1)).id == OOM
    assert diagnosed((), Evidence(status=-9, oom_kills=1), rules=()).summary.endswith("named no error")


def test_an_error_that_a_process_lived_on_with_is_outweighed_by_what_ended_it() -> None:
    logged = "(APIServer pid=1) ERROR 11-30 21:00:00 [registry.py:1041] OSError: [Errno 30] Read-only file system: '/x'"
    on = "(APIServer pid=1) INFO 11-30 21:00:01 [model.py:2152] Using max model len 256"
    assert diagnosed((logged,), Evidence()).id == "host.permission"
    assert diagnosed((logged, on), Evidence()).id == "host.permission"
    assert diagnosed((logged, on, *LOST), Evidence()).id == "engine.worker-lost"
    assert diagnosed((logged, on, "(Worker pid=2) ValueError: the root"), Evidence(), rules=()).summary.endswith("root")


def test_an_error_that_no_rule_knows_is_not_hidden_by_those_who_only_report_it() -> None:
    lines = (
        "(Worker_TP1 pid=4) ERROR 11-30 21:00:00 [worker.py:9] ValueError: never seen before",
        "(EngineCore pid=2) ERROR 11-30 21:00:01 [core.py:9] Worker proc VllmWorker-1 died unexpectedly (exit code: 1)",
        "(APIServer pid=1) WARNING 11-30 21:00:02 [core_client.py:9] MPClient: engine core exited unexpectedly",
    )
    found = diagnosed(lines, Evidence())
    assert (found.id, found.line, found.speaker) == (UNKNOWN, "ValueError: never seen before", "Worker_TP1")
    assert diagnosed(lines[1:], Evidence()).id == "engine.worker-lost"
    killed = (lines[0], lines[1].replace("code: 1", "code: -9"))
    assert diagnosed(killed, Evidence()).id == "engine.worker-lost"


def test_settings_of_the_plan_are_named_with_what_they_are() -> None:
    planned = dataclasses.replace(
        plan(), settings=(Setting(name="gpu_memory_utilization", value=0.92, origin="x"),), port=8123
    )
    memory = diagnosed(lines_of("kv_too_small"), evidence_of(planned, Evidence()))
    assert "gpu_memory_utilization (now 0.92)" in memory.remedy
    taken = diagnosed(("OSError: [Errno 98] Address already in use",), evidence_of(planned, Evidence()))
    assert "8123" in taken.summary


def test_a_quoted_line_holds_no_secret_and_has_an_end() -> None:
    lines = ("ValueError: no: --api-key abcdef --hf-token hf_abcdef", f"OSError: {'x' * 9999}")
    found = diagnosed(lines, Evidence(), rules=())
    for text in (found.summary, found.line, *found.lines):
        assert "abcdef" not in text
        assert len(text) <= LONGEST_QUOTE + len("the engine failed: ")
