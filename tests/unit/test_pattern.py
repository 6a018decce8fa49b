"""Regular expressions of other people: read in a bounded time and memory, or refused."""

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.kind import UnfitError
from appliance.core.pattern import PATTERN, ExplodedError, finds

SOUND = (
    *(
        "Paris",
        r"^\s*Par[ij]s\W*$",
        r"(?i)paris|parigi",
        r"\d{4}-\d{2}-\d{2}",
        r"\b\w+@\w+\.\w{2,}\b",
        r"[가-힣]+",
        r"(a|b)*c",
    ),
    *(
        r"^(?:\d{1,3}\.){3}\d{1,3}$",
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"(?s)^.*end$",
        r"a{0,5}",
        r"(\w+) \1",
    ),
    *(r"^(yes|no)[.!]?$", r".*", r"(?x) a  b # c", "#{3}", r"\{10\}"),
)
EXPLODING = (
    *(
        "(a+)+$",
        "(a|aa)+$",
        "(.*a){20}$",
        r"(\w+\s?)+$",
        "(?:x+x+)+y",
        "(ab|abab)+$",
        "(foo|foofoo)+$",
        r"(([a-z])+.)+[A-Z]$",
    ),
    *("(?R)?a", "(?:(?R))"),
)
ENORMOUS = (
    "a{1000000000}",
    "((a{1000}){1000}){1000}",
    "(?x)a{ 10 00000000 }",
    "(?x)a{#c\n1000000000}",
    "a{9999999999999999999999}",
)


@pytest.mark.parametrize("pattern", SOUND)
def test_a_sound_pattern_is_read_as_it_is(pattern: str) -> None:
    assert PATTERN.read(pattern) == pattern


@pytest.mark.parametrize("pattern", EXPLODING)
def test_a_pattern_that_explodes_is_refused_in_a_moment(pattern: str) -> None:
    start = time.monotonic()
    with pytest.raises(UnfitError, match=r"needs more than 0.2 s for 2001 characters such as"):
        PATTERN.read(pattern)
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("pattern", ENORMOUS)
def test_a_pattern_that_takes_all_memory_is_refused_before_it_is_compiled(pattern: str) -> None:
    with pytest.raises(UnfitError, match="fixed counts multiply to more than 100000"):
        PATTERN.read(pattern)


@pytest.mark.parametrize(
    "found", ["", " ", "[", "(", "a**", r"\p{Foo}", "(?P<a", 3, True, ["a"], None, "a" * 1001, "a\0"]
)
def test_what_is_no_pattern_is_refused(found: object) -> None:
    with pytest.raises(UnfitError):
        PATTERN.read(found)


@settings(deadline=None, max_examples=150)
@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from([*"ab1 .*+?|()[]{}^$,\\", r"\w", r"\d", "(?:", "{2}", "{1,3}", "[^a]"]), min_size=1, max_size=14
    ).map("".join)
)
def test_any_text_is_a_pattern_or_refused_in_a_bounded_time(pattern: str) -> None:
    start = time.monotonic()
    with contextlib.suppress(UnfitError):
        PATTERN.read(pattern)
    assert time.monotonic() - start < 12


def test_a_search_that_does_not_end_is_given_up() -> None:
    start = time.monotonic()
    with pytest.raises(ExplodedError, match=r"did not end within 0.1 s on 5001 characters"):
        finds("(a|aa)+$", "a" * 5000 + "!", 0.1)
    assert time.monotonic() - start < 1
    assert finds("Par[ij]s", "It is Paris.")
    assert not finds("^paris$", "Paris")
