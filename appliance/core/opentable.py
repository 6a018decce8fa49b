"""The sections that take any name, [vllm], [knobs] and [env], and the names that nobody may set."""

import math
import re
from collections.abc import Mapping

from appliance.core.document import Reader
from appliance.core.kind import UnfitError, shown
from appliance.core.setting import Setting, Variable, knob_value, setting_value

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

LAST_RESORT = ("api_key",)
"""Reserved flags that a person may still put into [engine] extra_args, as the scripts before this program took them."""

RESERVED_VARIABLES = re.compile(
    r"NOTIFY_SOCKET|WATCHDOG_(USEC|PID)|LISTEN_(FDS|PID|FDNAMES)|CREDENTIALS_DIRECTORY|JOURNAL_STREAM|PYTHON.*"
    r"|LD_(PRELOAD|AUDIT)|VLLM_LOGGING_CONFIG_PATH|VLLM_CONFIGURE_LOGGING|VLLM_MODEL_REDIRECT_PATH"
    r"|VLLM_(USE_RUST_FRONTEND|RUST_FRONTEND_PATH)"
)
"""Variables that systemd or vllm-serve sets, or that would put another program or model behind the API."""

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SECRET_NAME = re.compile(r"TOKEN\Z|_KEY\Z|PASSWORD|PASSWD|SECRET|CREDENTIAL", re.IGNORECASE)
FLAG_NAME = re.compile(r"[a-z][a-z0-9_]*")


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
        elif not FLAG_NAME.fullmatch(flag):
            reader.refuse((*path, name), "not the name of a flag", "write it as vLLM does, with - or _")
        elif flag in settings:
            reader.refuse((*path, name), f"set twice; also as {settings[flag].origin}", "keep one")
        else:
            _add_setting(reader, (*path, name), found, settings)
    return tuple(settings.values())


def chosen_knobs(reader: Reader, path: tuple[str, ...]) -> tuple[Setting, ...]:
    """Read a table of knobs; which there are is the recipe's matter."""
    knobs = []
    for name, found in reader.table(path).items():
        if not FLAG_NAME.fullmatch(name):
            reader.refuse((*path, name), "not the name of a knob", "write it as the recipe does, with _")
            continue
        try:
            knobs.append(Setting(name=name, value=knob_value(found), origin=reader.document.origin((*path, name))))
        except UnfitError as error:
            reader.refuse((*path, name), str(error))
    return tuple(knobs)


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
    if name.islower() and not name.endswith("_proxy"):
        return "looks like a flag of vLLM", "write flags in [vllm]"
    if name == "CUDA_VISIBLE_DEVICES":
        return "the number of GPUs follows from it", "set [gpu] devices"
    if isinstance(found, float) and not math.isfinite(found):
        return f"found {found}, wants a finite number", ""
    if name == "NCCL_IB_GID_INDEX" and found == "":
        return "found an empty text, which NCCL reads as 0", "remove it: the index is derived at each start"
    if isinstance(found, int) and abs(found) >= 1 << 63:
        return f"found {shown(found)}, wants at most 63", ""
    if not isinstance(found, (str, int, float)) or "\0" in str(found):
        return f"found {shown(found)}, wants a string or a number", ""
    return None


def refuse_reserved_arguments(reader: Reader, path: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    """Refuse reserved flags, also as the abbreviations that vLLM's argparse takes."""
    for argument in arguments:
        reserved = reserved_flag(argument.removeprefix("--")) if argument.startswith("--") else None
        if reserved and reserved not in LAST_RESORT:
            name = argument.partition("=")[0]
            reader.refuse(path, f"{name}: vllm-serve sets --{reserved} itself", RESERVED_FLAGS[reserved])
