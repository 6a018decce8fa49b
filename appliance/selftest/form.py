"""Judges of answers that must have a form: tool calls, JSON, thoughts apart from content."""

import itertools
import json
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import jsonschema

from appliance.core.judge import Reasoning, Structured, ToolCall
from appliance.core.kind import UnfitError
from appliance.core.pattern import PATTERN, ExplodedError, finds
from appliance.core.reply import shortened
from appliance.selftest.answer import cut_off
from appliance.selftest.talk import Talk
from appliance.selftest.verdict import Judgement, right, unknown, wrong


async def tool_call(judge: ToolCall, talk: Talk) -> Judgement:
    """Find one call of the tool whose arguments are those that must come."""
    function = {"name": judge.tool, "description": judge.description, "parameters": json.loads(judge.parameters)}
    answer = await talk.said(judge, tools=[{"type": "function", "function": function}], tool_choice="auto")
    expected = f"{judge.tool} {judge.arguments}"
    if not answer.calls:
        return cut_off(answer, judge.max_tokens, talk) or wrong(answer.text, expected, "no tool is called")
    found = "; ".join(f"{name} {arguments}" for name, arguments in answer.calls)
    if len(answer.calls) != 1 or answer.calls[0][0] != judge.tool:
        return wrong(found, expected, "another call")
    try:
        given = json.loads(answer.calls[0][1])
    except (ValueError, RecursionError):
        return wrong(found, expected, "the arguments are not JSON")
    if _is_same(given, json.loads(judge.arguments)):
        return right(found, expected)
    return wrong(found, expected, "other arguments")


def _is_same(one: object, other: object) -> bool:
    """Tell whether two values of JSON are the same: 5 is 5.0, but true is not 1.

    >>> _is_same({"a": [5]}, {"a": [5.0]}), _is_same({"a": 1}, {"a": True})
    (True, False)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(itertools.starmap(_is_same, zip(one, other, strict=True)))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


async def structured(judge: Structured, talk: Talk) -> Judgement:
    """Hold the answer against the schema that was asked for."""
    schema = json.loads(judge.schema)
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    answer = await talk.said(judge, response_format=wanted)
    if cut := cut_off(answer, judge.max_tokens, talk):
        return cut
    try:
        given = json.loads(answer.text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return wrong(answer.text, "JSON")
    try:
        VALIDATOR(schema).validate(given)
    except RecursionError:
        return unknown("the answer, or a reference in its schema to itself, is nested too deeply")
    except ExplodedError as error:
        return unknown(str(error))
    except (jsonschema.RefResolutionError, ArithmeticError, re.error) as error:
        return unknown(f"the schema can't be held against the answer: {shortened(str(error))}")
    except jsonschema.ValidationError as error:
        return wrong(answer.text, "an answer that fits its schema", shortened(error.message))
    return right(answer.text)


def _no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which are no JSON. Raises ValueError."""
    raise ValueError(f"{name} is no JSON")


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Hold a text against a pattern as the other judges do: with a time limit, and one kind of expression."""
    if isinstance(instance, str) and not finds(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


VALIDATOR: Any = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})


def schema_fault(schema: str) -> str:
    """Return what is wrong with a JSON Schema; empty when it is one that can be held against an answer."""
    table = json.loads(schema)
    try:
        jsonschema.Draft202012Validator.check_schema(table)
        if any(True for _ in (*_values(table, "$dynamicRef"), *_inner_ids(table))):
            return "a $dynamicRef, or an $id inside of it, which are not followed"
        for pointer in _values(table, "$ref"):
            if not _leads_somewhere(table, str(pointer)):
                return f"a reference to nothing in it: {shortened(str(pointer), 60)}"
        named = [pattern for patterns in _values(table, "patternProperties") for pattern in patterns]
        for pattern in (*_values(table, "pattern"), *named):
            PATTERN.read(pattern)
        for pattern in named:
            re.compile(pattern)  # names are held against it by Python's own
        VALIDATOR(table).is_valid({})
    except jsonschema.SchemaError as error:
        return f"not a JSON Schema: {shortened(error.message)}"
    except (UnfitError, re.error) as error:
        return f"a pattern that can't be used: {error}"
    except RecursionError:
        return "a reference to itself"
    return ""


def _inner_ids(table: Any) -> Iterator[Any]:
    """Yield the identifiers of parts of a schema: references below them mean something else."""
    parts = table.values() if isinstance(table, dict) else ()
    return (found for part in parts for found in _values(part, "$id") if isinstance(found, str))


def _leads_somewhere(table: Any, pointer: str) -> bool:
    """Tell whether a JSON pointer finds something in a schema; nothing is fetched for one."""
    start, *parts = pointer.split("/")
    for part in parts:
        name = urllib.parse.unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(table, list) and name.isdecimal() and int(name[:9]) < len(table):
            table = table[int(name)]
        elif isinstance(table, dict) and name in table:
            table = table[name]
        else:
            return False
    return start == "#"


def _values(table: object, name: str) -> Iterator[Any]:
    """Yield what a key of this name holds, anywhere in a value of JSON."""
    if isinstance(table, dict):
        yield from (value for key, value in table.items() if key == name)
    for part in table.values() if isinstance(table, dict) else table if isinstance(table, list) else ():
        yield from _values(part, name)


async def reasoning(judge: Reasoning, talk: Talk) -> Judgement:
    """Find thoughts in their own field, and none in the content."""
    answer = await talk.once(judge)
    if cut := cut_off(answer, judge.max_tokens, talk):
        return cut
    if answer.text != answer.content:
        return wrong(answer.content, why="thoughts in the content")
    if not answer.thoughts.strip():
        return wrong(answer.content, why="no thoughts beside the answer")
    fits = not judge.contains or any(part.casefold() in answer.text.casefold() for part in judge.contains)
    return right(answer.text) if fits else wrong(answer.text, " or ".join(judge.contains))
