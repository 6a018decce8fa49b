"""The self-test of this machine's model: its questions, and what its operator accepted."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from appliance.core.baseline import Baseline, Identity, nearest
from appliance.core.codec import json_of, record_of
from appliance.core.plan import Plan
from appliance.core.problem import RefusedError
from appliance.core.question import Question
from appliance.selftest.baseline import questions_from
from appliance.selftest.examination import Examination
from appliance.service.textfile import bounded, problem_with

LARGEST_BASELINE = 1 << 24
"""Bytes; one of a model with vectors of 8,192 numbers has a megabyte."""

FORGET = "`vllm-serve selftest --forget` removes it, then accept the model again with --record"


def examination_of(plan: Plan, *, light: bool = False) -> Examination:
    """Return what is asked of the engine of a plan. Raises RefusedError where a baseline can't be read."""
    identity = plan.identity
    own = plan.questions
    asked = (*own, *accepted_questions(Path(plan.baselines), identity)) if plan.baselines and identity else own
    if light:
        asked = tuple(question for question in asked if question.light)
    return Examination(model=plan.served_model_name, questions=asked, budget=plan.budget)


def accepted_questions(folder: Path, identity: Identity) -> Iterator[Question]:
    """Yield the questions that follow from what was accepted. Raises RefusedError where it can't be read."""
    found = dict(_baselines(folder, identity.source))
    if baseline := nearest(tuple(found), identity):
        yield from questions_from(baseline, identity, str(found[baseline]))


def _baselines(folder: Path, source: str) -> Iterator[tuple[Baseline, Path]]:
    """Yield those of a model; what is wrong with a file of another model is no matter here."""
    for file in _files(folder):
        if not file.name.startswith(_digest(source)):
            continue
        text = bounded(file, LARGEST_BASELINE)
        try:
            yield record_of(Baseline, text.decode("utf-8")), file
        except (ValueError, RecursionError) as error:
            raise RefusedError([problem_with(file, f"no baseline: {error}", FORGET)]) from None


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RefusedError([problem_with(folder, f"can't be read: {error.strerror}")]) from None


def file_of(folder: Path, identity: Identity) -> Path:
    """Return where the baseline of an identity is kept."""
    return folder / f"{_digest(identity.source)}-{_digest(json_of(identity))}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def keep(baseline: Baseline, folder: Path) -> Path:
    """Write a baseline at once, for the service to read. Raises OSError."""
    if not folder.is_dir():
        folder.mkdir(parents=True)
        folder.chmod(0o755)  # the operator's umask is not for what the service must read
    file = file_of(folder, baseline.identity)
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".baseline.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(json_of(baseline) + "\n")
            os.fchmod(descriptor, 0o644)
            stream.flush()
            os.fsync(descriptor)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def forget(folder: Path, source: str) -> tuple[Path, ...]:
    """Remove every baseline of a model, also one that can't be read; return which. Raises OSError."""
    ours = tuple(file for file in _files(folder) if file.name.startswith(_digest(source)))
    for file in ours:
        file.unlink()
    return ours
