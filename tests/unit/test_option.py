"""The list of a vLLM's options: asking a parser, reading files, and what is wrong with the text of a value."""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.option import Option, OptionList, canonical, fault_of
from appliance.engine.lister import entry_of, variables_of
from appliance.engine.optionlist import NOTHING, OPTIONS, SHIPPED, SHIPPED_NAME, listed, options_of, text_of, write_list

SHIPPED_LIST = options_of(None, "0.32.0")
BY_NAME = {option.name: option for option in SHIPPED_LIST.options}


def human(text: str) -> int:
    return int(text[:-1]) * 1000 if text.endswith("k") else -1 if text == "auto" else int(text)


def optional_int(text: str) -> int | None:
    return None if text in ("", "None") else int(text)


def table(text: str) -> dict[str, object]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


def text_or_table(text: str) -> str | dict[str, object]:
    return table(text) if text.startswith("{") else text


class Pair(argparse.Action):
    """An action that reads its values itself, as vLLM's for LoRA does."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        del parser, option_string
        if any("=" not in value for value in values):
            raise argparse.ArgumentError(self, "not a pair")
        setattr(namespace, self.dest, dict(value.split("=") for value in values))


class DeprecatedAction(argparse.Action):
    """An action that is deprecated by its name."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        del parser, option_string
        setattr(namespace, self.dest, values)


@pytest.mark.parametrize(
    ("flags", "arguments", "entry"),
    [
        (["--a-b"], {}, {"name": "a_b", "kind": "str"}),
        (["--a", "-x"], {"type": int}, {"name": "a", "kind": "int", "short": ["x"]}),
        (["--a", "--old"], {"type": float}, {"name": "a", "kind": "float", "aliases": ["old"]}),
        (["--old", "--a"], {"dest": "a"}, {"name": "a", "kind": "str", "aliases": ["old"]}),
        (["--a"], {"type": optional_int}, {"name": "a", "kind": "int", "optional": True}),
        (["--a"], {"type": human}, {"name": "a", "kind": "human_int", "auto": True}),
        (["--a"], {"type": json.loads}, {"name": "a", "kind": "json"}),
        (["--a"], {"type": table}, {"name": "a", "kind": "json", "table": True}),
        (["--a"], {"type": text_or_table}, {"name": "a", "kind": "json", "text": True}),
        (["--a"], {"type": lambda text: text.split(",")}, {"name": "a", "kind": "str"}),
        (["--a"], {"action": "store_true"}, {"name": "a", "kind": "flag"}),
        (["--a", "-x"], {"action": argparse.BooleanOptionalAction}, {"name": "a", "kind": "switch", "short": ["x"]}),
        (["--no-a"], {"action": "store_false"}, {"name": "no_a", "kind": "flag"}),
        (["--a"], {"choices": ["y", "x"]}, {"name": "a", "kind": "str", "choices": ["x", "y"]}),
        (["--a"], {"choices": [16, 8], "type": int}, {"name": "a", "kind": "int", "choices": ["8", "16"]}),
        (["--a"], {"nargs": "+", "type": int}, {"name": "a", "kind": "int", "several": True}),
        (["--a"], {"nargs": "?"}, {"name": "a", "kind": "str", "bare": True}),
        (["--a"], {"action": "append"}, {"name": "a", "kind": "str"}),
        (["--a"], {"help": "--a is deprecated"}, {"name": "a", "kind": "str", "deprecated": True}),
        (["--a"], {"action": DeprecatedAction}, {"name": "a", "kind": "str", "deprecated": True}),
        (["--a"], {"action": Pair, "nargs": "+"}, {"name": "a", "kind": "json", "several": True, "text": True}),
        (["-x"], {"dest": "a"}, None),
    ],
)
def test_a_parser_tells_what_an_option_takes(
    flags: list[str], arguments: dict[str, Any], entry: dict[str, Any] | None
) -> None:
    parser = argparse.ArgumentParser()
    assert entry_of(parser, parser.add_argument(*flags, **arguments)) == entry


def test_a_word_that_the_parser_folds_is_known_as_such() -> None:
    parser = argparse.ArgumentParser()
    action = parser.add_argument("--a", type=lambda text: text.lower().replace("-", "_"), choices=["a_b"])
    assert entry_of(parser, action) == {"name": "a", "kind": "str", "choices": ["a_b"], "folded": True}


def test_help_and_positional_arguments_are_no_options() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    assert [entry_of(parser, action) for action in parser._actions] == [None, None]


def test_variables_are_those_that_are_named_and_those_that_sources_look_up(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'os.environ.get("VLLM_A")\nos.environ["VLLM_B"]\nos.getenv(\n"VLLM_C", 1)\nf("VLLM_D")\n'
    )
    (tmp_path / "b.py").write_bytes(b"\xff os.environ['VLLM_E']")
    assert sorted(variables_of(["Z"], tmp_path)) == ["VLLM_A", "VLLM_B", "VLLM_C", "VLLM_E", "Z"]


