"""What is known of a model on a kind of hardware: a table that a person reads from top to bottom."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from appliance.core.config import RESERVED_FLAGS, RESERVED_VARIABLES, VARIABLE_NAME, reserved_flag
from appliance.core.document import Reader, document_of
from appliance.core.formula import FORMULAS
from appliance.core.kind import COUNT, COUNTS, FLAG, TEXT, TEXTS
from appliance.core.knob import Knob, knobs_of
from appliance.core.problem import RefusedError, did_you_mean
from appliance.core.question import Question, questions_of
from appliance.core.record import key, record
from appliance.core.template import formulas_in, misshapen, names_in

BUILT_IN = (
    *("model", "served_model_names", "host", "port", "cache", "share", "engine_tree", "gpu_devices", "gpu_count"),
    *("nodes", "fabric_layout", "head", "compute_capability", "facts", "cluster", "checkpoint"),
)
"""Names that every recipe can use beside its own: places and choices of vllm-serve.toml, and what the machine is."""

Part = TypeVar("Part")

PLACED = {"host": "{host}", "port": "{port}", "served_model_name": "{served_model_names}"}
"""Flags of vllm-serve's own that a recipe may only put in their place in the command line."""


@record
class RecipeModel:
    """[model] of a recipe."""

    source: str | None = key("folder of the checkpoint; a relative one lies in the package's data", TEXT, default=None)
    served_model_name: str | None = key("name that clients ask for", TEXT, default=None)


@record
class RecipeEngine:
    """[engine] of a recipe: the vLLM that it needs when the stock one will not do."""

    name: str | None = key("who makes it; absent for stock vLLM", TEXT, default=None)
    flags: tuple[str, ...] = key("flags that only it takes", TEXTS, default=())
    variables: tuple[str, ...] = key(
        "variables that only it reads; a * at the end stands for the rest", TEXTS, default=()
    )
    stock_knob: str | None = key("knob that lets an engine without any overlay start", TEXT, default=None)
    exclusive: tuple[str, ...] = key("flags that extra_args must not give a second time", TEXTS, default=())


@record
class RecipeCluster:
    """[cluster] of a recipe: for how many machines it is made."""

    nodes: int = key("machines, when the file does not say", COUNT, default=1)
    allowed: tuple[int, ...] = key("numbers of machines that it is tuned for", COUNTS, default=(1,))
    ring: tuple[int, ...] = key("those that may be cabled in a ring without a switch", COUNTS, default=())


@record
class RecipeGpu:
    """[gpu] of a recipe."""

    devices: tuple[int, ...] | None = key("indexes in PCI order", COUNTS, default=None)


@record
class Template:
    """A flag or a variable as the recipe writes it."""

    name: str
    text: str
    """JSON of what stands in the recipe, with its `{names}` and formulas."""
    origin: str

    @property
    def raw(self) -> Any:
        """What stands in the recipe."""
        return json.loads(self.text)


@record
class Row:
    """A [[layout]]: values for one case, replacing the recipe's key by key."""

    when: tuple[tuple[str, str], ...]
    """Names and the JSON of what they must be."""
    knobs: tuple[Template, ...]
    vllm: tuple[Template, ...]
    env: tuple[Template, ...]
    origin: str


@record
class NeededFile:
    """A [[file]] that the engine reads beside the weights."""

    path: str = key("where it lies", TEXT)
    doc: str = key("what it is for and what goes wrong without it", TEXT)
    remedy: str = key("what to do when it is missing", TEXT)
    before_plan: bool = key("a command line without it makes no sense, so no plan is made", FLAG, default=False)


@record
class NeededValue:
    """A [[checkpoint]]: something that config.json must say."""

    config_key: str = key("key of config.json, with dots", TEXT)
    value: str = key("what it must be", TEXT)
    remedy: str = key("what to do when it is not", TEXT)


@record
class Overlay:
    """An [[overlay]]: a file that a patched engine has and the stock one has not."""

    name: str = key("what people call it", TEXT)
    file: str | None = key("below the engine's site-packages", TEXT, default=None)
    variable: str | None = key("one that switches it on, where no file tells", TEXT, default=None)


@record
class Folder:
    """A [[folder]] that the engine writes to."""

    path: str = key("made before a launch", TEXT)
    fresh: bool = key("emptied before each launch", FLAG, default=False)


@record
class Rule:
    """A [[rule]]: a formula that says what is wrong with values together, or nothing."""

    formula: str = key("its name", TEXT)
    of: tuple[str, ...] = key("names of the values that it looks at", TEXTS)
    refuse: bool = key("an error; otherwise a warning", FLAG, default=True)


