"""Does this vLLM load a model of this kind, and can its answers be tested? It would say so late, or not at all."""

from collections.abc import Iterator

from appliance.core.architecture import GENERATE, kind_of, refusal_of, slow_way_of, unfit_quantization
from appliance.core.finding import Finding, Severity
from appliance.core.fitting import accelerator, device_of
from appliance.core.judge import Embedding, Rerank, Task, Transcription
from appliance.core.kind import UnfitError
from appliance.core.situation import Situation

FOR_OTHERS = (Task, Embedding, Rerank, Transcription)
"""Judges of models that do not generate text."""


def architecture_loads(situation: Situation) -> Iterator[Finding]:
    """The engine knows the model's architecture."""
    known, config = situation.architectures, _config(situation)
    if known is None or config is None or _argument(situation, "--hf-overrides") is not None:
        return
    own_code = _argument(situation, "--trust-remote-code") is not None or _has_plugins(situation)
    id_ = "checkpoint.architecture"
    if reason := refusal_of(config, known, _device(situation), own_code=own_code):
        remedy = "serve another model, or one that was converted for this engine"
        yield Finding(id=id_, severity=Severity.ERROR, summary=reason, remedy=remedy)
    elif note := slow_way_of(config, known):
        yield Finding(id=id_, severity=Severity.WARNING, summary=note)


def answers_testable(situation: Situation) -> Iterator[Finding]:
    """A question that stands before READY can be asked of this kind of model."""
    known, checkpoint = situation.architectures, situation.facts.checkpoint
    if known is None or checkpoint is None or checkpoint.config is None:
        return
    if refusal_of(checkpoint.config, known, _device(situation), own_code=True):
        return
    runner = _argument(situation, "--runner")
    pooled = situation.facts.has_file(f"{checkpoint.folder.rstrip('/')}/modules.json") is True
    kind = kind_of(checkpoint.config, known, pooled=pooled)
    kind = runner if runner in ("pooling", "generate") else kind
    if kind != GENERATE and not _asks_others(situation):
        what = f"this is a model for {kind}, and no question of the self-test can be asked of it"
        remedy = 'add a [[question]] with judge = "task", or take recipe = "generic", which asks for what a model can'
        yield Finding(id="checkpoint.kind", severity=Severity.ERROR, summary=what, remedy=remedy)
    elif kind == GENERATE and runner is None and any(word in checkpoint.folder.lower() for word in ("embed", "rerank")):
        what = f"{checkpoint.folder} looks like a model for embeddings or ranking, and vLLM takes it for a generator"
        remedy = "fetch its modules.json too, or set runner in [vllm]"
        yield Finding(id="checkpoint.kind", severity=Severity.WARNING, summary=what, remedy=remedy)


def _asks_others(situation: Situation) -> bool:
    questions = situation.plan.questions if situation.plan else ()
    return any(question.gate and isinstance(question.judge, FOR_OTHERS) for question in questions)


def quantization_computes(situation: Situation) -> Iterator[Finding]:
    """The device has kernels for the way in which the weights are quantized."""
    if situation.architectures is None or (config := _config(situation)) is None:
        return
    if reason := unfit_quantization(config, _device(situation), _capabilities(situation)):
        remedy = "serve the model with other weights, or on another device"
        yield Finding(id="checkpoint.quantization", severity=Severity.ERROR, summary=reason, remedy=remedy)


def _config(situation: Situation) -> str | None:
    return situation.facts.checkpoint.config if situation.facts.checkpoint else None


def _device(situation: Situation) -> str:
    try:
        return device_of(situation.facts)
    except UnfitError:
        return "cuda"


def _capabilities(situation: Situation) -> tuple[str, ...]:
    gpu = situation.config.gpu
    try:
        found = accelerator(situation.facts, gpu.devices, gpu.count)
    except UnfitError:
        return ()
    return tuple(one.compute_capability for one in found.gpus if one.compute_capability) if found else ()


def _argument(situation: Situation, flag: str) -> str | None:
    """Return what stands behind a flag of the command line; None when the flag is not there."""
    argv = situation.plan.argv if situation.plan else ()
    for argument, following in zip(argv, (*argv[1:], ""), strict=True):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == flag:
            return value if equals else following
    return None


def _has_plugins(situation: Situation) -> bool:
    variables = situation.plan.env if situation.plan else ()
    return any(variable.name == "VLLM_PLUGINS" and variable.value for variable in variables)
