"""Values that are written as TOML come back as they were, and any environment is read or refused."""

import shlex
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.config import config_of
from appliance.core.document import LONGEST_LINE
from appliance.core.envfile import environment_of
from appliance.core.imported import SCRIPTS, imported
from appliance.core.imported.argument import words_of
from appliance.core.imported.toml import printable, toml_of
from appliance.core.kind import UnfitError
from appliance.core.problem import RefusedError

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
SCALARS = (
    TEXTS
    | st.integers(min_value=1 - (1 << 63), max_value=(1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


@given(VALUES)
def test_a_value_comes_back(value: Any) -> None:
    text = toml_of(value)
    assert "\n" not in text
    found = tomli.loads(f"x = {text}")["x"]
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "found null, which has no place in TOML"),
        ([1, None], "found null, which has no place in TOML"),
        (float("nan"), "found nan, wants a finite number"),
        (float("inf"), "found inf, wants a finite number"),
        (1 << 63, "found a number of more than 63 bits"),
        ("a\0", "found a NUL character in a string"),
        ("\ud800", "found half a character (a lone surrogate) in a string"),
        ({"\udfff": 1}, "found half a character (a lone surrogate) in a string"),
    ],
)
def test_what_toml_cannot_hold_is_told(value: Any, told: str) -> None:
    with pytest.raises(UnfitError, match=told.replace("(", r"\(").replace(")", r"\)")):
        toml_of(value)


def test_a_nest_is_as_deep_as_a_person_writes() -> None:
    value: Any = 1
    for _ in range(30):
        value = [value]
    with pytest.raises(UnfitError, match="nested too deeply"):
        toml_of(value)


@given(st.text())
def test_a_comment_stays_one(text: str) -> None:
    assert tomli.loads(f"# {printable(text)}\nx = 1") == {"x": 1}


@given(st.text(alphabet="ab '\"\\-"))
def test_arguments_are_split_as_a_shell_does(text: str) -> None:
    try:
        wanted = shlex.split(text)
    except ValueError:
        with pytest.raises(UnfitError):
            words_of(text)
    else:
        assert words_of(text) == wanted


NAMES = sorted({*SCRIPTS["glm53-flash/gx10"].rules, *SCRIPTS["qwen38-flash-next/rtx3090x4"].rules, "NCCL_X", "X"})
GIVEN = TEXTS.map(lambda text: text.replace("\n", " ").replace("\r", " ")) | st.sampled_from(
    ["0", "1", "4", "RING4", "none", "mtp", "head", "/x", "{}", '{"a": [1, null]}', "10.0.0.1", "--port 9 --x", "-1"]
)


def read_or_refused(recipe: str, content: bytes, arguments: tuple[str, ...]) -> bool:
    try:
        text = imported(recipe, environment_of(content, "x.env"), arguments)
    except RefusedError as refused:
        return all(problem.what and problem.hint for problem in refused.problems)
    return config_of(text, "x.toml").recipe == recipe


@given(
    st.sampled_from(sorted(SCRIPTS)),
    st.lists(st.tuples(st.sampled_from(NAMES), GIVEN), max_size=8),
    st.lists(st.text(max_size=8) | st.sampled_from(["--port", "--host", "--api-key", "--seed", "7", "/x"]), max_size=4),
)
def test_any_environment_gives_toml_or_problems(
    recipe: str, pairs: list[tuple[str, str]], arguments: list[str]
) -> None:
    content = "".join(f"{name}={shlex.quote(value)}\n" for name, value in pairs).encode()
    assert read_or_refused(recipe, content, tuple(arguments))


def test_a_line_that_the_configuration_would_not_take_is_refused() -> None:
    content = f"EXTRA_ARGS={'--x ' * (LONGEST_LINE // 4 - 9)}".encode()
    with pytest.raises(RefusedError) as refused:
        imported("glm53-flash/gx10", environment_of(content, "x.env"))
    (problem,) = refused.value.problems
    assert (problem.line, problem.key) == (1, "EXTRA_ARGS")
    assert f"at most {LONGEST_LINE}" in problem.what
