"""Who is asked by `vllm-serve selftest`: this machine's model, or any server's."""

import dataclasses
import os
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

import click

from appliance.core.baseline import Identity
from appliance.core.config import Config, config_of
from appliance.core.inquiry import inquiry_of
from appliance.core.kind import shown
from appliance.core.paper import questions_for
from appliance.core.plan import api_key_in
from appliance.core.question import Question
from appliance.core.recipe import Recipe
from appliance.core.record import record
from appliance.core.reply import ReplyError, Trouble
from appliance.core.resolution import model_folder
from appliance.core.status import Status
from appliance.engine.client import EngineClient
from appliance.host.gather import gather
from appliance.selftest.server import models_of
from appliance.selftest.talk import Talk
from appliance.service.configfile import read_config
from appliance.service.prospect import prospect_of
from appliance.service.selftest import accepted_questions
from appliance.service.share import chosen_recipe
from appliance.service.statusfile import is_alive

SECONDS = 30.0
"""For what a server tells of itself."""


@record
class Examinee:
    """A model, where it is reached, and what is asked of it."""

    client: EngineClient
    model: str
    questions: tuple[Question, ...]
    budget: float
    identity: Identity
    baselines: Path

    def accepted(self) -> Iterable[Question]:
        """Return the questions that follow from what was accepted. Raises RefusedError where it can't be read."""
        return accepted_questions(self.baselines, self.identity)


def ours(config_file: Path, view: Status | None, model: str | None) -> Examinee | None:
    """Return this machine's model; None where its engine does not run. Raises RefusedError for a wrong file."""
    if view is None or view.base_url is None or view.model is None or not is_alive(view):
        return None
    config = read_config(config_file)
    recipe = chosen_recipe(config)
    folder = model_folder(config, recipe) or ""
    inquiry = dataclasses.replace(inquiry_of(config, recipe, config.api.port), supervisor=view.supervisor.pid)
    facts = gather(Path("/"), inquiry)
    plan = prospect_of(config, recipe, facts).plan
    unknown = Identity(source=folder, checkpoint="unknown", engine=view.engine or "unknown", hardware="unknown")
    return Examinee(
        client=EngineClient(view.base_url, api_key_in(config.engine.extra_args)),
        model=model or view.model,
        questions=plan.questions,
        budget=plan.budget,
        identity=plan.identity or unknown,
        baselines=Path(config.paths.baselines),
    )


def ours_accepted(config_file: Path) -> tuple[Path, str]:
    """Return where baselines are kept and whose this machine's are. Raises RefusedError for a wrong file."""
    config = read_config(config_file)
    return Path(config.paths.baselines), model_folder(config, chosen_recipe(config)) or ""


async def theirs(base: str, model: str | None, config_file: Path | None) -> Examinee:
    """Return the model of any server: the questions are those of a configuration that serves it, else `generic`'s.

    Raises ReplyError where the server does not tell its models, and RefusedError for a wrong file.
    """
    base = address_of(base)
    client = EngineClient(base, os.environ.get("OPENAI_API_KEY"))
    models = await models_of(Talk(server=client, model="", seconds=SECONDS))
    names = [str(entry["id"]) for entry in models]
    if not names:
        raise ReplyError("it serves no model", Trouble.GARBLED)
    chosen = model or names[0]
    config, recipe = _serving(chosen, config_file)
    root = next((str(entry.get("root") or entry["id"]) for entry in models if entry["id"] == chosen), chosen)
    return Examinee(
        client=client,
        model=chosen,
        questions=questions_for(config, recipe),
        budget=config.selftest.budget,
        identity=Identity(source=f"{base} {chosen}", checkpoint=root, engine=await _version(client), hardware=base),
        baselines=Path(config.paths.baselines),
    )


def address_of(base: str) -> str:
    """Return a server's address as paths are added to it. Raises click.UsageError for what is none.

    >>> address_of("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000'
    """
    try:
        parts = urllib.parse.urlsplit(base)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if sound and "@" in parts.netloc:
        raise click.UsageError("--base wants an address without a name and a password: it is shown, and kept")
    if not sound or not base.isprintable() or " " in base:
        raise click.UsageError(f"--base wants an address such as http://HOST:PORT, found {shown(base)}")
    return base.rstrip("/").removesuffix("/v1")


def _serving(model: str, config_file: Path | None) -> tuple[Config, Recipe]:
    """Return a configuration that serves a model of this name, and its recipe; else those for any model."""
    if config_file:
        config = read_config(config_file)
        recipe = chosen_recipe(config)
        if model in (config.model.served_model_name or (recipe.model.served_model_name,)):
            return config, recipe
    generic = config_of('recipe = "generic"', "generic")
    config = dataclasses.replace(generic, model=dataclasses.replace(generic.model, served_model_name=(model,)))
    return config, chosen_recipe(config)


async def _version(client: EngineClient) -> str:
    """Return the version of a vLLM; others do not tell theirs."""
    try:
        return str((await client.get("/version", SECONDS)).table().get("version", "unknown"))
    except ReplyError:
        return "unknown"
