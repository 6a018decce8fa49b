"""What contract tests start from."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.engine.install import Recipe
from appliance.engine.installation import in_use
from tests.contract.service import ENGINES, RealRig
from tests.rig import ROOT


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the engines; where it is empty, have the product fill it."""
    if in_use(ENGINES) != Recipe(device="cpu", wheelhouse=None).id:
        config = tmp_path_factory.mktemp("install") / "vllm-serve.toml"
        config.write_text(f'recipe = "demo"\n[paths]\nengines = "{ENGINES}"\n')
        subprocess.run([ROOT / "bin/vllm-serve", "engine", "--config", config, "install"], check=True)
    return ENGINES


@pytest.fixture(scope="module")
def served(engines: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRig]:
    """Yield a service that is ready."""
    rig = RealRig(tmp_path_factory.mktemp("served"), engines)
    try:
        rig.start()
        rig.until_ready()
        yield rig
    finally:
        rig.close()
