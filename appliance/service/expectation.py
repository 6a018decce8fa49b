"""What a file's questions expect, held against what the model could answer at all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appliance.core.alphabet import unwritable
from appliance.core.codec import record_of
from appliance.core.config import Config
from appliance.core.fingerprint import Reference
from appliance.core.judge import Fingerprint, Structured, ToolCall
from appliance.core.problem import Problem, RefusedError, place_of
from appliance.core.question import Question, expected_texts
from appliance.core.recipe import Recipe
from appliance.core.resolution import model_folder
from appliance.selftest.form import schema_fault
from appliance.service.textfile import bounded

LARGEST_TOKENIZER = 1 << 26
"""Bytes; those of 250,000 tokens have some 20 MB."""

LARGEST_REFERENCE = 1 << 24


def unmeetable(config: Config, recipe: Recipe) -> Iterator[Problem]:
    """Yield what no answer of the model could meet, in the questions of the files."""
    tokenizer: dict[str, Any] | None = None
    for question in config.questions:
        for name, fault, hint in _faults(question, recipe):
            yield _problem(question, name, fault, hint)
        texts = expected_texts(question)
        if texts and tokenizer is None:
            tokenizer = _tokenizer(model_folder(config, recipe))
        for text in texts:
            lost = unwritable(tokenizer or {}, text)
            either = unwritable(tokenizer or {}, text.swapcase())
            if lost and either:
                what = f'"{text[:40]}" can\'t be answered: no token of the model makes "{lost[:20]}"'
                yield _problem(question, "judge", what, "expect what the model can write")


def _problem(question: Question, name: str, what: str, hint: str) -> Problem:
    file, line = place_of(question.origin)
    return Problem(file=file, line=line, key=f"[[question]] {question.name} {name}", what=what, hint=hint)


def _tokenizer(folder: str | None) -> dict[str, Any]:
    """Return the table of a model's tokenizer.json; empty where it has none that can be read."""
    try:
        found = json.loads(bounded(Path(folder or "/nonexistent", "tokenizer.json"), LARGEST_TOKENIZER))
    except (RefusedError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _faults(question: Question, recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    match question.judge:
        case Fingerprint(reference=reference):
            file = Path(recipe.share, reference)
            hint = "make it with `vllm-serve checkpoint fingerprint`"
            try:
                record_of(Reference, bounded(file, LARGEST_REFERENCE).decode("utf-8"))
            except RefusedError as refused:
                yield "reference", refused.problems[0].what, hint
            except (ValueError, RecursionError) as error:
                yield "reference", f"{file} is no reference: {error}", hint
        case ToolCall(parameters=schema):
            if fault := schema_fault(schema):
                yield "parameters", fault, ""
        case Structured(schema=schema):
            if fault := schema_fault(schema):
                yield "schema", fault, ""
        case _:
            return