@record
class Recipe:
    """One file of recipes/, or of /etc/vllm-serve/recipes/."""

    id: str
    summary: str
    file: str
    share: str
    """Folder of the package's data, where relative paths start."""
    model: RecipeModel
    engine: RecipeEngine
    cluster: RecipeCluster
    gpu: RecipeGpu
    knobs: tuple[Knob, ...]
    shared: tuple[Template, ...]
    """[values]: what several settings share."""
    vllm: tuple[Template, ...]
    env: tuple[Template, ...]
    unset: tuple[str, ...]
    """Variables that the engine must not inherit; a * at the end stands for the rest."""
    rows: tuple[Row, ...]
    files: tuple[tuple[NeededFile, tuple[tuple[str, str], ...]], ...]
    """With the case in which each is needed."""
    values: tuple[NeededValue, ...]
    overlays: tuple[Overlay, ...]
    folders: tuple[tuple[Folder, tuple[tuple[str, str], ...]], ...]
    rules: tuple[Rule, ...]
    questions: tuple[Question, ...]


TABLES = {"model": RecipeModel, "engine": RecipeEngine, "cluster": RecipeCluster, "gpu": RecipeGpu}
LISTS = {"checkpoint": NeededValue, "overlay": Overlay, "rule": Rule}
KEYS = (
    "id",
    "summary",
    "knobs",
    "values",
    "vllm",
    "env",
    "unset",
    "layout",
    "file",
    "folder",
    "question",
    *TABLES,
    *LISTS,
)


def recipe_of(text: str, file: str, share: str = "/usr/share/vllm-serve") -> Recipe:
    """Read the text of a recipe. Raises RefusedError with every problem in it."""
    document = document_of(text, file)
    reader = Reader(document)
    reader.unknown((), document.table, KEYS)
    identity, summary = (reader.required((name,), document.table, TEXT) for name in ("id", "summary"))
    single: dict[str, Any] = {name: reader.record(cls, (name,), reader.table((name,))) for name, cls in TABLES.items()}
    lists: dict[str, Any] = {
        name: tuple(reader.record(cls, path, table) for path, table in _tables(reader, name))
        for name, cls in LISTS.items()
    }
    knobs, shared = knobs_of(reader, ("knobs",)), _templates(reader, ("values",), reader.table(("values",)))
    vllm, env = _flags(reader, ("vllm",), reader.table(("vllm",))), _variables(reader, ("env",), reader.table(("env",)))
    rows = tuple(_row(reader, path, table) for path, table in _tables(reader, "layout"))
    files, folders = _conditional(reader, "file", NeededFile), _conditional(reader, "folder", Folder)
    unset = reader.value(("unset",), document.table.get("unset", []), TEXTS) or ()
    questions = _questions(reader)
    known = _refuse_unknown_names(reader, knobs, shared, (*vllm, *env), rows)
    _refuse_loose_ends(reader, known, lists["rule"], single["cluster"])
    _raise_in_order(reader)
    return Recipe(
        id=str(identity),
        summary=str(summary),
        file=file,
        share=share,
        knobs=knobs,
        shared=shared,
        vllm=vllm,
        env=env,
        unset=unset,
        rows=rows,
        files=files,
        values=lists["checkpoint"],
        overlays=lists["overlay"],
        folders=folders,
        rules=lists["rule"],
        questions=questions,
        **single,
    )


def _questions(reader: Reader) -> tuple[Question, ...]:
    if not reader.document.table.get("question"):
        reader.refuse(("question",), "missing", "a recipe asks at least one question")
    return questions_of(reader)


def _raise_in_order(reader: Reader) -> None:
    if reader.problems:
        raise RefusedError(sorted(reader.problems, key=lambda problem: problem.line or 0))


def _tables(reader: Reader, name: str) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    found = reader.document.table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        reader.refuse((name,), "wants tables", f"write [[{name}]] on a line of its own")
        return
    yield from (((name, str(number)), table) for number, table in enumerate(found))


def _flags(reader: Reader, path: tuple[str, ...], table: Mapping[str, Any]) -> tuple[Template, ...]:
    for name, raw in table.items():
        reserved = reserved_flag(name.replace("-", "_"))
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            reader.refuse((*path, name), "not the name of a flag", "write it as vLLM does, with _")
        elif reserved and PLACED.get(name) != raw:
            place = f'; a recipe may place it: {name} = "{PLACED[name]}"' if name in PLACED else ""
            reader.refuse((*path, name), f"vllm-serve sets --{reserved} itself", RESERVED_FLAGS[reserved] + place)
    return _templates(reader, path, table)


def _variables(reader: Reader, path: tuple[str, ...], table: Mapping[str, Any]) -> tuple[Template, ...]:
    for name in table:
        if not VARIABLE_NAME.match(name):
            reader.refuse((*path, name), "not the name of an environment variable")
        elif RESERVED_VARIABLES.fullmatch(name) and name != "PYTHONPATH":
            reader.refuse((*path, name), "vllm-serve sets this variable itself")
    return _templates(reader, path, table)


