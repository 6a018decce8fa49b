"""What a person decides: the description of vllm-serve.toml and its reading."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from appliance.core.document import LARGEST_FILE, Document, Reader, document_of, shown_key
from appliance.core.kind import (
    ADDRESS,
    DEVICES,
    FLAG,
    HOST,
    MODEL,
    NAME,
    NAMES,
    PATH,
    PORT,
    POSITIVE,
    SPAN,
    SUBNETS,
    TEXT,
    TEXTS,
    one_of,
)
from appliance.core.opentable import (
    RESERVED_FLAGS,
    RESERVED_VARIABLES,
    SECRET_NAME,
    VARIABLE_NAME,
    chosen_knobs,
    refuse_reserved_arguments,
    reserved_flag,
    settings_of,
    variables_of,
)
from appliance.core.problem import Problem, RefusedError
from appliance.core.record import key, keys_of, record
from appliance.core.setting import Setting, Variable

# What others take from here although it is at home elsewhere.
__all__ = ["RESERVED_FLAGS", "RESERVED_VARIABLES", "SECRET_NAME", "VARIABLE_NAME", "reserved_flag"]

LARGEST_SUM = 1 << 20
"""Characters in all files together."""

THE_RECIPES = "the recipe's"


@record
class Top:
    """Above all sections."""

    recipe: str = key(
        "The settings to start from: a model on a kind of hardware, or `generic` for any model that vLLM serves. "
        "`demo` serves a tiny demonstration model on the CPU and needs nothing else.",
        TEXT,
        default="generic",
    )


@record
class ModelChoice:
    """[model]: which model, and by which name."""

    source: str | None = key(
        "The folder of the model: the one that holds config.json. NAME or ORG/NAME lies below [paths] models.",
        MODEL,
        default=None,
        absent=THE_RECIPES,
        example="/data/models/NAME",
    )
    served_model_name: tuple[str, ...] = key(
        "The name that clients ask for, or a list of several. The self-test asks for the first.",
        NAMES,
        default=(),
        absent="the recipe's, else the name of the model's folder",
        example="NAME",
    )


@record
class Api:
    """[api]: where the OpenAI-compatible API listens."""

    host: str = key(
        "The address to listen on; 127.0.0.1 is this machine only, 0.0.0.0 every IPv4 address of it.",
        ADDRESS,
        default="127.0.0.1",
    )
    port: int = key("The TCP port.", PORT, default=8000)
    allow_unauthenticated: bool = key(
        "Say true to listen on an address that other machines reach while no key is asked of them.", FLAG, default=False
    )


@record
class EngineChoice:
    """[engine]: which installed vLLM, and arguments that no other key covers."""

    use: str | None = key(
        "The ID of an installed engine, as `vllm-serve engine list` prints it.",
        NAME,
        default=None,
        absent="the one installed last, or chosen by `vllm-serve engine use`",
        example="vllm-0.32.0-cuda-py3.11-0123abcd",
    )
    auto_install: bool = key("Whether a start of the unit installs an engine where there is none.", FLAG, default=True)
    extra_args: tuple[str, ...] = key(
        "Arguments for the end of the command line of `vllm serve`, for what no other key covers.",
        TEXTS,
        default=(),
        example=["--kv-cache-dtype", "fp8"],
    )


@record
class GpuChoice:
    """[gpu]: which GPUs the engine may use."""

    devices: tuple[str, ...] | None = key(
        "A list of indexes, in the order of nvidia-smi, or of UUIDs, GPU-...",
        DEVICES,
        default=None,
        absent="the recipe's, else all",
        example=[0, 1],
    )
    count: int | None = key(
        "How many GPUs, of those in devices where it names any.", POSITIVE, default=None, absent="all", example=2
    )


@record
class ClusterChoice:
    """[cluster]: several machines that serve one model together. All but host_address is the same on each of them."""

    nodes: int | None = key("How many machines.", POSITIVE, default=None, absent=THE_RECIPES, example=2)
    head: str | None = key(
        "The machine that serves the API, by its IP address or host name.",
        HOST,
        default=None,
        absent="the machines elect one",
        example="10.0.0.1",
    )
    role: str = key(
        "What this machine is: head, worker, or auto, which tells it by the address of the head.",
        one_of("auto", "head", "worker"),
        default="auto",
    )
    host_address: str | None = key(
        "The address by which the others know this machine.",
        ADDRESS,
        default=None,
        absent="the first that no RDMA port carries",
        example="10.0.0.2",
    )
    subnets: tuple[str, ...] = key(
        'The networks between the machines, one for each cabled port, as "10.10.1.0/24" or by the start of their '
        'addresses, "10.10.1.".',
        SUBNETS,
        default=(),
        absent="those of the addresses that RDMA ports carry",
        example=["10.10.1.0/24", "10.10.2.0/24"],
    )
    fabric_layout: str | None = key(
        "How the machines are cabled: mesh, each reaches each, as through a switch; ring, each to two others.",
        one_of("mesh", "ring"),
        default=None,
        absent="a mesh",
        example="ring",
    )


@record
class Reload:
    """[reload]: how `systemctl reload` changes the engine."""

    rollback: bool = key(
        "Whether the last good settings are put back when the new ones do not serve.", FLAG, default=True
    )


@record
class Log:
    """[log]: a copy of the engine's output beside the journal."""

    file: str | None = key(
        "A file in /var/log/vllm-serve for the copy. Files there that end in .log are rotated.",
        PATH,
        default=None,
        absent="no copy; the output goes to the journal anyway",
        example="/var/log/vllm-serve/engine.log",
    )


