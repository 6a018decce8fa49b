"""vllm-serve.toml: what is read, and how each mistake is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.config import config_of
from appliance.core.opentable import LAST_RESORT, RESERVED_FLAGS
from appliance.core.problem import RefusedError
from appliance.core.setting import Json, arguments_of

MODEL_WANTED = "an absolute path, or NAME or ORG/NAME below [paths] models"


def problems_of(text: str) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        config_of(text, "x.toml")
    return [str(problem) for problem in refused.value.problems]


def read_or_refused(text: str) -> bool:
    try:
        config_of(text, "x.toml")
    except RefusedError as refused:
        return all(problem.what for problem in refused.problems)
    return True


def test_a_recipe_is_all_that_a_configuration_needs() -> None:
    config = config_of('recipe = "demo"', "x.toml")
    assert (config.recipe, config.api.host, config.api.port) == ("demo", "127.0.0.1", 8000)
    assert (config.recipe_origin, config.files, config.origin("[api] port")) == ("x.toml:1", ("x.toml",), "x.toml")


@pytest.mark.parametrize("text", ["", "\n", "# only words\n", "[api]\n[vllm]\n", "\r\n\r\n"])
def test_an_empty_file_means_the_defaults(text: str) -> None:
    config = config_of(text, "x.toml")
    assert (config.recipe, config.recipe_origin, config.origins) == ("generic", "x.toml", ())


def test_every_problem_is_told_at_once_with_its_line() -> None:
    text = 'recpie = "demo"\n\n[api]\nport = true\nhots = "x"\n[model]\nsource = "./relative"\n'
    assert problems_of(text) == [
        "x.toml:1: recpie: unknown key; did you mean recipe?",
        "x.toml:4: [api] port: found true, wants a port number",
        "x.toml:5: [api] hots: unknown key; did you mean host?",
        f'x.toml:7: [model] source: found "./relative", wants {MODEL_WANTED}',
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = ", "x.toml:1: not valid TOML: Invalid value"),
        ("[api\n", "x.toml:1: not valid TOML: Expected ']' at the end of a table declaration"),
        ("x = [\n1,\n", "x.toml:2: not valid TOML: "),
        ("api = 3", "x.toml:1: api: wants a table; write [api] on a line of its own"),
        ("[api]\nport = 70000", "x.toml:2: [api] port: found 70000, wants a port from 1 to 65535"),
        ("[api]\nport = 1.5", "x.toml:2: [api] port: found 1.5, wants a port number"),
        ('[api]\nhost = "gpu-box"', 'x.toml:2: [api] host: found "gpu-box", wants an IP address of this machine'),
        ("[engine]\nextra_args = [1]", "x.toml:2: [engine] extra_args: found 1, wants a string"),
        ('[engine]\nuse = ""', "x.toml:2: [engine] use: found an empty string"),
        ("[vllm]\nseed = nan", "x.toml:2: [vllm] seed: found nan, wants a finite number"),
        ("[vllm]\nseed = 1979-05-27", "x.toml:2: [vllm] seed: found 1979-05-27, wants a string, number"),
        ("[vllm]\nmax-model-len = 1\nmax_model_len = 2", "x.toml:3: [vllm] max_model_len: set twice; also as"),
        ("[vllm]\nport = 9000", "x.toml:2: [vllm] port: vllm-serve sets --port itself; set [api] port"),
        ("[env]\nHF_TOKEN = 'x'", "x.toml:2: [env] HF_TOKEN: looks like a secret, and this file can be read"),
        ("[env]\nVLLM_API_KEY = 'x'", "x.toml:2: [env] VLLM_API_KEY: looks like a secret"),
        ("[env]\nNOTIFY_SOCKET = 'x'", "x.toml:2: [env] NOTIFY_SOCKET: vllm-serve sets this variable itself"),
        ("[env]\nA = []", "x.toml:2: [env] A: found a list of 0, wants a string or a number"),
        ('[patience]\nstopping = "5 parsecs"', "x.toml:2: [patience] stopping: found"),
        ("[patience]\nstopping = 5", "x.toml:2: [patience] stopping: found 5, wants a time span"),
        ("a" * 2_000_000, "x.toml: 2000000 characters, at most 262144"),
        ("x = " + "[" * 5000, "x.toml: nested too deeply"),
        ("x = " + "1" * 5000, "x.toml: a number is too large to be read"),
        (
            "[vllm]\nseed = 0x" + "f" * 40,
            "x.toml:2: [vllm] seed: found a number of more than 63 bits, wants at most 63",
        ),
        ("[api]\nport = 0x" + "f" * 4000, "x.toml:2: [api] port: found a number of more than 63 bits"),
        ("[env]\nA = 0x" + "f" * 4000, "x.toml:2: [env] A: found a number of more than 63 bits, wants at most 63"),
        ("[vllm]\napi_server_count = 0", "x.toml:2: [vllm] api_server_count: found 0, which serves no API"),
        ('"a=b"' + ".a" * 99 + " = 1", "x.toml:1: a key of more than 32 dots"),
        ("[api]\nport" + ".a" * 990 + " = 1", "x.toml:2: a key of more than 32 dots"),
        ("x = '" + "a" * 20000, "x.toml:1: a line of 20005 characters, at most 16384"),
        (
            '[vllm]\nlora_modules = ["a=b", "--port", "9000"]',
            'x.toml:2: [vllm] lora_modules: found "--port", which vLLM',
        ),
        ('[vllm]\ntokenizer = "--port=9000"', 'x.toml:2: [vllm] tokenizer: found "--port=9000", which vLLM would take'),
        ('[engine]\nuse = "../../tmp/x"', 'x.toml:2: [engine] use: found "../../tmp/x", wants a plain name'),
        ("[env]\nPYTHONPATH = 'x'", "x.toml:2: [env] PYTHONPATH: vllm-serve sets this variable itself"),
        ("[env]\nVLLM_RUST_FRONTEND_PATH = 'x'", "x.toml:2: [env] VLLM_RUST_FRONTEND_PATH: vllm-serve sets"),
        ('x = """\n\\"""\n[y]\n"""\n[api]\nprot = 1', "x.toml:6: [api] prot: unknown key"),
        ('[vllm]\n"a b".c = 1', "x.toml:2: [vllm] a b: not the name of a flag"),
    ],
)
def test_a_mistake_is_told_with_what_was_found_and_what_is_wanted(text: str, told: str) -> None:
    problems = problems_of(text)
    assert any(problem.startswith(told) for problem in problems), problems


