"""Is there a checkpoint, and is it whole? vLLM's own messages for this come late or say nothing."""

from collections.abc import Iterator

from appliance.core.finding import Finding, Severity
from appliance.core.situation import Situation


def checkpoint_named(situation: Situation) -> Iterator[Finding]:
    """The file or the recipe names a checkpoint."""
    if situation.config.model.source is None and situation.recipe.model.source is None:
        yield Finding(
            id="checkpoint.source",
            severity=Severity.ERROR,
            summary=f"recipe {situation.recipe.id} serves any checkpoint, and none is named",
            remedy='set [model] source = "/path/of/the/checkpoint"',
        )


def files_present(situation: Situation) -> Iterator[Finding]:
    """The folder exists and has what every checkpoint has."""
    checkpoint = situation.facts.checkpoint
    if checkpoint is None:
        reason = situation.facts.why_unread("checkpoint")
        if reason:
            yield Finding(
                id="checkpoint.folder",
                severity=Severity.ERROR,
                summary=reason,
                remedy="set [model] source to the folder that holds config.json, or let the user vllm-serve read it",
            )
        return
    if checkpoint.missing:
        yield Finding(
            id="checkpoint.files",
            severity=Severity.ERROR,
            summary=f"{checkpoint.folder} lacks {', '.join(checkpoint.missing)}",
            remedy="fetch the whole checkpoint",
        )


def weights_whole(situation: Situation) -> Iterator[Finding]:
    """Every file of weights has a header that describes the file exactly."""
    checkpoint = situation.facts.checkpoint
    for weights in checkpoint.weights if checkpoint else ():
        if weights.fault:
            yield Finding(
                id="checkpoint.weights",
                severity=Severity.ERROR,
                summary=f"{weights.name} in {checkpoint.folder if checkpoint else ''}: {weights.fault}",
                remedy="fetch this file again",
            )


def recipe_files(situation: Situation) -> Iterator[Finding]:
    """Every file that the engine reads beside the weights is there."""
    for path, meaning in situation.plan.files if situation.plan else ():
        if situation.facts.has_file(path) is False:
            yield Finding(
                id="checkpoint.recipe-files",
                severity=Severity.ERROR,
                summary=f"there is no {path}: {meaning.doc}",
                remedy=meaning.remedy,
            )