def test_the_shipped_list_describes_what_the_parser_of_0_32_takes() -> None:
    assert SHIPPED_LIST.is_of("0.32.0+cpu")
    assert SHIPPED_LIST.is_of("0.32.0")
    assert not SHIPPED_LIST.is_of("0.32.1")
    assert len(BY_NAME) == len(SHIPPED_LIST.options) > 300
    assert BY_NAME["max_model_len"] == Option(name="max_model_len", kind="human_int", auto=True)
    assert BY_NAME["tensor_parallel_size"] == Option(name="tensor_parallel_size", kind="int", short=("tp",))
    assert BY_NAME["headless"].kind == "flag"
    assert BY_NAME["enforce_eager"].kind == "switch"
    assert BY_NAME["gpu_memory_utilization"].aliases == ("device_memory_utilization",)
    assert BY_NAME["compilation_config"].table
    assert BY_NAME["hf_overrides"].text
    assert {name for name, option in BY_NAME.items() if option.deprecated} == {
        "disable_cascade_attn",
        "log_config_file",
    }
    assert {"VLLM_CACHE_ROOT", "VLLM_CUSTOM_ALLREDUCE_ALGO", "CUDA_VISIBLE_DEVICES"} <= set(SHIPPED_LIST.variables)


@pytest.mark.parametrize(
    "file", sorted(f for f in SHIPPED.iterdir() if SHIPPED_NAME.fullmatch(f.name)), ids=lambda file: str(file.name)
)
def test_a_shipped_list_is_named_after_its_version_sorted_and_names_no_place(file: Path) -> None:
    options = options_of(None, file.stem.removeprefix("vllm-"))
    assert (options.origin, file.name) == (str(file), f"vllm-{options.vllm}.json")
    assert text_of(options) == file.read_text()
    assert "/" not in file.read_text()
    names = [option.name for option in options.options]
    assert (names, list(options.variables)) == (sorted(names), sorted(options.variables))


def test_an_engine_with_a_list_of_its_own_is_held_against_that(tmp_path: Path) -> None:
    own = OptionList(vllm="9.1", options=(Option(name="new", kind="str"),), variables=())
    (tmp_path / OPTIONS).write_text(text_of(own))
    found = options_of(tmp_path, "9.1")
    assert (found.options, found.origin) == (own.options, str(tmp_path / OPTIONS))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        "\udcff",
        '{"vllm":"0.32.0","options":[],"variables":[]}',
        '{"vllm":"0.32.0","options":7,"variables":[]}',
        '{"vllm":"0.32.0","options":[{"name":"a"}],"variables":[]}',
        '{"vllm":"0.32.0","options":[{"name":"a","kind":"int","more":1}],"variables":[]}',
    ],
    ids=range(9),
)
def test_a_list_that_can_not_be_read_gives_way_to_the_shipped_one(text: str, tmp_path: Path) -> None:
    (tmp_path / OPTIONS).write_text(text, errors="surrogateescape")
    assert options_of(tmp_path, "0.32.0+cpu") == SHIPPED_LIST


def test_a_version_without_a_list_gets_the_newest() -> None:
    assert options_of(None, "0.1.0") == options_of(None, None)
    assert not options_of(None, "0.1.0").is_of("0.1.0")
    assert not NOTHING.is_of("")


def engine(folder: Path, program: str) -> Path:
    """Make the folder of an engine whose Python is a shell program."""
    (folder / "bin").mkdir()
    (folder / "bin/python").write_text(f"#!/bin/sh\n{program}\n")
    (folder / "bin/python").chmod(0o755)
    return folder


def test_the_list_is_written_as_the_engine_tells_it(tmp_path: Path) -> None:
    told = '{"vllm":"1","options":[{"name":"a","kind":"int"}],"variables":["V"]}'
    write_list(engine(tmp_path, f"echo noise; echo '{told}'"))
    assert (tmp_path / OPTIONS).read_text().replace("\n", "") == told.replace(
        '"name":"a","kind":"int"', '"kind":"int","name":"a"'
    )


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("echo 'no module' >&2; exit 1", "does not tell its options: no module"),
        ("exit 1", "does not tell its options: silent"),
        ("exit 0", "Expecting value"),
        ("echo '[]'", "not a OptionList"),
    ],
)
def test_an_engine_that_tells_no_list_says_why(program: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        listed(engine(tmp_path, program))
    shutil.rmtree(tmp_path / "bin")
    with pytest.raises(OSError, match="python"):
        listed(tmp_path)


@pytest.mark.parametrize("name", ["tp", "tensor_parallel_size", "tensor-parallel-size"])
def test_an_alias_leads_to_the_name(name: str) -> None:
    assert canonical(name, SHIPPED_LIST) == "tensor_parallel_size"


@pytest.mark.parametrize("name", ["", "kv_cache_memory", "--tp", "no_enforce_eager", "Seed"])
def test_what_is_no_name_leads_nowhere(name: str) -> None:
    assert canonical(name, SHIPPED_LIST) is None


@given(
    option=st.sampled_from(SHIPPED_LIST.options), text=st.text() | st.from_regex(r"[-\[{\"]?\d*\.?\d*[kKmM]?[\]}\"]?")
)
def test_any_text_gets_a_verdict(option: Option, text: str) -> None:
    fault = fault_of(option, text)
    assert fault is None or (fault.what and "\n" not in fault.what)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 10_000, "9" * 5000 + "K", "9" * 5000 + "k"])
def test_a_monster_gets_a_verdict(text: str) -> None:
    assert fault_of(BY_NAME["max_model_len"], text)
    assert fault_of(BY_NAME["compilation_config"], text)
    assert fault_of(BY_NAME["speculative_config"], text)
