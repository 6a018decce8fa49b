"""Which models a version of vLLM loads, by the name of their architecture in config.json."""

from collections.abc import Iterator
from typing import Any

from appliance.core.record import record
from appliance.core.shape import shape_of, table_of

GENERATE, POOLING, TRANSCRIPTION = "generate", "pooling", "transcription"

NOWHERE = ("timm", "terratorch")
"""Libraries that neither engine of this package has; the others are only missing beside the CPU's."""


@record
class ArchitectureList:
    """What a version of vLLM knows; made from its own registry."""

    vllm: str
    generate: tuple[str, ...]
    pooling: tuple[str, ...]
    transcription: tuple[str, ...]
    draft: tuple[str, ...]
    lacking: tuple[tuple[str, str], ...]
    """Architectures and the library without which their code can't be imported."""
    removed: tuple[tuple[str, str], ...]
    """Architectures and the last version of vLLM that had them."""
    plugin: tuple[tuple[str, str], ...]
    """Architectures and where their plugin is."""
    suffixes: tuple[tuple[str, str], ...]
    """Endings of names, in vLLM's order, and what a model of that ending does."""
    transformers: tuple[str, ...]
    """Those that vLLM tries with the code of Transformers."""

    def kind(self, name: str) -> str | None:
        """Return what a model of this very name does; None for one that is not in the registry."""
        known = {GENERATE: self.generate, POOLING: self.pooling, TRANSCRIPTION: self.transcription}
        return next((kind for kind, names in known.items() if name in names), None)


def architecture_of(config: str | None) -> str | None:
    """Return the first architecture that a config.json names; None when it names none.

    >>> architecture_of('{"architectures": ["LlamaForCausalLM"]}'), architecture_of('{"architectures": 3}')
    ('LlamaForCausalLM', None)
    """
    found = table_of(config).get("architectures")
    return found[0] if isinstance(found, list) and found and isinstance(found[0], str) else None


def refusal_of(config: str | None, known: ArchitectureList, device: str, *, own_code: bool = False) -> str | None:
    """Return why vLLM can't load a model; None when it can, or its config.json names no architecture.

    `own_code` says that a person lets vLLM load code that is not its own, which may know more.
    """
    name = architecture_of(config)
    if name is None:
        return None
    if name in known.draft:
        return f"{name} is a draft model, which serves only beside another"
    if known.kind(name):
        library = dict(known.lacking).get(name)
        missing = library is not None and (device == "cpu" or library in NOWHERE)
        return f"{name} needs {library}, which this engine lacks" if missing else None
    return None if own_code else _unlisted(name, table_of(config), known)


def _unlisted(name: str, table: Any, known: ArchitectureList) -> str | None:
    if version := dict(known.removed).get(name):
        return f"vLLM {known.vllm} no longer has {name}; {version} was the last that had it"
    if address := dict(known.plugin).get(name):
        return f"{name} is not in vLLM but in a plugin of it, {address}"
    if table.get("is_encoder_decoder") is True:
        return f"{name} is an encoder and a decoder, which vLLM {known.vllm} does not load"
    if any(known.kind(other) for other in _converted(name, known)) or name in known.transformers:
        return None
    if table.get("auto_map"):
        return f"{name} needs code of its own, which lies beside its weights and is not run"
    return f"vLLM {known.vllm} does not know {name}"


def _converted(name: str, known: ArchitectureList) -> Iterator[str]:
    """Return the names that vLLM tries instead: the same model with another ending (registry.py:1270)."""
    ending = next((ending for ending, _ in known.suffixes if name.endswith(ending)), None)
    if ending is not None:
        yield from (name.removesuffix(ending) + other for other, _ in known.suffixes)


def slow_way_of(config: str | None, known: ArchitectureList) -> str | None:
    """Return what a person should know of a model that vLLM loads with the code of Transformers."""
    name = architecture_of(config)
    own = name and (name in known.draft or known.kind(name) or any(map(known.kind, _converted(name, known))))
    if name is None or own or name not in known.transformers:
        return None
    return f"vLLM {known.vllm} has no code of its own for {name} and uses that of Transformers, which is slower"


def kind_of(config: str | None, known: ArchitectureList, *, pooled: bool = False) -> str:
    """Return what a model does, as vLLM decides it: generate, pooling or transcription.

    `pooled` says that its folder has a modules.json, the mark of sentence-transformers (config/model.py:1270).
    """
    name = architecture_of(config) or ""
    own = known.kind(name)
    if pooled and own != TRANSCRIPTION:
        return POOLING
    return own or next((kind for ending, kind in known.suffixes if name.endswith(ending)), GENERATE)


FLOORS = {"awq": "7.5", "gptq": "6.0", "fp8": "7.5", "modelopt": "8.0", "nvfp4": "7.5", "compressed-tensors": "7.0"}
"""Compute capability below which vLLM refuses a method (get_min_capability of each; config/vllm.py:896)."""


def unfit_quantization(config: str | None, device: str, capabilities: tuple[str, ...]) -> str | None:
    """Return why the quantized weights can't be computed with; None when they can, or nobody knows.

    >>> unfit_quantization('{"quantization_config": {"quant_method": "awq"}}', "cuda", ("7.0",))
    'awq weights need a GPU of compute capability 7.5, found 7.0'
    """
    method = shape_of(config).quantization
    if device == "cpu":
        reasons = {"nvfp4": "no kernel for a CPU", "fp8": "no kernel for a CPU without AMX tiles"}
        return f"vLLM has {reasons[method]} and {method} weights" if method in reasons else None
    floor = FLOORS.get(method or "")
    low = [found for found in capabilities if floor and _level(found) < _level(floor)]
    return f"{method} weights need a GPU of compute capability {floor}, found {low[0]}" if low else None


def _level(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split(".") if part.isdigit())
