"""The list of options and the verdicts from it, held against the real vLLM's own parser."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.fit import Wanted, canonical, misfits
from appliance.core.option import Option, OptionList
from appliance.core.setting import Json, Scalar, Setting, arguments_of, setting_value
from appliance.engine.optionlist import SHIPPED, listed, options_of, text_of

PARSER = """
import argparse, json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

class Parser(FlexibleArgumentParser):
    def error(self, message):
        raise argparse.ArgumentError(None, message)

root = Parser(prog="vllm")
make_arg_parser(root.add_subparsers(dest="subparser").add_parser("serve"))
verdicts = []
for arguments in json.load(sys.stdin):
    try:
        root.parse_args(["serve", "MODEL", *arguments])
    except (argparse.ArgumentError, SystemExit, LookupError, RecursionError, TypeError, ValueError) as e:
        verdicts.append(f"{type(e).__name__}: {e}"[:300])
    else:
        verdicts.append(None)
print("\\n" + json.dumps(verdicts))
"""
"""Parses command lines as `vllm serve` does; prints what it has against each, null where that is nothing."""

Verdicts = Callable[[list[tuple[str, ...]]], list[str | None]]
Value = Scalar | tuple[Scalar, ...] | Json

TABLE = setting_value({"a": 1})

ACCEPTED: list[tuple[str, Value]] = [
    ("max_model_len", 4096),
    ("max_model_len", "4k"),
    ("max_model_len", "4K"),
    ("max_model_len", "1.5k"),
    ("max_model_len", "1M"),
    ("max_model_len", "auto"),
    ("max_model_len", "AUTO"),
    ("max_model_len", -1),
    ("max_model_len", " 1_000 "),
    ("max-model-len", 7),
    ("kv_cache_memory_bytes", "1.5g"),
    ("kv_cache_memory_bytes", "None"),
    ("seed", "16"),
    ("seed", -3),
    ("block_size", 16),
    ("max_lora_rank", 8),
    ("max_lora_rank", "08"),
    ("gpu_memory_utilization", 0.9),
    ("gpu_memory_utilization", 1),
    ("gpu_memory_utilization", "1e-1"),
    ("device_memory_utilization", 0.5),
    ("tp", 2),
    ("dp", 2),
    ("q", "fp8"),
    ("ep", True),
    ("enforce_eager", True),
    ("enforce_eager", False),
    ("enable_prefix_caching", False),
    ("headless", True),
    ("dtype", "bfloat16"),
    ("dcp_comm_backend", "None"),
    ("dcp_comm_backend", ""),
    ("moe_backend", "Flashinfer-CUTLASS"),
    ("attention_backend", "FLASH_ATTN"),
    ("fingerprint_value", 5),
    ("chat_template", "{{ a }}"),
    ("tokenizer", ""),
    ("optimization_level", 3),
    ("optimization_level", "fast"),
    ("cudagraph_capture_sizes", (1, 2, 4)),
    ("cudagraph_capture_sizes", 8),
    ("collect_detailed_traces", ("model", "worker")),
    ("device_ids", "0,1"),
    ("device_ids", 0),
    ("compilation_config", setting_value({"cudagraph_mode": "PIECEWISE"})),
    ("compilation_config", '{"max_cudagraph_capture_size": 4k}'),
    ("kv_transfer_config", "None"),
    ("speculative_config", setting_value({"method": "mtp", "num_speculative_tokens": 2})),
    ("speculative_config", '{"method": "ngram"}'),
    ("limit_mm_per_prompt", TABLE),
    ("allowed_origins", '["*"]'),
    ("default_chat_template_kwargs", "null"),
    ("hf_overrides", TABLE),
    ("hf_overrides", "some.function"),
    ("pt_load_map_location", "cpu"),
    ("lora_modules", ("a=b", "c=d")),
    ("lora_modules", setting_value({"name": "a", "path": "b"})),
    ("log_config_file", "x.json"),
    ("watermark", -0.5),
    ("watermark", -1e-9),
    ("hf_token", True),
]

REFUSED: list[tuple[str, Value]] = [
    ("max_model_len", "4.5K"),
    ("max_model_len", 4096.0),
    ("max_model_len", "4kb"),
    ("max_model_len", True),
    ("max_model_len", "None"),
    ("max_model_len", (4096, 8192)),
    ("max_num_batched_tokens", "auto"),
    ("seed", "4k"),
    ("seed", "x"),
    ("seed", 1.5),
    ("seed", "1" * 5000),
    ("seed", ""),
    ("max_lora_rank", 7),
    ("gpu_memory_utilization", "90%"),
    ("gpu_memory_utilization", False),
    ("enforce_eager", 1),
    ("enforce_eager", "true"),
    ("enforce_eager", TABLE),
    ("headless", False),
    ("disable_log_stats", False),
    ("aggregate_engine_logging", "yes"),
    ("dtype", "bfloat61"),
    ("dtype", "BFLOAT16"),
    ("dtype", 16),
    ("dcp_comm_backend", "none"),
    ("fingerprint_value", True),
    ("tokenizer", False),
    ("tokenizer", ("a", "b")),
    ("cudagraph_capture_sizes", ()),
    ("cudagraph_capture_sizes", (1, "x")),
    ("cudagraph_capture_sizes", (1, 2.0)),
    ("collect_detailed_traces", ("model", "everything")),
    ("compilation_config", 3),
    ("compilation_config", "fast"),
    ("compilation_config", "[]"),
    ("compilation_config", "null"),
    ("compilation_config", '{"max_cudagraph_capture_size": 4.5K}'),
    ("speculative_config", "mtp"),
    ("speculative_config", '{"num_speculative_tokens": 4k}'),
    ("allowed_origins", ("*",)),
    ("allowed_origins", "*"),
    ("hf_overrides", '{"a": }'),
    ("lora_modules", setting_value([{"name": "a", "path": "b"}])),
    ("lora_modules", '{"name": }'),
    ("kv_transfer_config", setting_value([TABLE.text if isinstance(TABLE, Json) else "", {}])),
    ("no_such_flag", 1),
    ("max_num", 1),
    ("no_headless", True),
    ("no_enforce_eager", False),
]

STRICTER: list[tuple[str, Value]] = [
    ("kv_cache_memory", 1 << 28),
    ("no_enforce_eager", True),
    ("tokenizer", TABLE),
    ("tokenizer", ("a",)),
    ("speculative_config", 5),
    ("speculative_config", "5"),
]
"""What the parser takes and a file may not hold: abbreviations, and values of another type than the one it shows."""

ACCEPTED_ARGUMENTS: list[tuple[str, ...]] = [
    ("--max-num-seqs", "4"),
    ("--max_num_seqs=4",),
    ("--max-num-seq", "4"),
    ("--kv-cache-memory", "1g"),
    ("--no-enforce-eager",),
    ("--no_enable_prefix_caching", "--enforce-eager"),
    ("-tp", "2", "-tp=4"),
    ("-q", "fp8", "-qfp8", "-n2", "-e"),
    ("-O3",),
    ("-O=2",),
    ("-Ofast",),
    ("-O", "1", "--seed", "-1"),
    ("--speculative-config.method", "mtp", "--speculative_config.num_speculative_tokens=2"),
    ("--speculative-conf.method", "mtp"),
    ("-sc.method", "mtp"),
    ("--compilation-config.cudagraph_capture_sizes+", "1,2", "--compilation-config.cudagraph_capture_sizes+=4"),
    ("--compilation-config.max_cudagraph_capture_size", "4k"),
    ("--watermark=-1.5", "--watermark", "-1"),
    ("--served-model-name", "a", "b", "--seed", "1"),
    ("--lora-modules", "a=b", '{"name": "c", "path": "d"}'),
    ("--hf-overrides", '{"a": 1}', "--chat-template={{ a b }}"),
    ("--hf-token", "--hf-token", "x"),
    ("--disable-log-stats",),
    ("--tokenizer", ""),
    ("--tokenizer", "-"),
    ("--tokenizer=--x",),
]

REFUSED_ARGUMENTS: list[tuple[str, ...]] = [
    ("--no-such-flag", "4"),
    ("--no-such-flag.key", "4"),
    ("--max-num", "4"),
    ("--tp", "2"),
    ("-tp2",),
    ("-d", "2"),
    ("-x",),
    ("-O", "fast"),
    ("--max-num-seqs",),
    ("--max-num-seqs", "--enforce-eager"),
    ("--max-num-seqs", "4", "5"),
    ("--max-num-seqs 4",),
    ("--max-num-seqs", "four"),
    ("--served-model-name", "--seed", "1"),
    ("--served-model-name=a", "b"),
    ("--enforce-eager=true",),
    ("--enforce-eager", "true"),
    ("--no-headless",),
    ("--no-seed", "1"),
    ("stray",),
    ("-1",),
    ("--", "x"),
    ("--seed", "1", "--"),
    ("--seed", "--", "1"),
    ("--watermark", "-1.5"),
    ("--watermark", "-1e-5"),
    ("--speculative-config.method",),
    ("--speculative-config", '{"method"'),
    ("--seed.x", "1"),
    ("--enforce-eager.x", "1"),
    ("--dtype=bfloat61",),
    ("--help",),
    ("--help=all",),
    ("-h",),
    ("--=x",),
    ("---seed", "1"),
]

NOT_TRIED = {
    "config": "it reads a file",
    "model": "it names a second model",
}

ABBREVIATING = {"long_prefill_token_threshold"}
"""With false for a value it becomes the abbreviation of a longer flag's --no- form."""


