"""What a snapshot of the machine is asked for."""

from appliance.core.config import Config
from appliance.core.plan import model_folder
from appliance.core.recipe import Recipe
from appliance.core.record import record


@record
class Inquiry:
    """The places that one attempt to start depends on."""

    engines: str
    engine: str | None
    """Id of the engine; None for the one in use."""
    model: str | None
    host: str
    port: int
    held: bool
    """True when our own running engine holds this port, so that trying would only meet it."""


def inquiry_of(config: Config, recipe: Recipe, share: str, held: int | None = None) -> Inquiry:
    """Return what a configuration depends on; `held` is the port of our own running engine."""
    return Inquiry(
        engines=config.paths.engines,
        engine=config.engine.use,
        model=model_folder(config, recipe, share),
        host=config.api.host,
        port=config.api.port,
        held=held == config.api.port,
    )
