"""The questions of a file: what is declared, what is refused and where, and how a file and a recipe come together."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import tomli
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.cli import config
from appliance.core.config import config_of
from appliance.core.document import Document, Reader, document_of
from appliance.core.imported.toml import toml_of
from appliance.core.judge import JUDGES
from appliance.core.paper import questions_for
from appliance.core.problem import RefusedError
from appliance.core.question import Common, Question, asked, expected_texts, questions_of, written
from appliance.core.record import keys_of
from appliance.core.writing import SCRIPTS
from appliance.service.share import chosen_recipe

SAY_WHAT = "say what is right by one of equals, contains, matches and number"
HEAD = '[[question]]\nname = "q"\n'
ONE_OF = f"one of {', '.join(JUDGES)}"
CHATS = 'judge = "answer"\nask = "a"\n'


def checked(folder: Path, text: str, **drop_ins: str) -> list[str]:
    """Return the lines of `config check`, without the file's folder."""
    file = folder / "x.toml"
    file.write_text(text)
    for name, more in drop_ins.items():
        (folder / "x.toml.d").mkdir(exist_ok=True)
        (folder / f"x.toml.d/{name}.toml").write_text(more)
    done = CliRunner().invoke(config.command, ["check", str(file)])
    if done.exception is None:
        return []
    assert isinstance(done.exception, RefusedError), repr(done.exception)
    return str(done.exception).replace(f"{folder}/", "").splitlines()


def refused(text: str) -> list[str]:
    """Return what a file of questions is refused for."""
    reader = Reader(document_of(text, "x.toml"))
    questions_of(reader)
    return [str(problem) for problem in reader.problems]


def read(text: str) -> tuple[Question, ...]:
    reader = Reader(document_of(text, "x.toml"))
    found = questions_of(reader)
    assert not reader.problems
    return found


BAD = {
    HEAD + 'judge = "anwser"': '3: judge: found "anwser", wants the name of a judge; did you mean answer?',
    HEAD + "judge = 3": f"3: judge: found 3, wants the name of a judge; {ONE_OF}",
    HEAD + "judge = ['answer']": f"3: judge: found a list of 1, wants the name of a judge; {ONE_OF}",
    HEAD + 'judge = "names"\nnmaes = 1': "4: nmaes: unknown key; did you mean names or name?",
    '[[question]]\njudge = "names"': "1: name: missing",
    HEAD + 'judge = "answer"\nequals = "b"': "1: ask: missing",
    HEAD + CHATS: f"1:: found none; {SAY_WHAT}",
    HEAD + CHATS + 'equals = "b"\nnumber = 0': f"1:: found equals and number; {SAY_WHAT}",
    HEAD + CHATS + "equals = 'b'\n" + HEAD + "judge = 'names'": '7: name: a second question is called "q"',
    HEAD + CHATS + "equals = ' '": "5: equals: found an empty string",
    HEAD + CHATS + "contains = []": "5: contains: found an empty list, wants at least one text",
    HEAD + CHATS + "number = nan": "5: number: found nan, wants a finite number",
    HEAD + CHATS + "number = true": "5: number: found true, wants a number",
    HEAD + CHATS + "matches = '['": "5: matches: not a regular expression: unterminated character set at position 1",
    HEAD + CHATS + "matches = '.*'": "5: matches: fits an empty answer too, so every answer; write what must be there",
    HEAD + "judge = 'repeatable'\nask = 'a'\ntimes = 1": (
        "5: times: found 1, wants at least 2; one answer alone repeats nothing"
    ),
    HEAD + "judge = 'names'\ngate = 1": "4: gate: found 1, wants true or false",
    HEAD + "judge = 'names'\ntimeout = '0s'": "4: timeout: found no time at all, wants some for a reply",
    HEAD + "judge = 'names'\ntasks = ['chats']": (
        "4: tasks: found a list of 1, wants some of "
        "chat, completion, embedding, rerank, transcription, classification, pooling"
    ),
    HEAD + "judge = 'counting'\nfirst = 9\nlast = 5": "5: last: found 9 to 5; count up, and over at most 1000 numbers",
    HEAD + "judge = 'counting'\nask = 'count'": "4: ask: lacks {first} or {last}; they stand for the numbers",
    HEAD + "judge = 'needle'\ndepth = 2": "4: depth: found 2, wants a number from 0 to 1",
    HEAD + "judge = 'acceptance'\nleast = -1": "4: least: found -1, wants a number from 0 to 1",
    HEAD + "judge = 'writing'\nask = 'a'\nscript = 'latin'": (
        f'5: script: found "latin", wants one of {", ".join(SCRIPTS)}'
    ),
    HEAD + "judge = 'concurrent'\nanswers = { a = 'b' }": (
        "4: answers: found 1 questions, wants at least 2, none of them and no answer empty"
    ),
    HEAD + "judge = 'tool'\nask = 'a'\ntool = 't'\nparameters = {}\narguments = { a = 1979-05-27 }": (
        "7: arguments: wants strings, finite numbers, booleans, lists and tables"
    ),
}
NO_TABLES = ("question = 3", "question = [1]", "[question]\nname = 'q'")


