"""What a person decides: the description of vllm-serve.toml and its reading."""

import re
from collections.abc import Mapping
from typing import Any

from appliance.core.document import Reader, document_of
from appliance.core.kind import ADDRESS, FLAG, NAME, PATH, PORT, SPAN, TEXT, TEXTS, UnfitError, shown
from appliance.core.problem import Problem, RefusedError
from appliance.core.record import key, record
from appliance.core.setting import Setting, Variable, setting_value


@record
class ModelChoice:
    """[model]: which checkpoint, and by which name."""

    source: str | None = key("folder of the checkpoint", PATH, default=None)
    served_model_name: str | None = key("name that clients ask for", TEXT, default=None)


@record
class Api:
    """[api]: where the OpenAI-compatible API listens."""

    host: str = key("address to listen on", ADDRESS, default="127.0.0.1")
    port: int = key("TCP port", PORT, default=8000)
    allow_unauthenticated: bool = key(
        "listen on an address that other machines reach, with no key asked", FLAG, default=False
    )


@record
class EngineChoice:
    """[engine]: which installed vLLM, and arguments that no other key covers."""

    use: str | None = key("id of an installed engine, as `vllm-serve engine list` prints it", NAME, default=None)
    auto_install: bool = key("let the first start install an engine when there is none", FLAG, default=True)
    extra_args: tuple[str, ...] = key("arguments appended to `vllm serve`", TEXTS, default=())


@record
class Reload:
    """[reload]: how `systemctl reload` changes the engine."""

    rollback: bool = key("go back to the last good settings when new ones do not serve", FLAG, default=True)


@record
class Log:
    """[log]: a copy of the engine's lines beside the journal."""

    file: str | None = key("file under /var/log/vllm-serve that the engine's lines are appended to", PATH, default=None)


@record
class Paths:
    """[paths]: where things lie that are not in their usual place."""

    engines: str = key("folder of the installed engines", PATH, default="/var/lib/vllm-serve/engines")


@record
class Patience:
    """[patience]: how long a phase may last before it counts as stuck."""

    loading: float = key("longest silence of an engine that loads", SPAN, default=1800.0)
    stopping: float = key("time between asking the engine to stop and killing it", SPAN, default=20.0)


@record
class Config:
    """Everything that one vllm-serve.toml says."""

    file: str
    recipe: str
    recipe_origin: str
    model: ModelChoice
    vllm: tuple[Setting, ...]
    env: tuple[Variable, ...]
    api: Api
    engine: EngineChoice
    reload: Reload
    log: Log
    paths: Paths
    patience: Patience


SECTIONS: Mapping[str, type[Any]] = {
    "model": ModelChoice,
    "api": Api,
    "engine": EngineChoice,
    "reload": Reload,
    "log": Log,
    "paths": Paths,
    "patience": Patience,
}
"""The sections with known keys; [vllm] and [env] take any name."""

RESERVED_FLAGS: Mapping[str, str] = {
    "host": "set [api] host",
    "port": "set [api] port",
    "uds": "vllm-serve asks the engine over TCP; set [api] host and port",
    "model": "set [model] source",
    "model_tag": "set [model] source",
    "served_model_name": "set [model] served_model_name",
    "config": "set the flags in [vllm]",
    "headless": "the engine must answer the self-test",
    "api_key": "a key in a command line is seen by every user of the machine",
    "log_config_file": "the engine's log goes to the journal",
    "ssl_keyfile": "put a TLS proxy in front; the self-test asks over plain HTTP",
    "ssl_certfile": "put a TLS proxy in front; the self-test asks over plain HTTP",
    "root_path": "the self-test asks below /",
    "middleware": "nothing may stand between the self-test and the model",
    "grpc": "the self-test asks over HTTP",
    "omni": "another program would serve the API",
    "data_parallel_multi_port_external_lb": "the self-test asks one API, and this opens several",
    "logging_config": "the engine's log goes to the journal",
    "hf_token": "a token in a command line is seen by every user of the machine",
}
"""Flags that would point the self-test elsewhere, or that another key owns, with the way out."""

RESERVED_VARIABLES = re.compile(
    r"NOTIFY_SOCKET|WATCHDOG_(USEC|PID)|LISTEN_(FDS|PID|FDNAMES)|CREDENTIALS_DIRECTORY|JOURNAL_STREAM|PYTHON.*"
    r"|LD_(PRELOAD|AUDIT)|VLLM_LOGGING_CONFIG_PATH|VLLM_CONFIGURE_LOGGING|VLLM_MODEL_REDIRECT_PATH"
    r"|VLLM_(USE_RUST_FRONTEND|RUST_FRONTEND_PATH)"
)
"""Variables that systemd or vllm-serve sets, or that would put another program or model behind the API."""

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SECRET_NAME = re.compile(r"TOKEN\Z|_KEY\Z|PASSWORD|PASSWD|SECRET|CREDENTIAL", re.IGNORECASE)


