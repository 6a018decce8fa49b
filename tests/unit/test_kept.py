"""Baselines as they lie on the disk."""

import os
from pathlib import Path

from appliance.core.baseline import Baseline, Identity
from appliance.service.selftest import keep

WHOSE = Identity(source="/m", checkpoint="c", engine="e", hardware="cpu")
KEPT = Baseline(
    recorded="2026-12-01T00:00:00+00:00", model="m", task="embedding", identity=WHOSE, vectors=((1.0, 0.0),)
)


def test_the_service_can_read_what_an_operator_with_a_strict_umask_accepted(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        file = keep(KEPT, tmp_path / "baselines")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.parent.stat().st_mode & 0o777 == 0o755