@pytest.mark.parametrize(("text", "line"), BAD.items(), ids=map(str, range(len(BAD))))
def test_what_is_wrong_in_a_question_is_told_with_its_line_and_key(text: str, line: str) -> None:
    number, key, what = line.partition(":")[0], line.split(":")[1].strip(), line.split(":", 2)[2]
    place = f"[[question]] {key}".rstrip()
    assert refused(text) == [f"x.toml:{number}: {place}:{what}"]


@pytest.mark.parametrize("text", NO_TABLES)
def test_questions_that_are_no_tables_are_told(text: str) -> None:
    assert refused(text) == ["x.toml:1: question: wants tables; write [[question]] on a line of its own"]


def test_every_mistake_is_told_at_once_by_config_check(tmp_path: Path) -> None:
    text = '[[question]]\nname = "a"\njudge = "likelyhood"\n[api]\nprot = 1\n'
    text += '[[question]]\nname = "b"\njudge = "answer"\n'
    assert checked(tmp_path, text, more='[[question]]\nname = 1\njudge = "names"') == [
        'x.toml:3: [[question]] judge: found "likelyhood", wants the name of a judge; did you mean likelihood?',
        "x.toml:5: [api] prot: unknown key; did you mean port?",
        "x.toml:6: [[question]] ask: missing",
        "x.toml.d/more.toml:2: [[question]] name: found 1, wants a plain name of letters, digits and ._+-".replace(
            "wants a plain name of letters, digits and ._+-", "wants a string"
        ),
    ]


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ('schema = { "$ref" = "http://example.org/x" }', "a reference to nothing in it: http://example.org/x"),
        ('schema = { "$ref" = "file:///etc/hostname" }', "a reference to nothing in it: file:///etc/hostname"),
        ('schema = { items = { "$ref" = "#/nothing" } }', "a reference to nothing in it: #/nothing"),
        ('schema = { "$ref" = "#" }', "a reference to itself"),
        ('schema = { type = "objekt" }', "not a JSON Schema: 'objekt' is not valid"),
        ('schema = { pattern = "(a+)+$" }', "a pattern that can't be used: a pattern that needs more than 0.2 s"),
        ('schema = { patternProperties = { "(" = {} } }', "a pattern that can't be used: not a regular expression"),
    ],
)
def test_a_schema_that_can_not_be_held_against_an_answer_is_told(tmp_path: Path, keys: str, what: str) -> None:
    lines = checked(tmp_path, f'[[question]]\nname = "q"\njudge = "structured"\nask = "a"\n{keys}\n')
    assert len(lines) == 1
    assert lines[0].startswith("x.toml:1: [[question]] q schema: ")
    assert what in lines[0]


def test_a_schema_that_refers_to_its_parts_is_good(tmp_path: Path) -> None:
    schema = '{ "$ref" = "#/$defs/a~1b", "$defs" = { "a/b" = { anyOf = [{}, { "$ref" = "#/$defs/a~1b/anyOf/0" }] } } }'
    assert checked(tmp_path, f'[[question]]\nname = "q"\njudge = "structured"\nask = "a"\nschema = {schema}\n') == []


def test_a_file_has_at_most_two_hundred_questions() -> None:
    text = "\n".join(f'[[question]]\nname = "q{number}"\njudge = "names"' for number in range(201))
    assert refused(text) == ["x.toml:1: question: 201 questions, at most 200"]
    assert refused(text.rpartition("[[question]]")[0]) == []


def test_something_must_stand_between_a_wrong_model_and_ready(tmp_path: Path) -> None:
    none = "no question is left that stands between a wrong model and READY"
    names = [question.name for question in questions_for(*of_demo(""))]
    for text in (
        f"[selftest]\nskip = {json.dumps(names)}",
        "[selftest]\nrecipe_questions = false",
        '[selftest]\nrecipe_questions = false\n[[question]]\nname = "a"\njudge = "names"\ngate = false',
    ):
        lines = checked(tmp_path, f'recipe = "demo"\n{text}')
        assert len(lines) == 1, lines
        assert lines[0].startswith("x.toml:3: [selftest] ")
        assert none in lines[0]
    assert checked(tmp_path, f'recipe = "demo"\n[selftest]\nskip = {json.dumps(names[1:])}') == []


def test_what_is_no_list_of_names_to_skip_is_told_once(tmp_path: Path) -> None:
    text = 'recipe = "demo"\n[selftest]\nskip = "france"\nrecipe_questions = "no"'
    assert checked(tmp_path, text) == [
        'x.toml:3: [selftest] skip: found "france", wants a list of strings',
        'x.toml:4: [selftest] recipe_questions: found "no", wants true or false',
    ]


