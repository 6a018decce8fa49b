"""What each kind of value takes and refuses, that it can be written back, and that its schema agrees."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from appliance.core import kind
from appliance.core.imported.toml import toml_of
from appliance.core.kind import Kind, UnfitError, one_of, shown_span

LARGE = 1 << 70
HUGE = 1 << 20_000
"""More digits than Python writes."""

GOOD: list[tuple[Kind[Any], Any, Any]] = [
    (kind.TEXT, "a", "a"),
    (kind.TEXT, "  \u4f60 ", "  \u4f60 "),
    (kind.NAME, "vllm-0.32+cu.1_x", "vllm-0.32+cu.1_x"),
    (kind.FLAG, False, False),
    (kind.PORT, 65535, 65535),
    (kind.PATH, "/a b/\n", "/a b/\n"),
    (kind.MODEL, "/a b/", "/a b/"),
    (kind.MODEL, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
    (kind.ADDRESS, "localhost", "127.0.0.1"),
    (kind.ADDRESS, "0.0.0.0", "0.0.0.0"),
    (kind.ADDRESS, "::", "::"),
    (kind.ADDRESS, "2001:DB8::1", "2001:db8::1"),
    (kind.ADDRESS, "::ffff:10.0.0.1", "::ffff:a00:1"),
    (kind.ADDRESS, "fe80::1%eth0", "fe80::1%eth0"),
    (kind.SPAN, "1h 30min", 5400.0),
    (kind.SPAN, "1h30min5", 5405.0),
    (kind.SPAN, " 1500 ms ", 1.5),
    (kind.SPAN, "2 hours 1 day", 93600.0),
    (kind.SPAN, "90", 90.0),
    (kind.TEXTS, [], ()),
    (kind.TEXTS, ["--a", "b"], ("--a", "b")),
    (kind.COUNT, -3, -3),
    (kind.COUNTS, [1, 2], (1, 2)),
    (kind.NUMBER, 1, 1),
    (kind.NUMBER, 0.5, 0.5),
    (kind.POSITIVE, 1, 1),
    (kind.NAMES, "a", ("a",)),
    (kind.NAMES, ["a", "b"], ("a", "b")),
    (kind.DEVICES, [0, 7], ("0", "7")),
    (kind.DEVICES, ["GPU-8f8d3c1a-0000", "MIG-1234"], ("GPU-8f8d3c1a-0000", "MIG-1234")),
    (kind.HOST, "10.0.0.1", "10.0.0.1"),
    (kind.HOST, "::1", "::1"),
    (kind.HOST, "gx10-a.lan", "gx10-a.lan"),
    (kind.HOST, "4you", "4you"),
    (kind.SUBNETS, ["10.10.1."], ("10.10.1.",)),
    (kind.SUBNETS, ["10.10.1.7/24"], ("10.10.1.0/24",)),
    (kind.SUBNETS, ["10.10.1.0/255.255.255.0", "fd00::/64"], ("10.10.1.0/24", "fd00::/64")),
    (one_of("auto", "head"), "head", "head"),
]


def each(wanted: Kind[Any], *values: Any) -> list[tuple[Kind[Any], Any]]:
    return [(wanted, value) for value in values]


BAD: list[tuple[Kind[Any], Any]] = [
    *each(kind.TEXT, "", " \t\n", "a\0", 1, True, [], {}),
    *each(kind.NAME, "-a", "a/b", "../a", "a b", ""),
    *each(kind.FLAG, 0, 1, "true", ""),
    *each(kind.PORT, 0, -1, 65536, LARGE, 1.5, True, "80"),
    *each(kind.MODEL, "./a", "~/a", "a/b/c", "../a", "", "/a\0", 1),
    *each(kind.PATH, "a", "~/a", "./a", "", "/a\0", 1),
    *each(kind.ADDRESS, "gpu-box", "10.0.0.300", "10.0.0", "10.0.0.1/24", "127.1", "", 1),
    *each(kind.SPAN, "5 parsecs", "", "s", "1..5s", "-5s", "5 5", "1h x", "1e3", 5, 5.0, True),
    *each(kind.TEXTS, "a", [1], [""], ["a", None], {}),
    *each(kind.COUNT, "1", 1.5, True),
    *each(kind.COUNTS, 1, [1.5], ["1"], [True]),
    *each(kind.NUMBER, "1", True, []),
    *each(kind.POSITIVE, 0, -1, 1 << 31, LARGE, 1.5, True, "1"),
    *each(kind.NAMES, "", [], ["a", "a"], ["a", ""], "-a", ["a", "--port"], 1, [1]),
    *each(kind.DEVICES, [], [0, 0], [-1], [1024], [True], ["0"], ["GPU-"], ["gpu-0"], 0, "0", [1.5]),
    *each(kind.HOST, "", "a b", "-a", "a-", "a..b", ".a", "10.0.0.300", "10.0.0", "http://a", 1),
    *each(kind.SUBNETS, ["10.10.1"], ["10.10.300."], ["x"], ["10.0.0.0.0/8"], [""], "10.", [1]),
    *each(one_of("auto", "head"), "heads", "", "AUTO", 1, True, [], ["auto"]),
]

BEYOND_SCHEMA: list[tuple[Kind[Any], Any]] = [
    (kind.COUNT, HUGE),
    (kind.COUNTS, [HUGE]),
    (kind.NUMBER, HUGE),
    (kind.COUNT, LARGE),
    (kind.ADDRESS, "a:b"),
    (kind.HOST, "a" * 300),
    (kind.SPAN, f"{'9' * 400}d"),
    (kind.SUBNETS, ["10.10.1.0/40"]),
]
"""What JSON Schema can't say, or not in a pattern that a person reads."""


