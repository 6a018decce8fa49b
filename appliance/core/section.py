"""The sections of vllm-serve.toml with known keys."""

from collections.abc import Mapping
from typing import Any

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
from appliance.core.record import key, record

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
class SelfTest:
    """[selftest]: what a wrong answer leads to, and how often the model is asked. [[question]] says what is asked."""

    recipe_questions: bool = key(
        "Whether the recipe's questions are asked. With false only those of this file are, and what the operator "
        "accepted with `vllm-serve selftest --record`.",
        FLAG,
        default=True,
    )
    skip: tuple[str, ...] = key(
        "Names of questions that are not asked.", TEXTS, default=(), absent="none", example=["korean"]
    )
    on_failure: str = key(
        "What a wrong answer before READY leads to: stop ends the service, hold keeps the engine up for probing, "
        "without calling it ready.",
        one_of("stop", "hold"),
        default="stop",
    )
    after_ready: str = key(
        "What two wrong repetitions in a row lead to: restart stops the engine and starts it again, once; warn keeps "
        "it up and says so.",
        one_of("restart", "warn"),
        default="restart",
    )
    repeat: float = key(
        "How often the light questions are asked again while the engine is idle; 0s is never.", SPAN, default=3600.0
    )
    budget: float = key("The longest time for all questions together.", SPAN, default=300.0)


@record
class Restart:
    """[restart]: what follows an engine that fails. One that was ready and is lost starts again at once."""

    tries: int = key(
        "How many launches in a row may fail before the service gives up, with exit status 69.", POSITIVE, default=3
    )
    losses: int = key(
        "How many engines in a row may be lost after they were ready, and before they have served for ten minutes, or "
        "twice the time that they took to load, before the service gives up.",
        POSITIVE,
        default=5,
    )
    pause: float = key(
        "The time before the second launch; each further pause is twice as long, up to five minutes.",
        SPAN,
        default=10.0,
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
    baselines: str = key(
        "The folder of what the operator accepted with `vllm-serve selftest --record`.",
        PATH,
        default="/var/lib/vllm-serve/baselines",
    )
    cache: str = key(
        "The folder of what the engine compiles and tunes; it may be emptied, then the next start takes longer.",
        PATH,
        default="/var/cache/vllm-serve/engine",
    )


@record
class Patience:
    """[patience]: how long a phase may last before it counts as stuck."""

    loading: float = key("The longest silence of an engine that loads.", SPAN, default=1800.0)
    stall: float = key(
        "The longest time without any sign of progress: a line, CPU time or bytes read of an engine that loads; any "
        "token of one that has requests.",
        SPAN,
        default=300.0,
    )
    stopping: float = key("The time between asking the engine to stop and killing it.", SPAN, default=20.0)


SECTIONS: Mapping[str, type[Any]] = {
    "model": ModelChoice,
    "api": Api,
    "engine": EngineChoice,
    "gpu": GpuChoice,
    "cluster": ClusterChoice,
    "selftest": SelfTest,
    "reload": Reload,
    "restart": Restart,
    "patience": Patience,
    "log": Log,
    "paths": Paths,
}
"""The sections with known keys."""
