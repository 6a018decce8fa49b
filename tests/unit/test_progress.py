"""What the logs of real runs of vLLM 0.32 say, sound and failed."""

from pathlib import Path

import pytest

from appliance.core.progress import cause_of, progress_of
from appliance.engine.line import line_of, split_lines

LOGS = Path(__file__).parents[1] / "fixtures/engine-logs"

CAUSES = {
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


def lines_of(name: str) -> tuple[str, ...]:
    lines, rest = split_lines((LOGS / f"{name}.log").read_bytes())
    return tuple(line_of(line).text for line in [*lines, rest])


@pytest.mark.parametrize("name", sorted(file.stem for file in LOGS.glob("*.log")))
def test_the_cause_of_a_failure_is_the_one_that_a_person_would_name(name: str) -> None:
    cause = cause_of(lines_of(name)[-200:])
    if name in CAUSES:
        assert cause is not None
        assert cause.startswith(CAUSES[name])
    else:
        assert cause is None, "a sound run has no cause of failure"


def test_the_progress_of_a_start_is_told_in_its_order() -> None:
    told = [text for line in lines_of("progress_11shards") if (text := progress_of(line))]
    for earlier, later in zip(
        ("arguments accepted", "architecture Qwen3ForCausalLM", "loading weights: 9 %", "starting the API server"),
        ("starting the engine core", "loading weights", "loading weights: 100 %", "starting the API server"),
        strict=True,
    ):
        assert told.index(earlier) <= told.index(later)
    assert "loading weights: 45 %" in told
