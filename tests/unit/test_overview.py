"""`config show`: what counts, where it comes from, and no secrets."""

import json
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.config import Config, config_from, config_of
from appliance.core.imported.toml import toml_of
from appliance.core.overview import json_overview, toml_overview
from appliance.core.secret import HIDDEN, arguments_without_secrets, is_secret, without_secrets
from appliance.core.section import SECTIONS
from appliance.core.setting import arguments_of, plain


def effect(config: Config) -> list[Any]:
    """Return what a configuration does, without where it comes from."""
    known = [config.recipe, *(getattr(config, name) for name in SECTIONS)]
    env = [(variable.name, variable.value) for variable in config.env]
    knobs = [(knob.name, plain(knob.value)) for knob in config.knobs]
    return [*known, env, knobs, [arguments_of(setting) for setting in config.vllm]]


def test_each_value_is_shown_with_its_place() -> None:
    texts = [("a.toml", 'recipe = "demo"\n[vllm]\nmax-model-len = 1\n[api]\nport = 1'), ("b\n.toml", "[api]\nport = 2")]
    lines = toml_overview(config_from(texts)).splitlines()
    assert "# a.toml" in lines
    assert [line.split() for line in lines if "port =" in line] == [["port", "=", "2", "#", "b\\n.toml:2"]]
    assert "max_model_len = 1                         # a.toml:3" in lines
    assert 'recipe = "demo"                           # a.toml:1' in lines
    assert 'loading = "30min"                         # default' in lines
    assert "# source: the recipe's" in lines


def test_json_says_the_same() -> None:
    shown = json.loads(json_overview(config_of("[api]\nport = 2\n[knobs]\nk = {a = []}", "x.toml")))
    assert shown["api"]["port"] == {"value": 2, "origin": "x.toml:2"}
    assert shown["api"]["host"] == {"value": "127.0.0.1", "origin": "default"}
    assert shown["model"]["source"] == {"value": None, "origin": "default"}
    assert shown["knobs"]["k"] == {"value": {"a": []}, "origin": "x.toml:4"}
    assert shown["files"] == ["x.toml"]
    assert shown["recipe"] == {"value": "generic", "origin": "default"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[model]\nserved_model_name = ['a', 'b']\nsource = '/a b'",
        "[gpu]\ndevices = ['GPU-1234', 3]\n[cluster]\nsubnets = ['10.0.0.']\nnodes = 3",
        "[vllm]\nx = {a = [1, 'b', {c = true}]}\ny = [1, 'b']\nz = '{\"a\": 1}'\nurl = 'http://a'\nv = []\nw = {}",
        f"[vllm]\nx = {'[' * 40}{']' * 40}\n[knobs]\ny = -1.5e300\nz = '-x'\ne = ''",
        '[vllm]\nx = {a = "b\\u0000c"}\n[env]\nA = """a\nb"""\nB = true\nC = 1.5',
        "[patience]\nloading = '1500ms'\nstopping = '0s'",
        "[engine]\nextra_args = ['--seed=b', \"'\", '\"', '\\', 'c d']",
    ],
)
def test_what_is_shown_is_a_file_with_the_same_effect(text: str) -> None:
    config = config_of(text, "x.toml")
    assert effect(config_of(toml_overview(config), "y.toml")) == effect(config)


WORDS = st.text("ab\"'\\{}[]#\n\u4f60 ", max_size=6)
VALUES = st.recursive(
    WORDS | st.integers(-5, 5) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, VALUES, WORDS)
def test_any_value_is_shown_as_it_is(flag: Any, knob: Any, variable: str) -> None:
    text = f"[vllm]\nx = {toml_of(flag)}\n[knobs]\nx = {toml_of(knob)}\n[env]\nX = {toml_of(variable)}"
    config = config_of(text, "x.toml")
    assert effect(config_of(toml_overview(config), "y.toml")) == effect(config)
    assert json.loads(json_overview(config))["env"]["X"]["value"] == variable


SECRET = "s3cr3t-v4lue"


@pytest.mark.parametrize(
    "text",
    [
        f"[engine]\nextra_args = ['--api-key', '{SECRET}']",
        f"[engine]\nextra_args = ['--api-key', 'a', '{SECRET}', '--seed', '1']",
        f"[engine]\nextra_args = ['--api-key={SECRET}']",
        f"[engine]\nextra_args = ['--api-k', '{SECRET}']",
        f"[engine]\nextra_args = ['--x.y_secret={SECRET}']",
        f'[engine]\nextra_args = [\'--x\', \'{{"a": [{{"Password": "{SECRET}"}}]}}\']',
        f'[engine]\nextra_args = [\'--x={{"token": "{SECRET}"}}\']',
        f"[vllm]\nmy_token = '{SECRET}'",
        f"[vllm]\nkv_transfer_config = {{extra = {{auth_token = '{SECRET}', n = 1}}}}",
        f'[vllm]\nkv_transfer_config = \'{{"secret_key": "{SECRET}"}}\'',
        f"[vllm]\nlist = [{{password = '{SECRET}'}}]",
        f"[knobs]\nclaim_password = '{SECRET}'",
        f"[knobs]\nsecrets = ['{SECRET}']",
        f"[env]\nHTTPS_PROXY = 'http://me:{SECRET}@proxy:3128/'",
        f"[env]\nHEADER = 'Bearer {SECRET}'",
        f"[env]\nMYSQL_PWD = '{SECRET}'",
        f"[env]\nX = 'hf_{'a' * 20}{SECRET.replace('-', '')}'",
        f"[env]\nX = 'sk-{SECRET}{'1' * 20}'",
        f'[env]\nCONF = \'{{"apikey": "{SECRET}"}}\'',
    ],
)
def test_what_looks_like_a_secret_is_never_shown(text: str) -> None:
    config = config_of(text, "x.toml")
    for shown in (toml_overview(config), json_overview(config)):
        assert "s3cr3t" not in shown
        assert HIDDEN in shown
    assert tomli.loads(toml_overview(config))


def test_what_only_sounds_like_a_secret_is_shown() -> None:
    assert not is_secret("max_num_batched_tokens")
    assert without_secrets({"allow_unauthenticated": True, "url": "http://host/a@b"}) == {
        "allow_unauthenticated": True,
        "url": "http://host/a@b",
    }
    assert list(arguments_without_secrets(["--seed", "-1", "--max-model-len=5"])) == [
        "--seed",
        "-1",
        "--max-model-len=5",
    ]
    assert without_secrets('{"a":  1}') == '{"a":  1}'
    assert without_secrets("{not json") == "{not json"