def config_of(text: str, file: str) -> Config:
    """Read the text of a vllm-serve.toml. Raises RefusedError with every problem in it."""
    document = document_of(text, file)
    reader = Reader(document)
    reader.unknown((), document.table, ("recipe", "vllm", "env", *SECTIONS))
    recipe = reader.required(("recipe",), document.table, TEXT)
    sections: dict[str, Any] = {
        name: reader.record(cls, (name,), reader.table((name,))) for name, cls in SECTIONS.items()
    }
    vllm = settings_of(reader, ("vllm",))
    env = variables_of(reader, ("env",))
    if engine := sections["engine"]:
        _refuse_reserved_arguments(reader, engine.extra_args)
    if reader.problems or recipe is None:
        raise RefusedError(_in_order(reader.problems))
    return Config(file=file, recipe=recipe, recipe_origin=document.origin(("recipe",)), vllm=vllm, env=env, **sections)


def _in_order(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.line or 0)


def reserved_flag(argument: str) -> str | None:
    """Return the reserved flag that vLLM's argparse would take an argument for; it takes abbreviations.

    >>> reserved_flag("por=9000"), reserved_flag("max-model-len")
    ('port', None)
    """
    name = re.split(r"[=.+]", argument)[0].replace("-", "_")
    return next((flag for flag in RESERVED_FLAGS if name and flag.startswith(name)), None)


def settings_of(reader: Reader, path: tuple[str, ...]) -> tuple[Setting, ...]:
    """Read a table of vLLM's flags."""
    settings: dict[str, Setting] = {}
    for name, found in reader.table(path).items():
        flag = name.replace("-", "_")
        if reserved := reserved_flag(flag):
            reader.refuse((*path, name), f"vllm-serve sets --{reserved} itself", RESERVED_FLAGS[reserved])
        elif not re.fullmatch(r"[a-z][a-z0-9_]*", flag):
            reader.refuse((*path, name), "not the name of a flag", "write it as vLLM does, with - or _")
        elif flag in settings:
            reader.refuse((*path, name), f"set twice; also as {settings[flag].origin}", "keep one")
        else:
            _add_setting(reader, (*path, name), found, settings)
    return tuple(settings.values())


def _add_setting(reader: Reader, path: tuple[str, ...], found: object, settings: dict[str, Setting]) -> None:
    flag = path[-1].replace("-", "_")
    if flag == "api_server_count" and found == 0:
        reader.refuse(path, "found 0, which serves no API", "write at least 1")
        return
    try:
        settings[flag] = Setting(name=flag, value=setting_value(found), origin=reader.document.origin(path))
    except UnfitError as error:
        reader.refuse(path, str(error))


def variables_of(reader: Reader, path: tuple[str, ...]) -> tuple[Variable, ...]:
    """Read a table of environment variables; numbers and booleans become their usual texts."""
    variables = []
    for name, found in reader.table(path).items():
        problem = _variable_problem(name, found)
        if problem:
            reader.refuse((*path, name), *problem)
        else:
            value = str(int(found)) if isinstance(found, bool) else str(found)
            variables.append(Variable(name=name, value=value, origin=reader.document.origin((*path, name))))
    return tuple(variables)


def _variable_problem(name: str, found: object) -> tuple[str, str] | None:
    if not VARIABLE_NAME.match(name):
        return "not the name of an environment variable", ""
    if RESERVED_VARIABLES.fullmatch(name):
        return "vllm-serve sets this variable itself", ""
    if SECRET_NAME.search(name):
        return "looks like a secret, and this file can be read by others", "remove it"
    if isinstance(found, int) and abs(found) >= 1 << 63:
        return f"found {shown(found)}, wants at most 63", ""
    if not isinstance(found, (str, int, float)) or "\0" in str(found):
        return f"found {shown(found)}, wants a string or a number", ""
    return None


def _refuse_reserved_arguments(reader: Reader, arguments: tuple[str, ...]) -> None:
    """Refuse reserved flags, also as the abbreviations that vLLM's argparse takes."""
    for argument in arguments:
        reserved = reserved_flag(argument.removeprefix("--")) if argument.startswith("--") else None
        if reserved:
            reader.refuse(
                ("engine", "extra_args"), f"{argument}: vllm-serve sets --{reserved} itself", RESERVED_FLAGS[reserved]
            )
