"""What every system test starts from."""

import os
from pathlib import Path

import pytest

from tests.system.cache import cache_folder
from tests.system.host import can_boot
from tests.system.root import debian_root

CONTINUOUS_INTEGRATION = "CI"
"""Set where a part that can not be run must not pass for run."""


@pytest.fixture(scope="session")
def cache() -> Path:
    """Return the folder of the cache."""
    return cache_folder()


@pytest.fixture(scope="session")
def debian(cache: Path) -> Path:
    """Return a root of Debian 12 to boot from; where none can boot, skip, or fail in continuous integration."""
    reason = can_boot()
    if reason is None:
        return debian_root(cache)
    if os.environ.get(CONTINUOUS_INTEGRATION):
        pytest.fail(f"no container can be booted here: {reason}")
    pytest.skip(f"no container can be booted here: {reason}")