def called(value: Any) -> str:
    return value.name if isinstance(value, Kind) else kind.shown(value)


def refusal(wanted: Kind[Any], value: Any) -> str:
    with pytest.raises(UnfitError) as refused:
        wanted.read(value)
    return str(refused.value)


def takes(wanted: Kind[Any], value: Any) -> bool:
    return bool(Draft202012Validator(wanted.schema).is_valid(value))


@pytest.mark.parametrize(("wanted", "value", "read"), GOOD, ids=called)
def test_a_good_value_is_read_and_written_back(wanted: Kind[Any], value: Any, read: Any) -> None:
    assert wanted.read(value) == read
    assert wanted.read(wanted.write(read)) == read
    assert toml_of(wanted.write(read))
    assert takes(wanted, value)
    assert takes(wanted, wanted.write(read))


@pytest.mark.parametrize(("wanted", "value"), BAD, ids=called)
def test_a_bad_value_is_refused_by_the_reader_and_by_the_schema(wanted: Kind[Any], value: Any) -> None:
    assert refusal(wanted, value).startswith("found ")
    assert not takes(wanted, value)


@pytest.mark.parametrize(("wanted", "value"), BEYOND_SCHEMA, ids=called)
def test_what_the_schema_cannot_say_the_reader_refuses(wanted: Kind[Any], value: Any) -> None:
    assert len(refusal(wanted, value)) < 200


def test_every_kind_of_the_tables_has_a_schema() -> None:
    kinds = [value for value in vars(kind).values() if isinstance(value, Kind) and value not in (kind.TABLE, kind.ANY)]
    assert all(found.schema for found in kinds)
    for found in kinds:
        Draft202012Validator.check_schema(found.schema)
        assert any(found is wanted for wanted, *_ in GOOD), found.name
        assert any(found is wanted for wanted, _ in BAD), found.name


KINDS = sorted({wanted.name: wanted for wanted, *_ in GOOD}.values(), key=lambda found: found.name)
PIECES = st.sampled_from(
    [
        "/",
        "-",
        ".",
        ":",
        "%",
        " ",
        "\0",
        "\n",
        "a",
        "F",
        "0",
        "1",
        "25",
        "255",
        "300",
        "GPU-",
        "s",
        "min",
        "h",
        "localhost",
    ]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=6)
VALUES = st.recursive(
    TEXTS | st.integers() | st.floats() | st.booleans(), lambda inner: st.lists(inner, max_size=3), max_leaves=4
)


@given(st.sampled_from(KINDS), VALUES)
def test_the_schema_takes_all_that_the_reader_takes(wanted: Kind[Any], value: Any) -> None:
    try:
        read = wanted.read(value)
    except UnfitError:
        return
    assert takes(wanted, value), (wanted.name, value)
    assert wanted.read(wanted.write(read)) == read


@given(st.floats(min_value=0, max_value=1e300))
def test_a_time_span_loses_nothing_in_words(seconds: float) -> None:
    assert kind.SPAN.read(shown_span(seconds)) == seconds
