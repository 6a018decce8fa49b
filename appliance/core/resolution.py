"""The values of one launch by name: what a person says, else the last layout row that applies, else the recipe."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from appliance.core.config import Config
from appliance.core.fabric import Cluster
from appliance.core.facts import Facts
from appliance.core.formula import FORMULAS
from appliance.core.kind import NotYetError, UnfitError, shown
from appliance.core.knob import fitted
from appliance.core.problem import Problem, did_you_mean, place_of
from appliance.core.recipe import BUILT_IN, Recipe, Row, Template
from appliance.core.record import record
from appliance.core.setting import Setting, Variable, plain, setting_value
from appliance.core.template import filled, formulas_in, names_in

UNSEEN = object()
"""Stands for a value that can't be told: a wrong one, or one of a machine that was not looked at."""

HUMAN = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?)([kKmMgGtT])\s*")
SCALE = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""How vLLM reads the ends of numbers: small letters count in thousands."""

CHOSEN = {
    "gpu_devices": ("[gpu] devices", "[gpu] count"),
    "gpu_count": ("[gpu] count",),
    "nodes": ("[cluster] nodes",),
    "fabric_layout": ("[cluster] fabric_layout",),
    "cluster": ("[cluster] host_address", "[cluster] subnets", "[cluster] head", "[cluster] role"),
    "model": ("[model] source",),
    "checkpoint": ("[model] source",),
}
"""Keys of the sections behind names that are built in."""


class UnseenError(UnfitError):
    """A value that can't be told; where it is wrong, a problem was noted, and nothing that depends on it adds one."""


@record
class _Entry:
    """One value before its names are replaced."""

    key: str
    """As people write about it: `[knobs] scales`."""
    raw: Any
    origin: str
    given: bool
    """True when a person wrote it: it is then taken as it stands."""
    setting: Setting | None = None


