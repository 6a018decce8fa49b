"""From what a person wants and what the machine has to the command that starts vLLM; pure."""

import json
import posixpath
import re
from collections.abc import Iterator, Sequence

from appliance.core.baseline import Identity
from appliance.core.config import Config, reserved_flag
from appliance.core.facts import Facts
from appliance.core.kind import NotYetError, UnfitError
from appliance.core.paper import identity_of, questions_for, references
from appliance.core.policy import Policy
from appliance.core.problem import Problem, RefusedError
from appliance.core.question import Question
from appliance.core.recipe import Folder, NeededFile, Recipe, Rule
from appliance.core.record import record
from appliance.core.resolution import Resolution, UnseenError, engine_folder, model_folder, served_model_names
from appliance.core.setting import Setting, Variable, arguments_of

UNSET = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "CREDENTIALS_DIRECTORY",
    "JOURNAL_STREAM",
    "INVOCATION_ID",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
)
"""Variables of the supervisor that the engine must not see: it would speak to systemd for us, or load other code."""

DEFAULT_ENV = (
    ("DO_NOT_TRACK", "1"),
    ("HF_HUB_OFFLINE", "1"),
    ("PYTHONNOUSERSITE", "1"),
    ("PYTHONSAFEPATH", "1"),
    ("PYTHONUNBUFFERED", "1"),
    ("VLLM_NO_USAGE_STATS", "1"),
)
"""No telemetry; no look-ups at a hub for a checkpoint that is a folder; every line of the log at once."""

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the engine finds compilers; its own bin, with ninja, comes first."""


AMOUNTS = ("gpu_memory_utilization", "kv_cache_memory_bytes")
"""Flags that follow from what memory is free at the moment, and change no answer."""

SHORTEST = 5.0
"""Seconds; the questions of a tiny model take one or two."""

SLACK = 60.0
"""Seconds beyond its budget in which a self-test must have ended by itself."""


@record
class Plan:
    """One launch of the engine, complete."""

    argv: tuple[str, ...]
    env: tuple[Variable, ...]
    """Variables to set, each name once."""
    unset: tuple[str, ...]
    """Variables that must not be inherited; a * at the end stands for the rest of a name."""
    prefix: tuple[str, ...]
    """Command words before argv, such as numactl's; empty when none are needed."""
    settings: tuple[Setting, ...]
    model_folder: str
    served_model_name: str
    host: str
    port: int
    questions: tuple[Question, ...]
    log_file: str | None
    policy: Policy
    budget: float = 300.0
    """Seconds for all questions together."""
    identity: Identity | None = None
    """What the answers come from; None where nothing is known of the checkpoint."""
    baselines: str = ""
    """The folder of what the operator accepted."""
    folders: tuple[Folder, ...] = ()
    """Made before the launch."""
    files: tuple[tuple[str, NeededFile], ...] = ()
    """Files that the engine reads beside the weights: where each lies, and why it is needed."""
    notes: tuple[str, ...] = ()
    """What a person should know of these values together."""

    @property
    def base_url(self) -> str:
        """Where this machine reaches the API, without a trailing slash."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  # a look-up, not a bind
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def api_key(self) -> str | None:
        """The key that the engine asks for, where its command line has one."""
        return api_key_in(self.argv)


def api_key_in(argv: Sequence[str]) -> str | None:
    """Return the key in a command line; vLLM keeps the last."""
    keys = [
        value if equals else following
        for argument, following in zip(argv, (*argv[1:], ""), strict=False)
        for flag, equals, value in (argument.partition("="),)
        if flag.startswith("--") and reserved_flag(flag[2:]) == "api_key"
    ]
    return keys[-1] if keys else None


def build(config: Config, recipe: Recipe, facts: Facts) -> Plan:
    """Return the launch. Raises RefusedError with everything that makes it impossible.

    Without an engine in the facts the plan names the place where it should be.
    """
    resolution = Resolution(config, recipe, facts)
    settings, own = tuple(resolution.settings()), tuple(resolution.variables())
    model = _model(resolution, config, recipe)
    notes = tuple(_broken_rules(resolution, recipe))
    files = tuple(_needed_files(resolution, recipe, facts))
    notes += (*_wrong_values(resolution, recipe, facts), *_impatience(config, settings))
    _require_overlays(resolution, recipe, facts)
    _refuse_repeated(resolution, config, recipe, settings)
    folders = tuple(_folders(resolution, recipe))
    notes += tuple(f"{key} has no effect with recipe {recipe.id} and the other values" for key in resolution.idle())
    questions = _questions(resolution, config, recipe)
    if resolution.problems or model is None:
        raise RefusedError(resolution.problems)
    folder = engine_folder(config, facts)
    return Plan(
        argv=(*_argv(config, recipe, folder, model, settings), *config.engine.extra_args),
        env=_environment(folder, (*_visible(config), *own)),
        unset=(*UNSET, *recipe.unset),
        prefix=(),
        settings=settings,
        model_folder=model,
        served_model_name=served_model_names(config, recipe)[0],
        host=config.api.host,
        port=config.api.port,
        questions=questions,
        log_file=config.log.file,
        policy=_policy(config),
        budget=config.selftest.budget,
        identity=identity_of(facts, model, _launch(settings, own, config.engine.extra_args)),
        baselines=config.paths.baselines,
        folders=folders,
        files=files,
        notes=notes,
    )


def _launch(settings: tuple[Setting, ...], own: tuple[Variable, ...], extra: tuple[str, ...]) -> str:
    """Return what may change the answers of an engine, as one text."""
    lasting = (setting for setting in settings if setting.name not in AMOUNTS)
    flags = [argument for setting in lasting for argument in arguments_of(setting)]
    return "\0".join([*flags, *(f"{variable.name}={variable.value}" for variable in own), *extra])


def _model(resolution: Resolution, config: Config, recipe: Recipe) -> str | None:
    model = model_folder(config, recipe)
    if model is None:
        key, hint = "[model] source", 'set [model] source = "/path/of/the/checkpoint"'
        resolution.refuse(config.file, key, f"recipe {recipe.id} serves any checkpoint, none is named", hint)
    return model


def _questions(resolution: Resolution, config: Config, recipe: Recipe) -> tuple[Question, ...]:
    """Return what is asked before READY; refuse to ask nothing that counts."""
    questions = questions_for(config, recipe)
    if not any(question.gate and question.shows_answers for question in questions):
        key = "[selftest] skip" if config.selftest.skip else "[selftest] recipe_questions"
        what = "no question is left that stands between a wrong model and READY"
        resolution.refuse(config.origin(key), key, what, "leave one of the recipe's, or add one with gate = true")
    return questions


def looked_for(config: Config, recipe: Recipe) -> tuple[str, ...]:
    """Return the files that a plan asks for, as far as they follow from the configuration alone."""
    resolution = Resolution(config, recipe, None)
    paths = (resolution.text(needed.path) for needed, when in recipe.files if resolution.applies(when))
    return (*(path for path in paths if path is not None), *references(config, recipe))


def mistakes(config: Config, recipe: Recipe, broken: frozenset[str] = frozenset()) -> tuple[Problem, ...]:
    """Return what is wrong with the values of a configuration for its recipe, whatever the machine is.

    Nothing is said of what depends on the values of `broken`, which are wrong by themselves.
    """
    resolution = Resolution(config, recipe, None, broken)
    settings = tuple(resolution.settings())
    tuple(resolution.variables())
    tuple(_broken_rules(resolution, recipe))
    _refuse_repeated(resolution, config, recipe, settings)
    _questions(resolution, config, recipe)
    if config.selftest.budget < SHORTEST:
        key, what = "[selftest] budget", f"found {config.selftest.budget:g} s, in which nothing can be asked"
        resolution.refuse(config.origin(key), key, what, f"give it {SHORTEST:g} s at least")
    return tuple(resolution.problems)


def _policy(config: Config) -> Policy:
    patience = config.patience
    test = config.selftest
    return Policy(
        loading=patience.loading,
        stall=patience.stall,
        tries=config.restart.tries,
        losses=config.restart.losses,
        pause=config.restart.pause,
        stopping=patience.stopping,
        rollback=config.reload.rollback,
        self_test=test.budget + SLACK,
        hold=test.on_failure == "hold",
        restart_wrong=test.after_ready == "restart",
        repeat=test.repeat,
    )


def _argv(config: Config, recipe: Recipe, folder: str, model: str, settings: tuple[Setting, ...]) -> tuple[str, ...]:
    """Return the command line; what a recipe does not place comes first."""
    placed = {setting.name for setting in settings}
    own = (
        ("host", (config.api.host,)),
        ("port", (str(config.api.port),)),
        ("served_model_name", served_model_names(config, recipe)),
    )
    first = tuple(Setting(name=name, value=value, origin="") for name, value in own if name not in placed)
    flags = tuple(argument for setting in (*first, *settings) for argument in arguments_of(setting))
    return (f"{folder}/bin/python", f"{folder}/bin/vllm", "serve", model, *flags)


def _environment(folder: str, own: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Return the defaults with everything else on top, each name once."""
    path = ("PATH", f"{folder}/bin:{SYSTEM_PATH}")
    chosen = {name: Variable(name=name, value=value, origin="vllm-serve") for name, value in (*DEFAULT_ENV, path)}
    chosen.update({variable.name: variable for variable in own})
    return tuple(chosen.values())


