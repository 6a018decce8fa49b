"""The questions of the self-test as recipes and vllm-serve.toml declare them: [[question]]."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from appliance.core.document import Reader
from appliance.core.judge import (
    JUDGES,
    TASKS,
    Acceptance,
    Counting,
    KnownAnswer,
    Needle,
    Repeatable,
    ServedNames,
    Speed,
)
from appliance.core.kind import FLAG, NAME, SPAN, Kind, UnfitError, shown, typed
from appliance.core.pattern import ExplodedError, finds
from appliance.core.problem import did_you_mean
from appliance.core.record import key, keys_of, record

MOST_QUESTIONS = 200
"""In one file; a start asks them all."""


def _tasks(found: object) -> tuple[str, ...]:
    tasks = tuple(typed(found, list, "a list"))
    if not tasks or set(map(str, tasks)) - set(TASKS):
        raise UnfitError(f"found {shown(found)}, wants some of {', '.join(TASKS)}")
    return tasks


TASK_LIST = Kind("list of tasks", _tasks, {"type": "array", "minItems": 1, "items": {"enum": list(TASKS)}})


@record
class Common:
    """What every question has, whoever judges it."""

    name: str = key("Its name: in verdicts, for `--only`, and to replace a question of the recipe.", NAME)
    gate: bool = key(
        "Whether a wrong answer stands between the model and READY; otherwise it is only told.", FLAG, default=True
    )
    light: bool = key("Whether it is asked again while the model serves, see repeat.", FLAG, default=False)
    tasks: tuple[str, ...] = key(
        "Asked only of a model that does one of these.", TASK_LIST, default=(), absent="asked of every model"
    )
    timeout: float = key("The longest time for one reply.", SPAN, default=120.0)


@record
class Question(Common):
    """One question, and what judges the answer."""

    judge: Any
    """One of the records of core/judge.py."""
    origin: str
    """Where it is declared, `file:line`."""

    @property
    def shows_answers(self) -> bool:
        """Tell whether a right verdict says something of the model, and not of its server alone."""
        return not isinstance(self.judge, (ServedNames, Speed, Acceptance))

    @property
    def kind(self) -> str:
        """The name of its judge."""
        return next((name for name, cls in JUDGES.items() if cls is type(self.judge)), "baseline")


def questions_of(reader: Reader) -> tuple[Question, ...]:
    """Read every [[question]] of a document; what is wrong in one is noted with its place."""
    found = reader.document.table.get("question", [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        reader.refuse(("question",), "wants tables", "write [[question]] on a line of its own")
        return ()
    if len(found) > MOST_QUESTIONS:
        reader.refuse(("question",), f"{len(found)} questions, at most {MOST_QUESTIONS}")
        return ()
    read = (_question(reader, ("question", str(number)), table) for number, table in enumerate(found))
    questions = tuple(question for question in read if question)
    for number, question in enumerate(questions):
        if any(question.name == other.name for other in questions[:number]):
            reader.refuse(("question", str(number), "name"), f'a second question is called "{question.name}"')
    return questions


def _question(reader: Reader, path: tuple[str, ...], table: Mapping[str, Any]) -> Question | None:
    before = len(reader.problems)
    word = table.get("judge")
    cls = JUDGES.get(word) if isinstance(word, str) else None
    if cls is None:
        what = f"found {shown(word)}, wants the name of a judge" if "judge" in table else "missing"
        reader.refuse(
            (*path, "judge"),
            what,
            did_you_mean(word, JUDGES) if isinstance(word, str) else f"one of {', '.join(JUDGES)}",
        )
    common, own = keys_of(Common), keys_of(cls) if cls else {}
    if cls:
        reader.unknown(path, table, ("judge", *common, *own))
    values: dict[str, Any] = {
        name: reader.value((*path, name), table[name], known.kind)
        for name, known in {**common, **own}.items()
        if name in table
    }
    for name, known in {**common, **own}.items():
        if known.required and name not in table:
            reader.refuse((*path, name), "missing")
    if cls is None or len(reader.problems) > before:
        return None
    judge = cls(**{name: value for name, value in values.items() if name in own})
    shared = {name: value for name, value in values.items() if name in common}
    if shared.get("timeout") == 0:
        reader.refuse((*path, "timeout"), "found no time at all, wants some for a reply")
    for place, what, hint in _faults(judge):
        reader.refuse((*path, *place), what, hint)
    return Question(**shared, judge=judge, origin=reader.document.origin(path))


def _faults(judge: Any) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield what is wrong with the keys of a judge together: the key, what, and what to do."""
    match judge:
        case KnownAnswer():
            given = [
                name for name in ("equals", "contains", "matches", "number") if getattr(judge, name) not in (None, ())
            ]
            if len(given) != 1:
                found = " and ".join(given) or "none"
                yield (), f"found {found}", "say what is right by one of equals, contains, matches and number"
            if judge.matches is not None and _finds_nothing(judge.matches):
                yield ("matches",), "fits an empty answer too, so every answer", "write what must be there"
        case Repeatable(times=times) if times < 2:
            yield ("times",), f"found {times}, wants at least 2", "one answer alone repeats nothing"
        case Counting() if not -(10**6) <= judge.first < judge.last <= 10**6 or judge.last - judge.first > 1000:
            yield ("last",), f"found {judge.first} to {judge.last}", "count up, and over at most 1000 numbers"
        case Counting() if "{first}" not in judge.ask or "{last}" not in judge.ask:
            yield ("ask",), "lacks {first} or {last}", "they stand for the numbers"
        case Needle(depth=depth) if not 0 <= depth <= 1:
            yield ("depth",), f"found {depth:g}, wants a number from 0 to 1", ""
        case Acceptance(least=least) if not 0 <= least <= 1:
            yield ("least",), f"found {least:g}, wants a number from 0 to 1", ""


def _finds_nothing(pattern: str) -> bool:
    try:
        return finds(pattern, "")
    except ExplodedError:
        return False


def asked(recipe: Iterable[Question], own: Iterable[Question], skip: Iterable[str]) -> tuple[Question, ...]:
    """Return the questions of a start: one of the file takes the place of the recipe's of the same name."""
    chosen = {question.name: question for question in recipe}
    chosen.update({question.name: question for question in own})
    for name in skip:
        chosen.pop(name, None)
    return tuple(chosen.values())


def expected_texts(question: Question) -> tuple[str, ...]:
    """Return what the model must be able to write for this question."""
    fields = {field.name for field in dataclasses.fields(question.judge)}
    texts: list[str] = []
    for name in fields & {"equals", "contains", "answers"}:
        value = getattr(question.judge, name)
        if name == "answers":
            texts += [answer for _, answer in value]
        elif value:
            texts += [value] if isinstance(value, str) else value
    return tuple(texts)


def written(question: Question) -> dict[str, Any]:
    """Return a question as its file has it: the keys that are not as they would be anyway."""
    table: dict[str, Any] = {"name": question.name, "judge": question.kind}
    for owner, cls in ((question, Common), (question.judge, type(question.judge))):
        for name, known in keys_of(cls).items():
            value = getattr(owner, name)
            if value != known.default or known.required:
                table[name] = known.kind.write(value)
    return table
