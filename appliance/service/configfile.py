"""vllm-serve.toml as it lies on the disk, with its drop-ins."""

import ipaddress
from collections.abc import Iterable, Iterator
from pathlib import Path

from appliance.core.config import Config, ConfigRefusedError, config_from, reserved_flag
from appliance.core.manifest import CURRENT
from appliance.core.problem import Problem, RefusedError, place_of
from appliance.core.recipe import Recipe
from appliance.core.suitability import mistaken, unfit
from appliance.engine.optionlist import OPTIONS, options_of
from appliance.service.share import chosen_recipe
from appliance.service.textfile import dangling, label, problem_with, text_at

MOST_DROP_INS = 1000
"""Nobody writes as many; a folder of other things would take long to read."""


def read_config(file: Path) -> Config:
    """Read a vllm-serve.toml and FILE.d/*.toml. Raises RefusedError with every problem, also of what can't be read."""
    found, unread = drop_ins(file)
    problems, texts = list(unread), []
    for path in (file, *found):
        try:
            texts.append((label(path), text_at(path)))
        except RefusedError as refused:
            problems += refused.problems
    return config_from(texts, problems)


def checked(file: Path) -> Config:
    """Read a vllm-serve.toml and hold it against the recipe and the engine. Raises RefusedError with every problem."""
    try:
        config = read_config(file)
    except ConfigRefusedError as refused:
        places = {(problem.file, problem.line) for problem in refused.problems}
        judged = refused.rest is not None and not any(problem.key == "recipe" for problem in refused.problems)
        found = problems_of(refused.rest) if refused.rest is not None and judged else ()
        more = [problem for problem in found if (problem.file, problem.line) not in places]
        raise RefusedError(_in_order((*refused.problems, *more))) from None
    if problems := problems_of(config):
        raise RefusedError(problems)
    return config


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.file, problem.line or 0))


def problems_of(config: Config) -> tuple[Problem, ...]:
    """Return what is wrong in a configuration that reads well by itself, held against what else is on this machine."""
    engine = Path(config.paths.engines) / (config.engine.use or CURRENT)
    options = options_of(engine if (engine / OPTIONS).is_file() else None, None)
    try:
        recipe = chosen_recipe(config)
    except RefusedError as refused:
        return (*refused.problems, *unfit(config, None, options))
    return (*mistaken(config, recipe, options), *_exposed(config), *_unmeetable(config, recipe))


def _unmeetable(config: Config, recipe: Recipe) -> Iterable[Problem]:
    """Return what is wrong with a file's own questions; few files have any, and the look takes imports of its own."""
    if not config.questions:
        return ()
    from appliance.service.expectation import unmeetable  # noqa: PLC0415  # see above

    return unmeetable(config, recipe)


def _exposed(config: Config) -> Iterator[Problem]:
    """Tell when others may use the model without a key and the file does not say that this is meant."""
    api, key = config.api, "[api] host"
    flags = (argument[2:] for argument in config.engine.extra_args if argument.startswith("--"))
    keyed = any(reserved_flag(flag) == "api_key" for flag in flags)
    if ipaddress.ip_address(api.host).is_loopback or api.allow_unauthenticated or keyed:
        return
    file, line = place_of(config.origin(key))
    what = f"{api.host} lets other machines use the model without a key"
    hint = "set allow_unauthenticated = true if that is meant, or host = 127.0.0.1"
    yield Problem(file=file, line=line, key=key, what=what, hint=hint)


def drop_ins(file: Path) -> tuple[tuple[Path, ...], tuple[Problem, ...]]:
    """Return the drop-ins of a file in the order in which they are read, and what is wrong with their folder."""
    folder = Path(f"{file}.d")
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return (), (problem_with(folder, dangling(folder)),) if folder.is_symlink() else ()
    except NotADirectoryError:
        return (), (problem_with(folder, "wants a folder", "drop-ins are files in it that end in .toml"),)
    except OSError as error:
        return (), (problem_with(folder, f"can't be read: {error.strerror}"),)
    names = [name for name in names if name.endswith(".toml") and not name.startswith(".")]
    if len(names) > MOST_DROP_INS:
        return (), (problem_with(folder, f"{len(names)} drop-ins, at most {MOST_DROP_INS}"),)
    return tuple(folder / name for name in names), ()
