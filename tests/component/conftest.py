"""What component tests start from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.rig import FakeRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FakeRig]:
    rig = FakeRig(tmp_path)
    yield rig
    rig.close()
