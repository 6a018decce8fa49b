"""The generated files are those of the code, and the JSON Schema takes what the program takes."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from appliance.core.config import OPEN_SECTIONS, ORDER, Config, config_of
from appliance.core.description import OPEN_EXAMPLES, OPEN_SUMMARIES
from appliance.core.imported.toml import toml_of
from appliance.core.manpage import with_keys
from appliance.core.opentable import RESERVED_FLAGS
from appliance.core.problem import RefusedError
from appliance.core.record import keys_of
from appliance.core.sample import sample
from appliance.core.schema import schema
from appliance.core.section import SECTIONS, Top
from tests.generated import ROOT, generated

VALIDATOR = Draft202012Validator(schema())
SAMPLE = sample()
CLASSES: tuple[type[Any], ...] = (Top, *SECTIONS.values())


def faults(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(tomli.loads(text))]


@pytest.mark.parametrize("file", generated(), ids=lambda file: file.name)
def test_a_generated_file_is_what_the_code_says(file: Path) -> None:
    assert file.read_text() == generated()[file], "make generated"


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


def test_the_sample_is_a_good_file_as_it_is_and_with_every_key_uncommented() -> None:
    uncommented = re.sub(r"^#(?=[a-z_]+ = |\[\[)", "", SAMPLE, flags=re.MULTILINE)
    for text in (SAMPLE, uncommented, (ROOT / "etc/vllm-serve.toml").read_text()):
        assert faults(text) == []
        assert isinstance(config_of(text, "sample"), Config)
    table = tomli.loads(uncommented)
    assert set(table) == {*keys_of(Top), *ORDER, "question"}
    for section, cls in SECTIONS.items():
        assert set(table[section]) == set(keys_of(cls))


def test_the_sample_says_the_defaults_where_they_are_plain_values() -> None:
    config = config_of(re.sub(r"^#(?=[a-z_]+ = |\[\[)", "", SAMPLE, flags=re.MULTILINE), "sample")
    plain = config_of("", "x")
    for section in ("api", "reload", "patience", "paths"):
        assert getattr(config, section) == getattr(plain, section)


def test_lines_of_the_sample_fit_a_terminal() -> None:
    assert max(map(len, SAMPLE.splitlines())) <= 110


def test_all_sections_are_described() -> None:
    assert set(ORDER) == {*SECTIONS, *OPEN_SECTIONS}
    assert set(OPEN_SUMMARIES) == set(OPEN_EXAMPLES) == set(OPEN_SECTIONS)
    assert {*ORDER, *keys_of(Top)} <= {field.name for field in dataclasses.fields(Config)}
    for cls in CLASSES:
        for key in keys_of(cls).values():
            assert key.doc[-1] == ".", key.name
            assert key.doc[0].isupper(), key.name
            assert key.absent or key.default is not None, f"{key.name}: say what it means to leave it out"
            assert key.example is None or key.kind.read(key.example) is not None


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "[apis]",
        "api = 1",
        "[[api]]",
        "[api]\nprot = 1",
        "[api]\nport = 0",
        "[api]\nport = true",
        "[api]\nhost = 'gpu-box'",
        "[model]\nsource = 'a/b/c'",
        "[model]\nserved_model_name = []",
        "[engine]\nextra_args = '--a'",
        "[gpu]\ncount = 0",
        "[gpu]\ndevices = [0, 0]",
        "[cluster]\nrole = 'boss'",
        "[cluster]\nsubnets = ['10.0']",
        "[patience]\nloading = 5",
        "[reload]\nrollback = 'yes'",
        "[vllm]\n'a b' = 1",
        "[vllm]\nMax_model_len = 1",
        "[vllm]\ntokenizer = '--port'",
        "[knobs]\n'a-b' = 1",
        "[env]\n'a b' = 1",
        "[env]\nA = []",
        "[env]\nA = {b = 1}",
        "[env]\nPYTHONPATH = ''",
        "[env]\nNOTIFY_SOCKET = ''",
        "[env]\nHF_TOKEN = 'x'",
        "[env]\nMY_API_KEY = 'x'",
        *(f"[vllm]\n{flag} = 'x'" for flag in RESERVED_FLAGS),
        *(f"[vllm]\n{flag.replace('_', '-')} = 'x'" for flag in RESERVED_FLAGS),
    ],
)
def test_a_mistake_is_refused_by_the_schema_as_by_the_program(text: str) -> None:
    assert faults(text)
    with pytest.raises(RefusedError):
        config_of(text, "x.toml")


NAMES = st.sampled_from(
    [
        *ORDER,
        *(name for cls in CLASSES for name in keys_of(cls)),
        "max-model-len",
        "A",
        "PYTHONX",
        "x y",
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        [True, 0, 1, 8000, 0.5, "", "a", "/a", "90s", "10.0.0.1", "auto", "ring", "-1", "--port", "GPU-1234"]
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=3,
)


@given(st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=3))
def test_the_schema_takes_every_file_that_the_program_takes(table: dict[str, Any]) -> None:
    text = "\n".join(f'"{name}" = {toml_of(value)}' for name, value in table.items())
    try:
        config_of(text, "x.toml")
    except RefusedError:
        return
    assert faults(text) == []


def test_a_page_without_marks_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="marks"):
        with_keys("# NAME\n")
