"""What a snapshot of the machine is asked for."""

from appliance.core.config import Config
from appliance.core.plan import looked_for
from appliance.core.recipe import Recipe
from appliance.core.record import record
from appliance.core.resolution import model_folder
from appliance.core.section import Api, Paths


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
    engine_runs: bool = False
    """True while our own engine runs, on whatever port."""
    supervisor: int | None = None
    """Pid of the supervisor whose engine runs; None for the one that asks, or that started who asks."""
    files: tuple[str, ...] = ()
    """Files to look for."""
    packaged: tuple[str, ...] = ()
    """Files to look for among the packages of the engine."""
    cache: str | None = None
    """Folder of what the engine compiles and downloads."""
    cuda_home: str | None = None
    """Folder of the CUDA toolkit whose compiler the first start would use."""


def inquiry_of(config: Config, recipe: Recipe, held: int | None = None) -> Inquiry:
    """Return what a configuration depends on; `held` is the port of our own running engine."""
    return Inquiry(
        engines=config.paths.engines,
        engine=config.engine.use,
        model=model_folder(config, recipe),
        host=config.api.host,
        port=config.api.port,
        held=held == config.api.port,
        engine_runs=held is not None,
        files=looked_for(config, recipe),
        packaged=tuple(overlay.file for overlay in recipe.overlays if overlay.file),
        cache=config.paths.cache,
    )


def plain_inquiry() -> Inquiry:
    """Return what is asked where there is no configuration: nothing by name."""
    api = Api()
    return Inquiry(engines=Paths().engines, engine=None, model=None, host=api.host, port=api.port, held=False)