@pytest.mark.parametrize("flag", sorted(RESERVED_FLAGS))
def test_nothing_can_point_the_self_test_at_another_server(flag: str) -> None:
    dashed = flag.replace("_", "-")
    start = "recipe = 'demo'\n"
    assert problems_of(f"{start}[vllm]\n{flag} = 'x'")
    assert problems_of(f"{start}[vllm]\n{flag[:-1]} = 'x'")
    if flag not in LAST_RESORT:
        assert problems_of(f"{start}[engine]\nextra_args = ['--{dashed}', 'x']")
        assert problems_of(f"{start}[engine]\nextra_args = ['--{dashed}=x']")
        assert problems_of(f"{start}[engine]\nextra_args = ['--{dashed[:-1]}', 'x']"), "argparse takes abbreviations"


def test_an_api_key_is_taken_where_the_earlier_scripts_took_it() -> None:
    assert config_of("[engine]\nextra_args = ['--api-key', 'x']", "x.toml").engine.extra_args == ("--api-key", "x")


def test_a_refused_argument_is_told_without_its_value() -> None:
    (problem,) = problems_of("[engine]\nextra_args = ['--hf-token=abc123']")
    assert "--hf-token: vllm-serve sets" in problem
    assert "abc123" not in problem


def test_dots_outside_of_keys_do_no_harm() -> None:
    dots = "." * 99
    config = config_of(
        f'# {dots}\nrecipe = "demo" # {dots} = {dots}\n[vllm]\nseed = 1 # {dots}\ndtype = "{dots}="', "x"
    )
    assert [setting.name for setting in config.vllm] == ["seed", "dtype"]


def test_flags_of_every_shape_become_arguments() -> None:
    config = config_of(
        'recipe = "demo"\n[vllm]\nmax-model-len = 4096\nenforce_eager = true\nenable_prefix_caching = false\n'
        'lora_modules = ["a=b", "c=d"]\nspeculative_config = {method = "mtp", num_speculative_tokens = 2}\n',
        "x.toml",
    )
    assert [arguments_of(setting) for setting in config.vllm] == [
        ("--max-model-len", "4096"),
        ("--enforce-eager",),
        ("--no-enable-prefix-caching",),
        ("--lora-modules", "a=b", "c=d"),
        ("--speculative-config", '{"method":"mtp","num_speculative_tokens":2}'),
    ]
    assert isinstance(config.vllm[4].value, Json)
    assert config.vllm[1].origin == "x.toml:4"


def test_time_spans_are_those_of_systemd() -> None:
    assert config_of('recipe = "demo"\n[patience]\nloading = "1h 30min"', "x.toml").patience.loading == 5400
    assert config_of('recipe = "demo"\n[patience]\nloading = "1500ms"', "x.toml").patience.loading == 1.5
    assert config_of('recipe = "demo"\n[patience]\nloading = "2 hours 1 day"', "x.toml").patience.loading == 93600
    assert config_of('recipe = "demo"\n[patience]\nloading = "90"', "x.toml").patience.loading == 90


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert read_or_refused(text)


KEYS = st.sampled_from(
    [
        *(
            "recipe",
            "api",
            "vllm",
            "env",
            "knobs",
            "engine",
            "model",
            "gpu",
            "cluster",
            "patience",
            "port",
            "host",
            "use",
        ),
        *(
            "extra_args",
            "x.y",
            "api.port",
            "gpu.devices",
            "devices",
            "count",
            "served_model_name",
            "subnets",
            "loading",
        ),
    ]
)
VALUES = st.sampled_from(
    [
        *(
            "1",
            "true",
            "nan",
            "inf",
            "1e999",
            "-0",
            '"a"',
            "[]",
            "{}",
            "[[1]]",
            "1979-05-27",
            '"\\u0000"',
            "['--api-key']",
        ),
        *("[0, 1]", "['GPU-1234']", "{x = 1}", "[{x = 1}]", "0x" + "f" * 4000, "['a', '']", "'5min'", "['10.1.']"),
    ]
)


@given(st.lists(st.tuples(st.booleans(), KEYS, VALUES), max_size=8))
def test_any_arrangement_of_keys_is_read_or_refused(parts: list[tuple[bool, str, str]]) -> None:
    text = "\n".join(f"[{key}]" if header else f"{key} = {value}" for header, key, value in parts)
    assert read_or_refused(text)
