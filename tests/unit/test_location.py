"""The line of each key, however it is written."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.document import Document, document_of
from appliance.core.imported.toml import toml_of
from appliance.core.location import key_lines


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a.b.c = 1", ("a", "b", "c"), 1),
        ("\n[a]\nb . c = 1", ("a", "b", "c"), 3),
        ('[a]\n"b=c" = 1\n"d e"."f#" = 2', ("a", "d e", "f#"), 3),
        ('[a]\nb."c=d" = 1', ("a", "b", "c=d"), 2),
        ('["a.b"."c]"] # [x]\nd = 1', ("a.b", "c]", "d"), 2),
        ('[a]\n"\\u0062" = 1', ("a", "b"), 2),
        ("[a]\n'\\u0062' = 1", ("a", "\\u0062"), 2),
        ("[a]\r\nb = 1\r\nc = 2\r\n", ("a", "c"), 3),
        ('a = """\nb = 1\n"""\nb = 2', ("b",), 4),
        ("a = '''\n[b]\nc = 1\n'''\n[b]\nc = 2", ("b", "c"), 6),
        ('a = """x""""\nb = 1', ("b",), 2),
        ("a = [\n {b = 1},\n # ]\n [2],\n]\nb = 2", ("b",), 6),
        ("[ a . b ]\nc = 1", ("a", "b", "c"), 2),
        ('"" = 1\nb = 2', ("",), 1),
        ("a = {b = {c = 1}}", ("a", "b", "c"), 1),
        ("[a]\nb = 1\n[c]\n[a.d]\ne = 1", ("a", "d", "e"), 5),
    ],
)
def test_a_key_has_the_line_on_which_it_is_set(text: str, path: tuple[str, ...], line: int) -> None:
    document = document_of(text, "x.toml")
    assert value_at(document, path) is not None
    assert document.origin(path) == f"x.toml:{line}"


def value_at(document: Document, path: tuple[str, ...]) -> object:
    found: object = document.table
    for part in path:
        assert isinstance(found, dict)
        found = found[part]
    return found


NAMES = st.text("ab.=[]#\"' \\", min_size=1, max_size=4)
SPREAD = st.sampled_from(
    ['"""\nx = 1\n[y]\n"""', "'''\n\"\"\"\n'''", "[\n1, # ]\n2]", '[\n"]",\n"""\n]"""]', "{z = 1}", "1"]
)
SECTIONS = st.dictionaries(NAMES, st.dictionaries(NAMES, SPREAD, max_size=4), max_size=4)


def written(sections: dict[str, dict[str, str]]) -> Iterator[tuple[tuple[str, ...], str]]:
    for section, keys in sections.items():
        yield (section,), f"[{toml_of(section)}]"
        for key, value in keys.items():
            yield (section, key), f"{toml_of(key)} = {value}"


@given(SECTIONS)
def test_lines_are_right_in_any_file(sections: dict[str, dict[str, str]]) -> None:
    line, parts = 1, []
    expected = {}
    for path, text in written(sections):
        expected[path] = line
        line += text.count("\n") + 1
        parts.append(text)
    lines = key_lines("\n".join(parts))
    assert {path: lines.get(path) for path in expected} == expected