@record
class Paths:
    """[paths]: where things lie that are not in their usual place. See vllm-serve(8) before you change one."""

    engines: str = key(
        "The folder of the engines. It belongs to root; for another one, the unit that installs needs leave to write.",
        PATH,
        default="/var/lib/vllm-serve/engines",
    )
    models: str = key("The folder of the models.", PATH, default="/var/lib/vllm-serve/models")
    cache: str = key(
        "The folder of what the engine compiles and tunes; it may be emptied, then the next start takes longer.",
        PATH,
        default="/var/cache/vllm-serve/engine",
    )


@record
class Patience:
    """[patience]: how long a phase may last before it counts as stuck."""

    loading: float = key("The longest silence of an engine that loads.", SPAN, default=1800.0)
    stopping: float = key("The time between asking the engine to stop and killing it.", SPAN, default=20.0)


@record
class Config:
    """Everything that a vllm-serve.toml says, with its drop-ins."""

    file: str
    files: tuple[str, ...]
    """All files that were read, in their order; the first is `file`."""
    recipe: str
    recipe_origin: str
    model: ModelChoice
    vllm: tuple[Setting, ...]
    knobs: tuple[Setting, ...]
    env: tuple[Variable, ...]
    api: Api
    engine: EngineChoice
    gpu: GpuChoice
    cluster: ClusterChoice
    reload: Reload
    patience: Patience
    log: Log
    paths: Paths
    origins: tuple[tuple[str, str], ...] = ()
    """`recipe` or `[section] key`, and the `file:line` that sets it, for the keys that are known."""

    def origin(self, key: str) -> str:
        """Return where a key is set; the file as a whole when it is not."""
        return dict(self.origins).get(key, self.file)


SECTIONS: Mapping[str, type[Any]] = {
    "model": ModelChoice,
    "api": Api,
    "engine": EngineChoice,
    "gpu": GpuChoice,
    "cluster": ClusterChoice,
    "reload": Reload,
    "patience": Patience,
    "log": Log,
    "paths": Paths,
}
"""The sections with known keys."""

Opened = tuple[Setting, ...] | tuple[Variable, ...]

OPEN_SECTIONS: Mapping[str, Callable[[Reader, tuple[str, ...]], Opened]] = {
    "vllm": settings_of,
    "knobs": chosen_knobs,
    "env": variables_of,
}
"""The sections that take any name, and how they are read."""

ORDER = ("model", "vllm", "knobs", "env", *(name for name in SECTIONS if name != "model"))
"""All sections, as a person reads them."""


@record
class _Part:
    """What one of the files says, by the names of Config's fields and of theirs; the top level's section is ""."""

    document: Document
    sections: Mapping[str, Mapping[str, Any]]
    open: Mapping[str, Opened]
    problems: tuple[Problem, ...]


