"""What a person decides: the description of vllm-serve.toml and its reading."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from appliance.core.document import LARGEST_FILE, Document, Reader, document_of, shown_key
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
from appliance.core.question import Question, questions_of
from appliance.core.record import keys_of, record
from appliance.core.section import (
    SECTIONS,
    Api,
    ClusterChoice,
    EngineChoice,
    GpuChoice,
    Log,
    ModelChoice,
    Paths,
    Patience,
    Reload,
    Restart,
    SelfTest,
    Top,
)
from appliance.core.setting import Setting, Variable

# What others take from here although it is at home elsewhere.
__all__ = ["RESERVED_FLAGS", "RESERVED_VARIABLES", "SECRET_NAME", "VARIABLE_NAME", "reserved_flag"]

LARGEST_SUM = 1 << 20
"""Characters in all files together."""


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
    selftest: SelfTest
    reload: Reload
    restart: Restart
    patience: Patience
    log: Log
    paths: Paths
    questions: tuple[Question, ...] = ()
    """Those of [[question]], each name once."""
    origins: tuple[tuple[str, str], ...] = ()
    """`recipe` or `[section] key`, and the `file:line` that sets it, for the keys that are known."""

    def origin(self, key: str) -> str:
        """Return where a key is set; the file as a whole when it is not."""
        return dict(self.origins).get(key, self.file)


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
    questions: tuple[Question, ...]
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
    known = (*keys_of(Top), *OPEN_SECTIONS, *SECTIONS, "question")
    homes = {key: f"write it under [{name}]" for name, cls in SECTIONS.items() for key in keys_of(cls)}
    for name in table.keys() & homes.keys() - set(known):
        reader.refuse((name,), "unknown key", homes[name])
    reader.unknown((), (name for name in table if name not in homes), known)
    sections = {name: reader.values(cls, (name,), reader.table((name,))) for name, cls in SECTIONS.items()}
    sections[""] = reader.values(Top, (), {name: table[name] for name in keys_of(Top) if name in table})
    arguments = sections["engine"].get("extra_args") or ()
    refuse_reserved_arguments(reader, ("engine", "extra_args"), arguments)
    found = {name: read(reader, (name,)) for name, read in OPEN_SECTIONS.items()}
    questions = questions_of(reader)
    problems = tuple(reader.problems)
    return _Part(document=document, sections=sections, open=found, questions=questions, problems=problems)


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
    questions = {question.name: question for part in parts for question in part.questions}
    return Config(
        file=parts[0].document.file,
        files=tuple(part.document.file for part in parts),
        recipe=top.recipe,
        recipe_origin=origins.get("recipe", parts[0].document.file),
        questions=tuple(questions.values()),
        origins=tuple(origins.items()),
        **fields,
    )
