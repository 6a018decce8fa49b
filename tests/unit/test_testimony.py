"""The error that a person would look for, where no rule knows the cause."""

import pytest

from appliance.core.diagnosis import UNKNOWN, Evidence, diagnosed
from appliance.core.testimony import MOST, errors_in, lines_that_matter, root_of
from appliance.core.utterance import utterances
from tests.unit.witness import EXPECTED, NONE, evidence_for, lines_of

ROOTS = {
    "auto_tool_without_parser": "TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser",
    "bad_choice": "vllm serve: error: argument --kv-cache-dtype: invalid choice: 'fp7'",
    "bad_flag": "vllm: error: unrecognized arguments: --bogus-flag 1",
    "bad_flag_value": "vllm serve: error: argument --max-model-len: invalid human_readable_int_or_auto value: 'abc'",
    "bad_json": 'vllm serve: error: argument --speculative-config/-sc: Value {"method":} cannot be converted',
    "bad_tool_parser": "KeyError: 'invalid tool call parser: nope",
    "crash_enginecore_sigkill": "engine core exited unexpectedly",
    "crash_worker_sigkill": "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)",
    "hf_repo_offline": "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot",
    "kv_too_small": "ValueError: To serve at least one request with the model's max seq len (32768)",
    "max_model_len_gt_model": "User-specified max_model_len (100000) is greater than the derived max_model_len",
    "missing_config_json": "Invalid repository ID or local directory specified",
    "missing_shard": "FileNotFoundError: Weight files referenced in index but missing",
    "missing_tokenizer": "IndexError: list index out of range",
    "model_dir_missing": "huggingface_hub.errors.HFValidationError: Repo id must be in the form",
    "no_weight_files": "RuntimeError: Cannot find any model weights with",
    "oom_cgroup": "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)",
    "port_in_use": "OSError: [Errno 98] Address already in use",
    "safetensors_bad_header": "MemoryError",
    "safetensors_truncated": "safetensors._safetensors_rust.SafetensorError: Error while deserializing header",
    "ssl_key_missing": "FileNotFoundError: [Errno 2] No such file or directory",
    "tp2_not_enough_numa": "AssertionError: Not enough allowed NUMA nodes to bind threads of 2 local CPUWorkers.",
    "tp_not_divisible": "Total number of attention heads (4) must be divisible by tensor parallel size (3).",
    "unknown_architecture": "Model architectures ['NopeForCausalLM'] are not supported for now.",
    "unknown_model_type": "The checkpoint you are trying to load has model type `nope` but Transformers does not",
    "weights_shape_mismatch": "RuntimeError: start (0) + length (256) exceeds dimension size (128).",
}


@pytest.mark.parametrize("name", ROOTS)
def test_the_root_is_the_error_that_a_person_would_name(name: str) -> None:
    root = root_of(utterances(lines_of(name)))
    assert root is not None
    assert ROOTS[name] in root.shown


@pytest.mark.parametrize("name", ROOTS)
def test_a_cause_that_no_rule_knows_shows_that_error(name: str) -> None:
    found = diagnosed(lines_of(name), Evidence(status=1), rules=())
    assert found.id == UNKNOWN
    assert ROOTS[name] in found.summary
    assert found.line
    assert not found.permanent


@pytest.mark.parametrize("name", [name for name, want in EXPECTED.items() if want["is"] not in NONE])
def test_the_lines_that_matter_are_few_and_hold_no_frames(name: str) -> None:
    lines = diagnosed(lines_of(name), evidence_for(EXPECTED[name])).lines
    assert 1 <= len(lines) <= MOST
    for line in lines:
        assert "Traceback" not in line
        assert 'File "' not in line
        assert "See root cause above" not in line
        assert "resource_tracker" not in line


def test_an_exception_without_a_message_shows_what_raised_it() -> None:
    root = root_of(
        utterances(
            [
                "(Worker pid=7) ERROR 11-30 21:00:00 [a.py:9] Traceback (most recent call last):",
                '(Worker pid=7) ERROR 11-30 21:00:00 [a.py:9]   File "/x/a.py", line 9, in load',
                "(Worker pid=7) ERROR 11-30 21:00:00 [a.py:9]     assert param.shape == loaded.shape",
                "(Worker pid=7) ERROR 11-30 21:00:00 [a.py:9] AssertionError",
            ]
        )
    )
    assert root is not None
    assert root.shown == "AssertionError at `assert param.shape == loaded.shape`"


def test_the_process_nearest_to_the_gpu_names_the_root_whoever_speaks_first() -> None:
    lines = [
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "(EngineCore pid=2) ERROR 11-30 21:00:00 [core.py:9] Exception: WorkerProc initialization went wrong",
        "(Worker_TP1 pid=4) ERROR 11-30 21:00:00 [worker.py:9] ValueError: the root",
    ]
    for order in (lines, lines[::-1]):
        root = root_of(utterances(order))
        assert root is not None
        assert root.shown == "ValueError: the root"


def test_a_library_that_is_not_pythons_is_heard_where_nothing_else_speaks() -> None:
    said = utterances(["INFO 11-30 21:00:00 [a.py:9] loading", "cannot map the thing: code 7"])
    root = root_of(said)
    assert root is not None
    assert root.shown == "cannot map the thing: code 7"
    assert lines_that_matter(said) == ("cannot map the thing: code 7",)


def test_many_errors_are_shortened_in_the_middle_and_said_once_each() -> None:
    lines = [f"ValueError: number {number // 2}" for number in range(60)]
    assert len(errors_in(utterances(lines))) == 30
    shown = lines_that_matter(utterances(lines))
    assert len(shown) == MOST
    assert shown[0] == "ValueError: number 0"
    assert shown[-1] == "ValueError: number 29"
    assert shown[-4] == "... 19 more ..."


def test_nothing_said_has_no_root() -> None:
    assert root_of(()) is None
    assert lines_that_matter(()) == ()
