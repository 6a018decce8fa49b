"""What the files set, held against the list of vLLM 0.32."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.fit import Additions, Wanted, misfits
from appliance.core.option import Option, OptionList
from appliance.core.problem import place_of
from appliance.core.setting import Json, Scalar, Setting, Variable, setting_value
from appliance.engine.optionlist import NOTHING, options_of

LIST = options_of(None, "0.32.0")
FORK = Additions(flags=("offload_towers", "--keep-warm"), variables=("MERLIN", "VLLM_E2_*", "VLLM_PLE_X"))
Value = Scalar | tuple[Scalar, ...] | Json


def setting(name: str, value: Value, origin: str = "x.toml:3") -> Setting:
    return Setting(name=name, value=value, origin=origin)


def variable(name: str) -> Variable:
    return Variable(name=name, value="1", origin="x.toml:4")


def told(wanted: Wanted, additions: Additions = FORK, options: OptionList = LIST) -> list[str]:
    return [str(problem) for problem in misfits(wanted, options, additions)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_model_len", 4096),
        ("max_model_len", "4k"),
        ("max_model_len", "auto"),
        ("max-model-len", -1),
        ("tp", 2),
        ("device_memory_utilization", 0.5),
        ("gpu_memory_utilization", 1),
        ("enforce_eager", True),
        ("enforce_eager", False),
        ("headless", True),
        ("hf_token", True),
        ("dtype", "bfloat16"),
        ("fingerprint_value", 7),
        ("moe_backend", "Flashinfer-CUTLASS"),
        ("cudagraph_capture_sizes", (1, 2)),
        ("cudagraph_capture_sizes", 1),
        ("compilation_config", setting_value({"mode": 3})),
        ("compilation_config", '{"mode": 3, "x": 4k}'),
        ("allowed_origins", '["*"]'),
        ("hf_overrides", "some.function"),
        ("pt_load_map_location", setting_value({"cuda:0": "cuda:1"})),
        ("lora_modules", ("a=b",)),
        ("lora_modules", setting_value({"name": "a", "path": "b"})),
        ("offload_towers", (1, "x")),
        ("keep_warm", False),
    ],
)
def test_what_vllm_takes_is_no_problem(name: str, value: Value) -> None:
    assert told(Wanted(settings=(setting(name, value),))) == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("max_modl_len", 1, "vLLM 0.32.0 has no such flag; did you mean max_model_len or max_log_len?"),
        ("zzz", 1, "vLLM 0.32.0 has no such flag"),
        ("kv_cache_memory", 1, "vLLM 0.32.0 has no such flag; the full name is kv_cache_memory_bytes"),
        ("device_memory", 1, "vLLM 0.32.0 has no such flag; the full name is gpu_memory_utilization"),
        (
            "max_num_queued",
            1,
            "vLLM 0.32.0 has no such flag; it may stand for max_num_queued_reqs, max_num_queued_tokens",
        ),
        ("--max-model-len", 1, "vLLM 0.32.0 has no such flag; write max_model_len"),
        ("no_enforce_eager", True, "vLLM 0.32.0 has no such flag; write enforce_eager = false"),
        ("no_enforce_eager", False, "vLLM 0.32.0 has no such flag; write enforce_eager = true"),
        ("no_headless", True, "vLLM 0.32.0 has no such flag; leave headless out"),
        ("offload_tower", 1, "vLLM 0.32.0 has no such flag; the full name is offload_towers"),
        ("headless", False, "can't be switched off; remove it"),
        ("seed", "x", 'found "x", wants a whole number'),
        ("seed", 1.0, "found 1.0, wants a whole number; write 1"),
        ("seed", "4k", 'found "4k", wants a whole number; it takes digits only'),
        ("seed", True, "found true, wants a whole number"),
        ("seed", False, "found false, wants a whole number; remove it"),
        ("seed", (1, 2), "found a list of 2, takes one value"),
        ("seed", Json(text="{}"), "found a table, wants a whole number"),
        (
            "max_model_len",
            "4.5K",
            'found "4.5K", wants a whole number such as 4096 or 4k; K takes no fraction; 4.5k counts in thousands',
        ),
        ("max_num_seqs", "many", 'found "many", wants a whole number'),
        ("gpu_memory_utilization", "90%", 'found "90%", wants a number'),
        ("enforce_eager", 1, "found 1, wants true or false; write enforce_eager = true"),
        ("enforce_eager", "off", 'found "off", wants true or false; write enforce_eager = false'),
        ("enforce_eager", "x", 'found "x", wants true or false'),
        ("headless", 0, "found 0, wants true; remove it"),
        ("tokenizer", Json(text="{}"), "found a table, wants a string"),
        ("tokenizer", Json(text="[[]]"), "found a list of 1, wants a string"),
        ("dtype", "bfloat61", 'found "bfloat61", which it does not take; did you mean bfloat16 or float16?'),
        ("dtype", "BFloat16", 'found "BFloat16", which it does not take; did you mean bfloat16?'),
        ("max_lora_rank", 7, "found 7, which it does not take; known here: 1, 8, 16, 32"),
        ("moe_backend", "qqq", 'found "qqq", which it does not take; it takes aiter, aiter_mega_moe'),
        ("dtype", True, "found true, wants one of its values; it takes auto, bfloat16"),
        ("cudagraph_capture_sizes", (), "found an empty list, wants at least one value; remove it"),
        ("compilation_config", 3, "found 3, wants a table"),
        ("compilation_config", "3", 'found "3", wants a table'),
        ("compilation_config", Json(text="[{}]"), "found a list, wants a table"),
        ("compilation_config", '{"a" 1}', 'found "{"a" 1}", which is not JSON: Expecting \':\' delimiter: line 1'),
        ("speculative_config", "mtp", 'found "mtp", wants a table or the text of JSON'),
        ("allowed_origins", ("*",), "found a list of 1, takes one value; write '[\"*\"]'"),
        (
            "lora_modules",
            Json(text="[{}]"),
            "found a list of tables, wants a list of strings; write each as the text of its JSON",
        ),
    ],
)
def test_what_vllm_does_not_take_is_told_with_the_way_out(name: str, value: Value, text: str) -> None:
    (found,) = told(Wanted(settings=(setting(name, value),)))
    assert found.startswith(f"x.toml:3: [vllm] {name}: {text}")


def test_every_wrong_value_of_a_list_is_told() -> None:
    found = told(Wanted(settings=(setting("cudagraph_capture_sizes", (1, "x", 2.0, True)),)))
    assert [text.partition("found ")[2].partition(",")[0] for text in found] == ['"x"', "2.0", "true"]


def test_two_names_of_one_flag_in_one_file_are_one_too_many() -> None:
    twice = (setting("tp", 2), setting("tensor_parallel_size", 4, "x.toml:9"))
    assert told(Wanted(settings=twice)) == [
        "x.toml:9: [vllm] tensor_parallel_size: set twice; also as tp; keep tensor_parallel_size"
    ]
    assert told(Wanted(settings=(twice[0], setting("tensor_parallel_size", 4, "recipe.toml:1")))) == []


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--max-num-seqs", "4", "--max_num_seqs=4"),
        ("--max-num-seq", "4"),
        ("-tp", "2", "-tp=2", "-qfp8", "-e"),
        ("-O3", "-O", "1"),
        ("--no-enforce-eager", "--headless"),
        ("--seed", "-1"),
        ("--watermark=-1.5",),
        ("--speculative_config.method", "mtp", "-sc.x=1", "--speculative-config.list+", "1,2"),
        ("--served-model-name", "a", "b", "--hf-token"),
        ("--tokenizer", "", "--tokenizer", "-"),
        ("--offload-towers", "--keep-warm", "1", "2", "--keep-warm.x", "1", "--no-keep-warm"),
    ],
)
def test_arguments_that_vllm_takes_are_no_problem(arguments: tuple[str, ...]) -> None:
    assert told(Wanted(extra_args=arguments, extra_args_origin="x.toml")) == []


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("--max-modl-len", "4"), ['"--max-modl-len": vLLM 0.32.0 has no such flag; did you mean --max-model-len']),
        (("--no-such.key", "4"), ['"--no-such": vLLM 0.32.0 has no such flag']),
        (("--max-num-queued", "4"), ['"--max-num-queued": may stand for --max-num-queued-reqs, --max-num-queued-toke']),
        (("--tp", "4"), ['"--tp": vLLM 0.32.0 has no such flag; write -tp']),
        (("-seed=4",), ['"-seed": vLLM 0.32.0 has no such flag; write --seed']),
        (("-O", "fast"), ['"-O": vLLM 0.32.0 has no such flag; write -O3, in one']),
        (("--no-seed",), ['"--no-seed": vLLM 0.32.0 has no such flag; --seed has no --no- form; remove it']),
        (("--seed",), ['"--seed": wants a whole number behind it']),
        (("--seed", "--x=1"), ['"--seed": wants a whole number behind it', '"--x": vLLM 0.32.0 has no such flag']),
        (("--seed", "1", "2"), ['"2": belongs to no flag']),
        (("--seed 1",), ['"--seed 1": belongs to no flag; write a flag and its value as two strings']),
        (("-1",), ['"-1": belongs to no flag']),
        (("--seed", "x", "--dtype=y"), ['"--seed": found "x", wants a whole', '"--dtype": found "y", which it does']),
        (("--served-model-name=a", "b"), ['"b": belongs to no flag']),
        (("--enforce-eager=true",), ['"--enforce-eager=true": takes no value']),
        (("--", "--seed"), ['"--": ends the flags, and vLLM takes nothing behind them; remove it']),
        (("--watermark", "-1.5"), ['"-1.5": vLLM takes a negative fraction for a flag; write it as --flag=-1.5']),
        (("--speculative-config.method",), ['"--speculative-config.method": wants a value behind it']),
        (("-sc.method", "--seed", "1"), ['"-sc.method": wants a value behind it']),
        (("--seed.x=1",), ['"--seed.x=1": seed takes no keys']),
        (("--compilation-config", "[]"), ['"--compilation-config": found "[]", wants a table']),
        (("-h", "--help=all"), ['"-h": vLLM would print its help', '"--help=all": vLLM would print its help']),
        (("x",) * 1001, ["found 1001 arguments, takes at most 1000"]),
    ],
)
def test_arguments_that_vllm_does_not_take_are_told(arguments: tuple[str, ...], texts: list[str]) -> None:
    found = told(Wanted(extra_args=arguments, extra_args_origin="x.toml:5"))
    assert len(found) == len(texts), found
    for one, text in zip(found, texts, strict=True):
        assert one.startswith(f"x.toml:5: [engine] extra_args: {text}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("VLLM_PROT", "vLLM 0.32.0 reads no such variable; did you mean VLLM_PORT?"),
        ("VLLM_QQQQQQ", "vLLM 0.32.0 reads no such variable"),
        ("VLLM_E3_X", "vLLM 0.32.0 reads no such variable"),
        ("vllm_cache_root", "vLLM reads this variable in capitals only; write VLLM_CACHE_ROOT"),
        ("VLLM_cache_ROOT", "vLLM reads this variable in capitals only; write VLLM_CACHE_ROOT"),
    ],
)
def test_a_variable_that_looks_like_vllms_and_is_not_is_told(name: str, text: str) -> None:
    (found,) = told(Wanted(variables=(variable(name),)))
    assert found.startswith(f"x.toml:4: [env] {name}: {text}")


def test_vllms_variables_and_those_of_others_are_no_problem() -> None:
    names = ("VLLM_CACHE_ROOT", "OMP_NUM_THREADS", "NCCL_DEBUG", "HF_HOME", "MINE", "vllm_mine", "verbose")
    added = ("MERLIN", "VLLM_E2_ANY", "VLLM_E2_", "VLLM_PLE_X")
    assert told(Wanted(variables=tuple(variable(name) for name in (*names, *added)))) == []


def test_all_problems_are_told_at_once_each_at_its_place() -> None:
    wanted = Wanted(
        settings=(setting("a" * 40, 1, "/etc/x:y.toml:7"), setting("seed", "x", "derived")),
        extra_args=("stray",),
        extra_args_origin="/etc/x:y.toml",
        variables=(variable("VLLM_NONE_SUCH"),),
    )
    places = [(problem.file, problem.line) for problem in misfits(wanted, LIST)]
    assert places == [("/etc/x:y.toml", 7), ("derived", None), ("/etc/x:y.toml", None), ("x.toml", 4)]


def test_a_list_that_could_not_be_read_judges_nothing() -> None:
    wanted = Wanted(settings=(setting("zzz", 1),), extra_args=("stray",), variables=(variable("VLLM_ZZZ"),))
    assert told(wanted, options=NOTHING) == []


def test_a_kind_that_a_newer_list_names_is_no_obstacle() -> None:
    newer = OptionList(vllm="9", options=(Option(name="a", kind="colour"),), variables=())
    assert told(Wanted(settings=(setting("a", "red"),), extra_args=("--a", "red")), options=newer) == []
    assert told(Wanted(settings=(setting("a", True),)), options=newer) == [
        "x.toml:3: [vllm] a: found true, wants another value"
    ]


def seconds(function: Callable[[], object]) -> float:
    """Return the shortest of three runs: the machine may be busy."""
    spans = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        spans.append(time.perf_counter() - start)
    return min(spans)


def test_a_check_is_quick_also_where_everything_is_wrong() -> None:
    settings = tuple(setting(option.name, "x") for option in LIST.options[:50])
    assert seconds(lambda: misfits(Wanted(settings=settings), LIST)) < 0.02
    unknown = tuple(setting(f"maximal_modl_{n}", 1) for n in range(2000))
    arguments = tuple(f"--maximal-modl-{n}" for n in range(1000))
    wanted = Wanted(settings=unknown, extra_args=arguments, variables=tuple(variable(f"VLLM_{n}") for n in range(1000)))
    assert len(misfits(wanted, LIST)) == 4000
    assert seconds(lambda: misfits(wanted, LIST)) < 2


@pytest.mark.parametrize("origin", ["", ":", ":1", "a:", "a:-1", "a:1:", "a:²", "a:" + "9" * 5000])
def test_an_origin_without_a_line_is_a_file(origin: str) -> None:
    assert place_of(origin) == (origin, None)


NAMES = st.sampled_from([option.name for option in LIST.options]) | st.text(max_size=20)
SCALARS = st.booleans() | st.integers() | st.floats() | st.text()
VALUES = SCALARS | st.lists(SCALARS).map(tuple) | st.sampled_from([Json(text="{}"), Json(text="[[]]"), Json(text="[")])
PIECES = st.sampled_from(["--", "-", "=", ".", "+", "-O", "-tp", "seed", "no-", "speculative-config", "1", " ", "{"])
ARGUMENTS = st.lists(st.lists(PIECES | st.text(max_size=3), max_size=5).map("".join), max_size=8)


@given(name=NAMES, value=VALUES, origin=st.text())
def test_any_setting_gets_a_verdict(name: str, value: Value, origin: str) -> None:
    for problem in misfits(Wanted(settings=(setting(name, value, origin),)), LIST, FORK):
        assert problem.what
        assert len(str(problem)) < 1000 + len(name) + len(origin)


@given(arguments=ARGUMENTS)
def test_any_arguments_get_a_verdict(arguments: list[str]) -> None:
    found = misfits(Wanted(extra_args=tuple(arguments)), LIST, FORK)
    assert len(found) <= 2 * len(arguments)
    assert all(problem.what for problem in found)


@given(name=st.text() | st.from_regex(r"VLLM_[A-Z_]*\Z"))
def test_any_variable_gets_a_verdict(name: str) -> None:
    assert len(misfits(Wanted(variables=(variable(name),)), LIST, FORK)) <= 1