def _templates(reader: Reader, path: tuple[str, ...], table: Mapping[str, Any]) -> tuple[Template, ...]:
    templates = []
    for name, raw in table.items():
        origin = reader.document.origin((*path, name))
        if fault := misshapen(raw):
            reader.refuse((*path, name), fault)
            continue
        for formula in sorted(formulas_in(raw) - set(FORMULAS)):
            reader.refuse((*path, name), f"there is no formula {formula}", did_you_mean(formula, FORMULAS))
        try:
            templates.append(Template(name=name, text=json.dumps(raw, allow_nan=False), origin=origin))
        except (TypeError, ValueError, RecursionError):
            reader.refuse((*path, name), "wants strings, finite numbers, booleans, lists and tables")
    return tuple(templates)


def _when(reader: Reader, path: tuple[str, ...], table: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = table.get("when", {})
    if not isinstance(found, dict):
        reader.refuse((*path, "when"), "wants a table", 'write when = { name = "value" }')
        return ()
    plain = all(isinstance(value, (str, int, float)) for value in found.values())
    if not plain:
        reader.refuse((*path, "when"), "wants plain values")
        return ()
    return tuple((name, json.dumps(value)) for name, value in found.items())


def _row(reader: Reader, path: tuple[str, ...], table: Mapping[str, Any]) -> Row:
    reader.unknown(path, table, ("when", "knobs", "vllm", "env"))
    parts = {name: table.get(name, {}) for name in ("knobs", "vllm", "env")}
    for name, part in parts.items():
        if not isinstance(part, dict):
            reader.refuse((*path, name), "wants a table", f"write [layout.{name}]")
            parts[name] = {}
    if not table.get("when"):
        reader.refuse(path, "a row without a case", 'write when = { name = "value" }')
    return Row(
        when=_when(reader, path, table),
        knobs=_templates(reader, (*path, "knobs"), parts["knobs"]),
        vllm=_flags(reader, (*path, "vllm"), parts["vllm"]),
        env=_variables(reader, (*path, "env"), parts["env"]),
        origin=reader.document.origin(path),
    )


def _conditional(reader: Reader, name: str, cls: type[Part]) -> tuple[tuple[Part, tuple[tuple[str, str], ...]], ...]:
    """Read a list of tables, each with the case in which it counts."""
    found = []
    for path, table in _tables(reader, name):
        rest = {key: value for key, value in table.items() if key != "when"}
        found.append((reader.record(cls, path, rest), _when(reader, path, table)))
    return tuple((part, when) for part, when in found if part)


def _refuse_unknown_names(
    reader: Reader,
    knobs: tuple[Knob, ...],
    shared: tuple[Template, ...],
    own: tuple[Template, ...],
    rows: tuple[Row, ...],
) -> set[str]:
    """Refuse names that nobody defines, and knobs that hide something else; return those that are defined."""
    templates = (*own, *(template for row in rows for template in (*row.vllm, *row.env)))
    taken = {*BUILT_IN, *(template.name for template in templates)}
    names = [knob.name for knob in knobs] + [template.name for template in shared]
    for name in names:
        if name in taken or names.count(name) > 1:
            reader.refuse(("knobs", name), "names a flag, a variable or something built in", "call it otherwise")
    known = taken | set(names)
    defaults = ((("knobs", knob.name), json.loads(knob.default)) for knob in knobs if knob.default)
    for path, raw in (*defaults, *((("vllm", template.name), template.raw) for template in (*shared, *templates))):
        for name in sorted(names_in(raw) - known):
            reader.refuse(path, f"there is no {name}", did_you_mean(name, known))
    for number, row in enumerate(rows):
        for name in sorted(
            {name for name, _ in row.when} - known | {template.name for template in row.knobs} - set(names)
        ):
            reader.refuse(("layout", str(number)), f"there is no {name}", did_you_mean(name, known))
    return known


def _refuse_loose_ends(
    reader: Reader, known: set[str], rules: tuple[Rule | None, ...], cluster: RecipeCluster | None
) -> None:
    """Refuse names and formulas of the lists of tables that nobody defines, and numbers that contradict each other."""
    for number, rule in enumerate(rules):
        if rule and rule.formula not in FORMULAS:
            what = f"there is no formula {rule.formula}"
            reader.refuse(("rule", str(number), "formula"), what, did_you_mean(rule.formula, FORMULAS))
        for name in sorted(set(rule.of) - known if rule else ()):
            reader.refuse(("rule", str(number), "of"), f"there is no {name}", did_you_mean(name, known))
    for section in ("file", "folder"):
        for path, table in _tables(reader, section):
            names = names_in(table.get("path")) | set(table["when"] if isinstance(table.get("when"), dict) else ())
            for name in sorted(names - known):
                reader.refuse((*path, "path"), f"there is no {name}", did_you_mean(name, known))
    if cluster and (cluster.nodes not in cluster.allowed or set(cluster.ring) - set(cluster.allowed)):
        reader.refuse(("cluster",), "nodes and ring must be among allowed")