def of_demo(text: str) -> tuple[Any, Any]:
    chosen = config_of(f'recipe = "demo"\n{text}', "x.toml")
    return chosen, chosen_recipe(chosen)


def test_a_question_of_the_file_takes_the_place_of_the_recipes() -> None:
    recipe = questions_for(*of_demo(""))
    own = '[[question]]\nname = "counting"\njudge = "names"\n[[question]]\nname = "mine"\njudge = "names"'
    found = questions_for(*of_demo(f'[selftest]\nskip = ["korean"]\n{own}'))
    expected = [question.name for question in recipe if question.name != "korean"]
    assert [question.name for question in found] == [*expected, "mine"]
    replaced = next(question for question in found if question.name == "counting")
    assert (replaced.kind, replaced.origin) == ("names", "x.toml:4")
    assert [question.name for question in questions_for(*of_demo(f"[selftest]\nrecipe_questions = false\n{own}"))] == [
        "counting",
        "mine",
    ]


def test_a_question_of_a_drop_in_takes_the_place_of_the_files(tmp_path: Path) -> None:
    first = f'recipe = "demo"\n{HEAD}{CHATS}equals = "b"'
    assert checked(tmp_path, first, more=f'{HEAD}judge = "names"') == []
    shown = CliRunner().invoke(config.command, ["show", "--config", str(tmp_path / "x.toml")])
    assert tomli.loads(shown.output)["question"] == [{"name": "q", "judge": "names"}]


def test_asking_nothing_of_the_recipe_is_asking_only_what_is_ones_own() -> None:
    recipe, own = read(HEAD + "judge = 'names'"), read("[[question]]\nname = 'p'\njudge = 'task'")
    assert asked(recipe, own, ()) == (*recipe, *own)
    assert asked(recipe, own, ("q", "unknown")) == own
    assert asked(recipe, recipe, ("q",)) == ()


WRONG_TYPES = (
    "3",
    "3.5",
    "true",
    '"x"',
    "[]",
    "[1]",
    "{}",
    "1979-05-27",
    '[""]',
    '""',
    "-1",
    "nan",
    "99999999999999999999",
)
KEYS: list[tuple[str, Any]] = [
    (name, known) for name, cls in JUDGES.items() for known in (*keys_of(Common).values(), *keys_of(cls).values())
]


@pytest.mark.parametrize(("judge", "known"), KEYS, ids=[f"{judge}-{known.name}" for judge, known in KEYS])
def test_a_value_of_any_type_in_any_key_is_read_or_told_at_its_line(judge: str, known: Any) -> None:
    for value in WRONG_TYPES:
        name = "" if known.name == "name" else 'name = "q"'
        reader = Reader(document_of(f'[[question]]\njudge = "{judge}"\n{known.name} = {value}\n{name}', "x.toml"))
        questions_of(reader)
        lines = {problem.line for problem in reader.problems}
        assert lines <= {1, 3}
        assert all(problem.line == 1 or problem.key == f"[[question]] {known.name}" for problem in reader.problems)


TOML = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=9), inner, max_size=3),
    max_leaves=6,
)
CLASSES: list[type[Any]] = [Common, *JUDGES.values()]
OWN = sorted({name for cls in CLASSES for name in keys_of(cls)} - {"name"})


@settings(deadline=None, max_examples=200)
@given(judge=st.sampled_from(sorted(JUDGES)), keys=st.dictionaries(st.sampled_from(OWN), TOML, max_size=5))
def test_any_values_are_read_or_refused(judge: str, keys: dict[str, Any]) -> None:
    table = {"question": [{"name": "q", "judge": judge, **keys}]}
    reader = Reader(Document(file="x.toml", table=table, lines={}))
    found = questions_of(reader)
    assert bool(found) != bool(reader.problems)
    if found:
        again = "\n".join(f"{name} = {toml_of(value)}" for name, value in written(found[0]).items())
        (same,) = read(f"[[question]]\n{again}")
        assert (same.judge, same.gate, same.light, same.tasks) == (
            found[0].judge, found[0].gate, found[0].light, found[0].tasks,
        )  # fmt: skip
        expected_texts(same)


def test_a_pattern_that_explodes_is_told_in_little_time(tmp_path: Path) -> None:
    start = time.monotonic()
    for pattern in ("(a+)+$", "(a|aa)+$", "(.*a){20}$", "a{1000000000}"):
        lines = checked(tmp_path, f"{HEAD}{CHATS}matches = '{pattern}'")
        assert len(lines) == 1
        assert lines[0].startswith("x.toml:5: [[question]] matches: ")
    assert time.monotonic() - start < 6