class Resolution:
    """Looks names up, each once; collects what is wrong on the way."""

    def __init__(
        self, config: Config, recipe: Recipe, facts: Facts | None, broken: frozenset[str] = frozenset()
    ) -> None:
        """Take the values; those of `broken` are known to be wrong, and nothing that depends on them is judged."""
        self.problems: list[Problem] = []
        self.config = config
        self._recipe = recipe
        self._facts = facts
        self._known: dict[str, Any] = dict.fromkeys(broken, UNSEEN)
        self._used: set[str] = set()
        self._open: list[str] = []
        self._entries: dict[str, _Entry] = {}
        self._variables: dict[str, Variable] = {}
        self._take_recipe()
        self._take_person()
        self.cluster = self._cluster()
        self._take_rows()
        self._refuse_unknown_knobs()

    def _take_recipe(self) -> None:
        recipe = self._recipe
        for knob in recipe.knobs:
            raw = None if knob.default is None else json.loads(knob.default)
            self._entries[knob.name] = _Entry(key=f"[knobs] {knob.name}", raw=raw, origin=knob.origin, given=False)
        self._replace("values", recipe.shared)
        self._replace("vllm", recipe.vllm)
        self._replace("env", recipe.env)

    def _replace(self, section: str, templates: Iterable[Template]) -> None:
        for template in templates:
            entry = self._entries.get(template.name)
            if not (entry and entry.given):
                self._entries[template.name] = _Entry(
                    key=f"[{section}] {template.name}", raw=template.raw, origin=template.origin, given=False
                )

    def _take_person(self) -> None:
        config = self.config
        knobs = {knob.name: knob for knob in self._recipe.knobs}
        for choice in config.knobs:
            key = f"[knobs] {choice.name}"
            if choice.name in knobs:
                try:
                    raw = fitted(knobs[choice.name], plain(choice.value))
                except UnfitError as error:
                    self.refuse(choice.origin, key, str(error))
                    self._known[choice.name] = UNSEEN
                else:
                    self._entries[choice.name] = _Entry(key=key, raw=raw, origin=choice.origin, given=True)
        for setting in config.vllm:
            self._entries[setting.name] = _Entry(
                key=f"[vllm] {setting.name}",
                raw=meant(setting),
                origin=setting.origin,
                given=True,
                setting=setting,
            )
        for variable in config.env:
            self._variables[variable.name] = variable
            self._entries[variable.name] = _Entry(
                key=f"[env] {variable.name}", raw=variable.value, origin=variable.origin, given=True
            )

    def _refuse_unknown_knobs(self) -> None:
        names = [knob.name for knob in self._recipe.knobs]
        for choice in self.config.knobs:
            if choice.name not in names:
                what = f"recipe {self._recipe.id} has no such knob"
                self.refuse(choice.origin, f"[knobs] {choice.name}", what, did_you_mean(choice.name, names))

    def _cluster(self) -> Cluster:
        own, choice = self._recipe.cluster, self.config.cluster
        nodes, layout = choice.nodes or own.nodes, choice.fabric_layout or "mesh"
        if nodes not in own.allowed:
            allowed = ", ".join(map(str, own.allowed))
            key = "[cluster] nodes"
            self.refuse(self.config.origin(key), key, f"recipe {self._recipe.id} is made for {allowed}, found {nodes}")
        if layout == "ring" and nodes not in own.ring:
            rings = ", ".join(map(str, own.ring)) or "none"
            key = "[cluster] fabric_layout"
            what = f"a ring of {nodes} machines is none that recipe {self._recipe.id} is made for: {rings}"
            self.refuse(self.config.origin(key), key, what)
        return Cluster(
            nodes=nodes,
            layout=layout,
            host_address=choice.host_address,
            head=choice.head,
            role=choice.role,
            subnets=choice.subnets,
        )

    def _take_rows(self) -> None:
        for row in self._recipe.rows:
            if self.applies(row.when):
                self._take_row(row)

    def _take_row(self, row: Row) -> None:
        self._replace("knobs", row.knobs)
        self._replace("vllm", row.vllm)
        self._replace("env", row.env)

    def applies(self, when: tuple[tuple[str, str], ...]) -> bool:
        """Tell whether every name has the wanted value."""
        return all(_same(self._plainly(name), json.loads(wanted)) for name, wanted in when)

    def _plainly(self, name: str) -> Any:
        self._used.add(name)
        if name in ("nodes", "fabric_layout"):
            return self.cluster.nodes if name == "nodes" else self.cluster.layout
        entry = self._entries.get(name)
        return entry.raw if entry else None

    def idle(self) -> Iterator[str]:
        """Yield the keys of [knobs], [gpu] and [cluster] that a person set and nothing asked for."""
        names = {knob.name for knob in self._recipe.knobs}
        yield from (f"[knobs] {choice.name}" for choice in self.config.knobs if choice.name in names - self._used)
        asked = {key for name in self._used for key in CHOSEN.get(name, ())} | {"[gpu] devices", "[cluster] nodes"}
        keys = dict.fromkeys(key for some in CHOSEN.values() for key in some if key.startswith(("[gpu]", "[cluster]")))
        yield from (key for key in keys if key in dict(self.config.origins) and key not in asked)

    def refuse(self, origin: str, key: str, what: str, hint: str = "", *, transient: bool = False) -> None:
        """Note a problem."""
        file, line = place_of(origin)
        problem = Problem(file=file, line=line, key=key, what=what, hint=hint, transient=transient)
        if problem not in self.problems:
            self.problems.append(problem)

    def value(self, name: str) -> Any:
        """Return a value; None when it is not set. Raises UnseenError when it can't be told."""
        self._used.add(name)
        if name not in self._known:
            try:
                self._known[name] = self._found(name)
            except UnseenError:
                self._known[name] = UNSEEN
        if self._known[name] is UNSEEN:
            raise UnseenError(f"{name} can't be told")
        return self._known[name]

    def _found(self, name: str) -> Any:
        if name in BUILT_IN:
            return self._built_in(name)
        entry = self._entries.get(name)
        if entry is None or entry.given:
            return entry.raw if entry else None
        if name in self._open:
            circle = " -> ".join((*self._open[self._open.index(name) :], name))
            self.refuse(entry.origin, entry.key, f"depends on itself: {circle}")
            raise UnseenError(circle)
        self._open.append(name)
        try:
            return self.filled(entry.raw)
        except UnseenError:
            raise
        except UnfitError as error:
            self._blame(entry, error)
            raise UnseenError(str(error)) from None
        finally:
            self._open.pop()

    def filled(self, raw: Any) -> Any:
        """Return a value of the recipe with its names replaced. Raises UnfitError."""
        try:
            return filled(raw, self.value, FORMULAS)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            if isinstance(error, UnfitError):
                raise
            raise UnfitError(f"can't be told from {', '.join(sorted(names_in(raw)))}: {error}") from None

    def _blame(self, entry: _Entry, error: UnfitError) -> None:
        """Place a problem at what a person wrote and it depends on, or else at the recipe."""
        origin, key = self._guilty(entry.raw) or (entry.origin, entry.key)
        note = "" if key == entry.key else f"{entry.key}: "
        self.refuse(origin, key, f"{note}{error}", transient=isinstance(error, NotYetError))

    def _guilty(self, raw: Any) -> tuple[str, str] | None:
        """Return origin and key of the nearest value of a person that something depends on; None for none."""
        chosen = dict(self.config.origins)
        seen: set[str] = set()
        ahead = sorted(names_in(raw))
        while ahead:
            name = ahead.pop(0)
            seen.add(name)
            entry = self._entries.get(name)
            if entry and entry.given:
                return entry.origin, entry.key
            for key in CHOSEN.get(name, ()):
                if key in chosen:
                    return chosen[key], key
            ahead += sorted(names_in(entry.raw) - seen) if entry else []
        return None

    def blame_rule(self, raw: Any, what: str, hint: str = "", *, transient: bool = False) -> None:
        """Place what a rule or a file of the recipe says at the person's value that it depends on, or at the file."""
        origin, key = self._guilty(raw) or (self.config.recipe_origin, f"recipe {self._recipe.id}")
        self.refuse(origin, key, what, hint, transient=transient)

    def _built_in(self, name: str) -> Any:
        config, recipe, engine = self.config, self._recipe, self._facts.engine if self._facts else None
        match name:
            case "model":
                return model_folder(config, recipe)
            case "served_model_names":
                return list(served_model_names(config, recipe))
            case "host" | "port":
                return getattr(config.api, name)
            case "cache":
                return config.paths.cache
            case "share":
                return recipe.share
            case "engine_tree":
                return (engine.tree if engine else None) or f"{engine_folder(config, self._facts)}/vllm"
            case "gpu_devices" | "gpu_count":
                own = recipe.gpu.devices
                devices = list(config.gpu.devices or map(str, own or ()))[: config.gpu.count] or None
                return devices if name == "gpu_devices" else config.gpu.count
            case "nodes" | "fabric_layout":
                return self._plainly(name)
            case "head":
                return self.cluster.head
            case _:
                return self._of_machine(name)

    def _of_machine(self, name: str) -> Any:
        facts = self._facts
        if facts is None:
            raise UnseenError("the machine was not looked at")
        if name == "facts":
            return facts
        if name == "cluster":
            return self.cluster
        if name == "checkpoint":
            return facts.about(model_folder(self.config, self._recipe))
        return next((gpu.compute_capability for gpu in facts.gpus or ()), None)

    def settings(self) -> Iterator[Setting]:
        """Return the flags: the recipe's in their order, then those of rows, then the person's own."""
        for name in self._names("vllm"):
            entry = self._entries[name]
            value = self.seen(name)
            if value is None:
                continue
            if entry.setting is not None:
                yield entry.setting
                continue
            try:
                yield Setting(name=name, value=setting_value(_listed(value)), origin=self._origin(entry))
            except UnfitError as error:
                self._blame(entry, error)

    def variables(self) -> Iterator[Variable]:
        """Return the variables in the same order."""
        for name in self._names("env"):
            entry = self._entries[name]
            value = self.seen(name)
            if name in self._variables:
                yield self._variables[name]
            elif value is not None:
                text = str(int(value)) if isinstance(value, bool) else str(value)
                yield Variable(name=name, value=text, origin=self._origin(entry))

    def seen(self, name: str) -> Any:
        """Return a value; None when it is not set or can't be told."""
        try:
            return self.value(name)
        except UnseenError:
            return None

    def text(self, raw: str) -> str | None:
        """Return a text of the recipe with its names replaced; None when one is not set or can't be told."""
        try:
            found = self.filled(raw)
        except UnfitError:
            return None
        return None if found is None else str(found)

    def _names(self, section: str) -> list[str]:
        return [name for name, entry in self._entries.items() if entry.key.startswith(f"[{section}] ")]

    def _origin(self, entry: _Entry) -> str:
        formulas = " and ".join(sorted(formulas_in(entry.raw)))
        names = ", ".join(sorted(names_in(entry.raw)))
        return f"{entry.origin} ({formulas} of {names})" if formulas else entry.origin