def _visible(config: Config) -> Iterator[Variable]:
    """Yield what shows the engine the GPUs that a person named; a recipe that places them says it again."""
    if config.gpu.devices:
        origin = config.origin("[gpu] devices")
        yield Variable(
            name="CUDA_VISIBLE_DEVICES", value=",".join(config.gpu.devices[: config.gpu.count]), origin=origin
        )
        yield Variable(name="CUDA_DEVICE_ORDER", value="PCI_BUS_ID", origin=origin)


def _broken_rules(resolution: Resolution, recipe: Recipe) -> Iterator[str]:
    for rule in recipe.rules:
        if what := _verdict(resolution, rule):
            yield what


def _verdict(resolution: Resolution, rule: Rule) -> str | None:
    """Ask one rule; refuse what it refuses, return what it only notes."""
    call = {"formula": rule.formula, "of": list(rule.of)}
    try:
        what = resolution.filled(call)
    except UnseenError:
        return None
    except UnfitError as error:
        if rule.refuse:
            resolution.blame_rule(call, str(error), transient=isinstance(error, NotYetError))
        return None
    if what and rule.refuse:
        resolution.blame_rule(call, what)
        return None
    return str(what) if what else None


def _needed_files(resolution: Resolution, recipe: Recipe, facts: Facts) -> Iterator[tuple[str, NeededFile]]:
    for needed, when in recipe.files:
        if not resolution.applies(when):
            continue
        path = resolution.text(needed.path)
        if path is None:
            continue
        if needed.before_plan and facts.has_file(path) is False:
            resolution.blame_rule(needed.path, f"there is no {path}: {needed.doc}", needed.remedy)
        yield path, needed


