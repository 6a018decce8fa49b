"""The engine's offer to the OOM killer."""

import os
import subprocess
from pathlib import Path

from appliance.engine.oomscore import FIRST, offer


def score(root: Path, pid: int) -> str:
    return (root / f"proc/{pid}/oom_score_adj").read_text().strip()


def test_a_process_and_what_it_starts_die_before_others() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "read line; cat /proc/self/oom_score_adj"], stdin=-1, stdout=-1) as shell:
        assert offer(shell.pid) is None
        said, _ = shell.communicate(b"go\n")
    assert said.decode().strip() == str(FIRST)
    assert score(Path("/"), os.getpid()) != str(FIRST)


def test_a_higher_score_is_left_and_a_process_that_is_gone_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    (folder / "oom_score_adj").write_text("900\n")
    assert offer(7, tmp_path) is None
    assert score(tmp_path, 7) == "900"
    (folder / "oom_score_adj").write_text("-250\n")
    assert offer(7, tmp_path) is None
    assert score(tmp_path, 7) == "500"
    assert "No such file" in str(offer(8, tmp_path))
