"""Roots of Debian are removed once they are of no use, and never through a mount."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.system.lock import held
from tests.system.root import CONTAINED, RootError, _remove, _remove_unused

A_DAY_AGO = time.time() - 24 * 3600


def made(root: Path, age: float) -> Path:
    (root / "etc").mkdir(parents=True)
    os.utime(root, (time.time() - age,) * 2)
    return root


def test_an_old_root_is_removed_unless_a_machine_runs_from_it(tmp_path: Path) -> None:
    old, used = made(tmp_path / "old", 90_000), made(tmp_path / "used", 90_000)
    new = made(tmp_path / "new", 80_000)
    made(tmp_path / ".unfinished-old", 90_000)
    with held(used, shared=True):
        _remove_unused(tmp_path, A_DAY_AGO)
    assert sorted(tmp_path.iterdir()) == [new, used]
    assert not old.exists()


@pytest.mark.usefixtures("debian")
def test_a_root_with_a_mount_below_it_is_not_removed(tmp_path: Path) -> None:
    root = made(tmp_path / "root", 0)
    subprocess.run(["mount", "-t", "tmpfs", "none", root / "etc"], check=True)
    try:
        with pytest.raises(RootError, match=f"umount --recursive {root}"):
            _remove(root)
    finally:
        subprocess.run(["umount", root / "etc"], check=True)
    assert root.exists()


@pytest.mark.usefixtures("debian")
def test_what_makes_a_root_leaves_no_process_and_no_mount_when_it_is_killed(tmp_path: Path) -> None:
    commands = f"mount -t tmpfs none {tmp_path} && sleep 4714 & echo begun; sleep 4715"
    argv = [*CONTAINED, "sh", "-c", commands]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.kill()
        assert process.stdout.read() == ""  # nothing holds the pipe any more
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