def _wrong_values(resolution: Resolution, recipe: Recipe, facts: Facts) -> Iterator[str]:
    """Hold the checkpoint's config.json against what the recipe needs of it."""
    folder = model_folder(config=resolution.config, recipe=recipe)
    checkpoint = facts.about(folder)
    for needed in recipe.values:
        reason = facts.why_unread(f"config of {folder}")
        if reason:
            key = "[model] source"
            resolution.refuse(resolution.config.origin(key), key, reason, "fetch config.json again")
        elif checkpoint is None or checkpoint.config is None:
            yield f"{needed.config_key} of {folder}/config.json could not be looked at; it must be {needed.value}"
        elif (found := _at(json.loads(checkpoint.config), needed.config_key)) != needed.value:
            what = f"{folder}/config.json: {needed.config_key} is {found or 'absent'}, this recipe needs {needed.value}"
            resolution.refuse(resolution.config.origin("[model] source"), "[model] source", what, needed.remedy)


def _impatience(config: Config, settings: tuple[Setting, ...]) -> Iterator[str]:
    """Tell when vLLM would be killed before it has finished what runs."""
    wanted = next((setting.value for setting in settings if setting.name == "shutdown_timeout"), 0)
    if isinstance(wanted, (int, float)) and wanted >= config.patience.stopping:
        stopping = f"[patience] stopping kills the engine after {config.patience.stopping:g} s"
        yield f"shutdown_timeout is {wanted} s, and {stopping}"


