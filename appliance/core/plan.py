"""From what a person wants and what the machine has to the command that starts vLLM; pure."""

from appliance.core.config import Config
from appliance.core.facts import Facts
from appliance.core.policy import Policy
from appliance.core.recipe import Question, Recipe
from appliance.core.record import record
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


@record
class Plan:
    """One launch of the engine, complete."""

    argv: tuple[str, ...]
    env: tuple[Variable, ...]
    """Variables to set; where a name repeats, the last counts."""
    unset: tuple[str, ...]
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

    @property
    def base_url(self) -> str:
        """Where this machine reaches the API, without a trailing slash."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  # a look-up, not a bind
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def model_folder(config: Config, recipe: Recipe, share: str) -> str | None:
    """Return the folder of the checkpoint; None when neither file nor recipe names one."""
    if config.model.source:
        return config.model.source
    return f"{share}/{recipe.model.source}" if recipe.model.source else None


def served_model_name(config: Config, recipe: Recipe) -> str:
    """Return the name that clients ask for."""
    return config.model.served_model_name or recipe.model.served_model_name or recipe.id


def build(config: Config, recipe: Recipe, facts: Facts) -> Plan:
    """Return the launch. The facts must hold an engine and a checkpoint: the checks see to it."""
    if facts.engine is None or facts.checkpoint is None:
        raise ValueError("a plan needs an engine and a checkpoint")
    name = served_model_name(config, recipe)
    settings = merged_settings(recipe.vllm, config.vllm)
    folder = facts.engine.folder
    argv = (
        *(f"{folder}/bin/python", f"{folder}/bin/vllm", "serve", facts.checkpoint.folder),
        *("--host", config.api.host, "--port", str(config.api.port), "--served-model-name", name),
        *(argument for setting in settings for argument in arguments_of(setting)),
        *config.engine.extra_args,
    )
    path = ("PATH", f"{folder}/bin:{SYSTEM_PATH}")
    defaults = tuple(Variable(name=name, value=value, origin="vllm-serve") for name, value in (*DEFAULT_ENV, path))
    return Plan(
        argv=argv,
        env=(*defaults, *recipe.env, *config.env),
        unset=UNSET,
        prefix=(),
        settings=settings,
        model_folder=facts.checkpoint.folder,
        served_model_name=name,
        host=config.api.host,
        port=config.api.port,
        questions=recipe.questions,
        log_file=config.log.file,
        policy=Policy(
            loading=config.patience.loading, stopping=config.patience.stopping, rollback=config.reload.rollback
        ),
    )


def merged_settings(recipe: tuple[Setting, ...], user: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """Return the recipe's flags in their order, each replaced by the user's, then the user's own."""
    chosen = {setting.name: setting for setting in recipe}
    chosen.update({setting.name: setting for setting in user})
    return tuple(chosen.values())