class ConfigRefusedError(RefusedError):
    """Files that can't be used, with what they say beside their mistakes."""

    def __init__(self, problems: Iterable[Problem], rest: Config | None) -> None:
        super().__init__(problems)
        self.rest = rest
        """None where nothing could be read."""


def config_of(text: str, file: str) -> Config:
    """Read the text of a vllm-serve.toml. Raises RefusedError with every problem in it."""
    return config_from([(file, text)])


def config_from(texts: Sequence[tuple[str, str]], unread: Iterable[Problem] = ()) -> Config:
    """Read files, each a name and a text: every key of a later one replaces that of an earlier one.

    Raises RefusedError with every problem in them, and with those of the files that could not be read.
    """
    problems = list(unread)
    sizes = (len(text) for _, text in texts)
    if (size := sum(size for size in sizes if size <= LARGEST_FILE)) > LARGEST_SUM:
        what = f"{size} characters with its drop-ins, at most {LARGEST_SUM}"
        raise RefusedError([*problems, Problem(file=texts[0][0], line=None, key="", what=what)])
    parts = []
    for file, text in texts:
        try:
            parts.append(_part(document_of(text, file)))
        except RefusedError as refused:
            problems += refused.problems
    problems += (problem for part in parts for problem in part.problems)
    problems += [] if problems else _contradictions(parts)
    if problems:
        order = {file: number for number, (file, _) in enumerate(texts)}
        told = sorted(problems, key=lambda p: (order.get(p.file, len(order)), p.file, p.line or 0))
        raise ConfigRefusedError(told, _merged(parts) if parts else None)
    return _merged(parts)


def _part(document: Document) -> _Part:
    reader = Reader(document)
    table = document.table
    known = (*keys_of(Top), *OPEN_SECTIONS, *SECTIONS)
    homes = {key: f"write it under [{name}]" for name, cls in SECTIONS.items() for key in keys_of(cls)}
    for name in table.keys() & homes.keys() - set(known):
        reader.refuse((name,), "unknown key", homes[name])
    reader.unknown((), (name for name in table if name not in homes), known)
    sections = {name: reader.values(cls, (name,), reader.table((name,))) for name, cls in SECTIONS.items()}
    sections[""] = reader.values(Top, (), {name: table[name] for name in keys_of(Top) if name in table})
    arguments = sections["engine"].get("extra_args") or ()
    refuse_reserved_arguments(reader, ("engine", "extra_args"), arguments)
    found = {name: read(reader, (name,)) for name, read in OPEN_SECTIONS.items()}
    return _Part(document=document, sections=sections, open=found, problems=tuple(reader.problems))


def _contradictions(parts: Sequence[_Part]) -> Iterator[Problem]:
    """Yield what is wrong only together, placed at the key that was set last."""
    gpu = [(part, name, value) for part in parts for name, value in part.sections["gpu"].items()]
    found = {name: value for _, name, value in gpu}
    if "count" in found and found["count"] > len(found.get("devices") or range(found["count"])):
        part, name, _ = gpu[-1]
        what = f"count is {found['count']}, and devices names {len(found['devices'])}"
        yield part.document.problem(("gpu", name), what, "lower count, or name more devices")


def _merged(parts: Sequence[_Part]) -> Config:
    sections: dict[str, dict[str, Any]] = {name: {} for name in ("", *SECTIONS)}
    origins: dict[str, str] = {}
    opened: dict[str, dict[str, Any]] = {name: {} for name in OPEN_SECTIONS}
    for part in parts:
        for section, values in part.sections.items():
            sections[section].update(values)
            for name in values:
                path = (section, name) if section else (name,)
                origins[shown_key(path)] = part.document.origin(path)
        for section, found in part.open.items():
            opened[section].update((entry.name, entry) for entry in found)
    top = Top(**sections[""])
    fields: dict[str, Any] = {name: tuple(found.values()) for name, found in opened.items()}
    fields |= {name: cls(**sections[name]) for name, cls in SECTIONS.items()}
    return Config(
        file=parts[0].document.file,
        files=tuple(part.document.file for part in parts),
        recipe=top.recipe,
        recipe_origin=origins.get("recipe", parts[0].document.file),
        origins=tuple(origins.items()),
        **fields,
    )