def _at(table: object, key: str) -> object:
    for part in key.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    return table


def overlays_of(recipe: Recipe, facts: Facts) -> tuple[str, ...]:
    """Return the overlays that the engine has, by the files that only they bring."""
    found = [file.path for file in facts.files if file.exists]
    return tuple(
        overlay.name
        for overlay in recipe.overlays
        if overlay.file and any(name.endswith(f"-packages/{overlay.file}") for name in found)
    )


def _require_overlays(resolution: Resolution, recipe: Recipe, facts: Facts) -> None:
    """Refuse stock kernels where the recipe was measured with patched ones, unless the file wants them."""
    knob, own = recipe.engine.stock_knob, {overlay.file for overlay in recipe.overlays}
    looked = facts.searched or any(file.path.partition("-packages/")[2] in own for file in facts.files)
    if knob is None or resolution.seen(knob) or not looked:
        return
    switched_on = any(overlay.variable and resolution.seen(overlay.variable) for overlay in recipe.overlays)
    if not (switched_on or overlays_of(recipe, facts)):
        names = ", ".join(overlay.name for overlay in recipe.overlays)
        what = f"the engine has none of the overlays {names}, with which this recipe was measured"
        hint = f"use the engine that has them, or set [knobs] {knob} = true"
        resolution.refuse(resolution.config.file, f"[knobs] {knob}", what, hint)


def _refuse_repeated(resolution: Resolution, config: Config, recipe: Recipe, settings: tuple[Setting, ...]) -> None:
    """Refuse in extra_args what would silently replace a value that others depend on."""
    exclusive = recipe.engine.exclusive
    rivals = [setting for setting in settings if setting.name in exclusive]
    if not rivals:
        return
    chosen = {setting.name for setting in config.vllm}
    for setting in rivals if exclusive[0] in [rival.name for rival in rivals] and recipe.knobs else ():
        if setting.name in chosen and setting.name != exclusive[0]:
            what = f"stands beside --{exclusive[0].replace('_', '-')}, which the recipe sets"
            resolution.refuse(setting.origin, f"[vllm] {setting.name}", what, "set it in [knobs]")
    for argument in config.engine.extra_args:
        flag = re.split(r"[=.]", argument)[0]
        name = flag.lstrip("-").replace("-", "_")
        abbreviated = flag.startswith("--") and len(name) >= 4 and any(full.startswith(name) for full in exclusive)
        if flag.startswith("-") and (name in exclusive or abbreviated):
            key = "[engine] extra_args"
            what = f"{flag} sets again what the recipe sets, and vLLM keeps only the last"
            resolution.refuse(config.origin(key), key, what, "set its keys in [knobs] or [vllm]")


def _folders(resolution: Resolution, recipe: Recipe) -> Iterator[Folder]:
    for folder, when in recipe.folders:
        path = resolution.text(folder.path) if resolution.applies(when) else None
        if path is None:
            continue
        path = posixpath.normpath(path)
        if folder.fresh and not _may_be_emptied(path, str(resolution.value("cache"))):
            what = f"{path} is emptied before each launch, and lies neither below the cache nor below /tmp"
            resolution.blame_rule(folder.path, what, "set another folder")
        yield Folder(path=path, fresh=folder.fresh)


def _may_be_emptied(path: str, cache: str) -> bool:
    """Tell whether a folder is one of the engine's own: nobody else's files are ever deleted."""
    places = [place for place in (posixpath.normpath(cache), "/tmp") if place != "/"]  # noqa: S108  # the unit's own
    return any(path.startswith(f"{place}/") for place in places)