@pytest.fixture(scope="module")
def engine(engines: Path) -> Path:
    return engines / "current"


@pytest.fixture(scope="module")
def own(engine: Path) -> OptionList:
    return listed(engine)


@pytest.fixture(scope="module")
def verdicts(engine: Path) -> Verdicts:
    """Return a function that has the real parser judge command lines, all in one process."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(engine), "VLLM_NO_USAGE_STATS": "1"}

    def ask(lines: list[tuple[str, ...]]) -> list[str | None]:
        command = [str(engine / "bin/python"), "-I", "-c", PARSER]
        asked = subprocess.run(
            command, env=environment, input=json.dumps(lines), capture_output=True, text=True, check=True, timeout=300
        )
        told: list[str | None] = json.loads(asked.stdout.splitlines()[-1])
        assert len(told) == len(lines)
        return told

    return ask


def setting(name: str, value: Value) -> Setting:
    return Setting(name=name, value=value, origin="x.toml:1")


def line_of(wanted: Setting, options: OptionList) -> tuple[str, ...]:
    """Return the arguments that reach vLLM: aliases are written out."""
    return arguments_of(replace(wanted, name=canonical(wanted.name, options) or wanted.name))


def refused(wanted: Setting | tuple[str, ...], options: OptionList) -> bool:
    if isinstance(wanted, Setting):
        return bool(misfits(Wanted(settings=(wanted,)), options))
    return bool(misfits(Wanted(extra_args=wanted), options))


def candidates(option: Option) -> list[Value]:
    """Return values of every kind; which of them an option takes is the question."""
    several = (("a=b",), (1, 2)) if option.several else ()
    return [*option.choices, *several, Json(text="{}"), True, 7, 0.5, "4k", "a=b"]


def wrong(option: Option) -> list[Value]:
    """Return values that an option refuses for their type, and that vLLM must refuse as well."""
    if option.name in ABBREVIATING:
        return ["many"]
    match option.kind:
        case "flag" | "switch":
            return [1, "true", ("a", "b")]
        case "int":
            return [False, 1.5, "many", "4k"]
        case "human_int":
            return [False, 1.5, "many", "4.5K"]
        case "float":
            return [False, "many", "4k"]
        case "json":
            return [False, '{"a": }', *([] if option.text else ["many"])]
    return [False, *(["no such choice"] if option.choices else []), *([] if option.several else [("a", "b")])]


def test_the_shipped_list_is_the_one_that_the_engine_tells(own: OptionList) -> None:
    file = SHIPPED / f"vllm-{own.vllm}.json"
    assert file.read_text() == text_of(own), f"make it anew: options = listed(engine); {file} holds text_of(options)"
    assert replace(options_of(None, own.vllm), origin="") == own


def test_the_verdict_is_that_of_the_real_parser(own: OptionList, verdicts: Verdicts) -> None:
    cases: list[tuple[Setting | tuple[str, ...], bool, bool]] = [
        *((setting(*pair), False, False) for pair in ACCEPTED),
        *((setting(*pair), True, True) for pair in REFUSED),
        *((setting(*pair), True, False) for pair in STRICTER),
        *((arguments, False, False) for arguments in ACCEPTED_ARGUMENTS),
        *((arguments, True, True) for arguments in REFUSED_ARGUMENTS),
    ]
    told = verdicts([line_of(case, own) if isinstance(case, Setting) else case for case, _, _ in cases])
    found = [(case, refused(case, own), real is not None) for (case, _, _), real in zip(cases, told, strict=True)]
    assert [(one, wanted) for one, wanted in zip(found, cases, strict=True) if one != wanted] == []


def test_every_option_takes_what_is_accepted_and_not_what_is_refused(own: OptionList, verdicts: Verdicts) -> None:
    tried = [option for option in own.options if option.name not in NOT_TRIED]
    good = [
        next(one for value in candidates(option) if not refused(one := setting(option.name, value), own))
        for option in tried
    ]
    bad = [setting(option.name, value) for option in tried for value in wrong(option)]
    assert [one for one in bad if not refused(one, own)] == []
    real = verdicts([line_of(one, own) for one in (*good, *bad)])
    assert [(one, told) for one, told in zip(good, real[: len(good)], strict=True) if told is not None] == []
    assert [one for one, told in zip(bad, real[len(good) :], strict=True) if told is None] == []
    assert len(good) > 300