def _same(found: Any, wanted: Any) -> bool:
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)


def meant(setting: Setting) -> Any:
    """Return what a person's flag is for formulas: the text of a number is one there, and that of JSON a table.

    >>> [meant(Setting(name="x", value=value, origin="")) for value in ("4k", "1K", "8", "1e9", '{"a": 1}', "auto")]
    [4000, 1024, 8, 1000000000.0, {'a': 1}, 'auto']
    """
    text = setting.value
    if not isinstance(text, str):
        return plain(text)
    if human := HUMAN.fullmatch(text):
        number = float(human[1]) * SCALE[human[2]]
        return int(number) if number.is_integer() else number
    for number_of in (int, float):  # as vLLM's parser reads them, with exponents, underscores, inf and all
        try:
            return number_of(text)
        except ValueError:
            continue
    try:
        return json.loads(text) if text.lstrip()[:1] in {"{", "["} else text
    except (ValueError, RecursionError):
        return text


def _listed(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, (str, int, float, bool, list, dict)):
        return value
    raise UnfitError(f"found {shown(value)}, which no flag can hold")


def model_folder(config: Config, recipe: Recipe) -> str | None:
    """Return the folder of the checkpoint; None when neither file nor recipe names one."""
    chosen, source = config.model.source, recipe.model.source
    if chosen:
        return chosen if chosen.startswith("/") else f"{config.paths.models}/{chosen}"
    if source is None:
        return None
    return source if source.startswith("/") else f"{recipe.share}/{source}"


def served_model_names(config: Config, recipe: Recipe) -> tuple[str, ...]:
    """Return the names that clients ask for, else that of the checkpoint's folder; the self-test uses the first."""
    folder = (model_folder(config, recipe) or "").rstrip("/").rpartition("/")[2]
    return config.model.served_model_name or (recipe.model.served_model_name or folder or recipe.id,)


def engine_folder(config: Config, facts: Facts | None) -> str:
    """Return the folder of the engine: the one that was found, else where it should be."""
    if facts is not None and facts.engine is not None:
        return facts.engine.folder
    return f"{config.paths.engines}/{config.engine.use or 'current'}"
