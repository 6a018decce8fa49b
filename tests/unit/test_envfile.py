"""Environment files: what a line sets, and how a line that sets nothing is told."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.document import LARGEST_FILE, LONGEST_LINE
from appliance.core.envfile import MOST_LINES, environment_of
from appliance.core.problem import RefusedError


def value_of(line: str) -> str:
    environment = environment_of(line.encode(), "x.env")
    assert environment.problems == ()
    (assignment,) = environment.assignments
    return assignment.value


def notes_of(text: str) -> tuple[str, ...]:
    return environment_of(text.encode(), "x.env").assignments[-1].notes


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in environment_of(text.encode(), "x.env").problems]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A=b", "b"),
        ("export\tA=b", "b"),
        ("  A = b  ", "b"),
        ("A=b\r", "b"),
        ("A=", ""),
        ("A=''", ""),
        ("A=  # nothing", ""),
        ("A=alpha beta", "alpha beta"),
        ("A=alpha beta # two", "alpha beta"),
        ("A=b#c", "b#c"),
        ("A=#b", "#b"),
        ("A='b # c' # d", "b # c"),
        ('A={"image":4, "video":0}', '{"image":4, "video":0}'),
        ("""A='{"image": 4}'""", '{"image": 4}'),
        (r'A="{\"image\": 4}"', '{"image": 4}'),
        (r'A="a\\b\$c\`d\ne"', r"a\b$c`d\ne"),
        (r"A='a\b'", r"a\b"),
        (r"A=a\b", r"a\b"),
        (r"A='it'\''s'", "it's"),
        ("""A='it'"'"'s'""", "it's"),
        ("A=it's", "it's"),
        ("A=--x=1 --y=2", "--x=1 --y=2"),
        ("A=\u00e4\u4f60", "\u00e4\u4f60"),
    ],
)
def test_a_line_sets_what_compose_and_a_shell_take_it_for(line: str, value: str) -> None:
    assert value_of(line) == value


def test_blank_lines_and_remarks_set_nothing() -> None:
    environment = environment_of(b"\xef\xbb\xbf# A=1\r\n\r\n   \n  # B=2\nC=3\r\n", "x.env")
    assert [(found.name, found.value, found.line) for found in environment.assignments] == [("C", "3", 5)]


def test_the_last_line_for_a_name_wins_and_says_so() -> None:
    environment = environment_of(b"A=1\nB=2\nA=3\n", "x.env")
    assert [(found.name, found.value) for found in environment.assignments] == [("B", "2"), ("A", "3")]
    assert environment.assignments[1].notes == ("line 1 sets A too; the last line wins",)


def test_an_empty_variable_counts_as_not_set() -> None:
    environment = environment_of(b"A=1\nA=\n", "x.env")
    assert environment.value("A") == environment.value("B") == ""
    assert environment.assignment("A") is None


@pytest.mark.parametrize("line", ["A=$B", "A=x${B}", "A=$(ls)", "A=`ls`", 'A="$B"', 'A="`ls`"'])
def test_nothing_is_filled_in_and_the_line_says_so(line: str) -> None:
    assert notes_of(line) == ("a $ or ` stays as it stands: nothing is filled in",)


@pytest.mark.parametrize("line", ["A='$B'", r'A="\$B"', "A=5$", "A=$5", "A='`'"])
def test_a_plain_dollar_needs_no_note(line: str) -> None:
    assert notes_of(line) == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("A", 'x.env:1: no = in "A"; write NAME=VALUE, or # in front of a remark'),
        ("export A", 'x.env:1: no = in "export A"; write NAME=VALUE, or # in front of a remark'),
        ("1A=2", 'x.env:1: "1A" is not the name of a variable; write NAME=VALUE'),
        ("A B=2", 'x.env:1: "A B" is not the name of a variable; write NAME=VALUE'),
        (
            "A=" + "b" * LONGEST_LINE,
            f"x.env:1: a line of {LONGEST_LINE + 2} characters, at most {LONGEST_LINE}; shorten it",
        ),
        ("=2", 'x.env:1: "" is not the name of a variable; write NAME=VALUE'),
        ("A-B=2", 'x.env:1: "A-B" is not the name of a variable; write NAME=VALUE'),
        ("A='b", "x.env:1: A: the quote ' is not closed; close it on the same line"),
        ('A="b\\"', 'x.env:1: A: the quote " is not closed; close it on the same line'),
        ('A="b"# c', 'x.env:1: A: found "c" after the closing quote; put all of the value into the quotes'),
        ("A='b' c", 'x.env:1: A: found "c" after the closing quote; put all of the value into the quotes'),
    ],
)
def test_a_broken_line_is_told_with_what_to_do(line: str, told: str) -> None:
    assert problems_of(line) == [told]


def test_every_broken_line_is_told_and_the_others_count() -> None:
    environment = environment_of(b"A=1\nB\nC='\nD=4\n", "x.env")
    assert [problem.line for problem in environment.problems] == [2, 3]
    assert [found.name for found in environment.assignments] == ["A", "D"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"A" * 10_000_000, f"x.env: more than {LARGEST_FILE} bytes; name the file that holds the NAME=VALUE lines"),
        (b"A=1\n" * (MOST_LINES + 1), f"x.env: {MOST_LINES + 2} lines, at most {MOST_LINES}"),
        (b"\x7fELF\0\0", "x.env: not a text: it holds NUL bytes; save it as UTF-8"),
        ("A=1".encode("utf-16"), "x.env: not a text: it holds NUL bytes; save it as UTF-8"),
        (b"A=\xff", "x.env: byte 2 is not UTF-8; save it as UTF-8"),
    ],
    ids=["10 MB", "many lines", "a program", "UTF-16", "Latin-1"],
)
def test_what_is_no_environment_file_is_refused_with_one_message(content: bytes, told: str) -> None:
    with pytest.raises(RefusedError) as refused:
        environment_of(content, "x.env")
    assert str(refused.value) == told


def read_or_refused(content: bytes) -> bool:
    try:
        environment = environment_of(content, "x.env")
    except RefusedError as refused:
        return len(refused.problems) == 1
    return all(problem.what and problem.line for problem in environment.problems)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    assert read_or_refused(content)


@given(st.lists(st.sampled_from(["A", "=", " ", "'", '"', "\\", "#", "$", "\n", "export ", "{", "b"]), max_size=20))
def test_any_arrangement_of_quotes_is_read_or_told(parts: list[str]) -> None:
    environment = environment_of("".join(parts).encode(), "x.env")
    assert all(problem.what and problem.hint for problem in environment.problems)


@given(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1))
def test_what_a_shell_quotes_comes_back(value: str) -> None:
    quoted = shlex.quote(value)
    assert value_of(f"A={quoted}") == value
