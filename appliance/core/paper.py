"""The examination paper of a start: which questions are asked, and of what."""

import dataclasses
import hashlib
import posixpath

from appliance.core.baseline import Identity
from appliance.core.config import Config
from appliance.core.facts import Facts
from appliance.core.judge import Fingerprint, ServedNames
from appliance.core.question import Question, asked
from appliance.core.recipe import Recipe
from appliance.core.resolution import served_model_names


def questions_for(config: Config, recipe: Recipe) -> tuple[Question, ...]:
    """Return the questions of a configuration, with what follows from it filled in."""
    of_recipe = recipe.questions if config.selftest.recipe_questions else ()
    names = served_model_names(config, recipe)
    # None where the file says something else than a list: then it is refused, and what else it says is judged.
    chosen = asked(of_recipe, config.questions, config.selftest.skip or ())
    return tuple(_placed(question, recipe.share, names) for question in chosen)


def _placed(question: Question, share: str, names: tuple[str, ...]) -> Question:
    judge = question.judge
    if isinstance(judge, Fingerprint):
        judge = dataclasses.replace(judge, reference=posixpath.join(share, judge.reference))
    elif isinstance(judge, ServedNames) and not judge.names:
        judge = dataclasses.replace(judge, names=names)
    return dataclasses.replace(question, judge=judge)


def references(config: Config, recipe: Recipe) -> tuple[str, ...]:
    """Return the files that questions hold answers against."""
    judges = (question.judge for question in questions_for(config, recipe))
    return tuple(judge.reference for judge in judges if isinstance(judge, Fingerprint))


def identity_of(facts: Facts, model: str, settings: str = "") -> Identity | None:
    """Return what answers come from; None where engine or checkpoint are unknown."""
    checkpoint = facts.about(model)
    if checkpoint is None or facts.engine is None:
        return None
    content = hashlib.sha256((checkpoint.config or "").encode())
    for file in checkpoint.weights:
        content.update(f"\0{file.name}\0{file.bytes}".encode())
    names = sorted(gpu.name for gpu in facts.gpus or ())
    hardware = ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
    on_gpu = hardware and facts.engine.device != "cpu"
    return Identity(
        source=model,
        checkpoint=content.hexdigest()[:16],
        engine=facts.engine.id,
        hardware=hardware if on_gpu else "cpu",
        settings=hashlib.sha256(settings.encode()).hexdigest()[:16],
    )
