"""The folders that an engine writes to."""

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from appliance.core.recipe import Folder

MARK = ".vllm-serve-empties-this"
"""A file in each folder that is emptied before a launch; a folder with something in it and without this is not ours."""


def make_folders(folders: Iterable[Folder]) -> None:
    """Make each folder, empty where it must be fresh. Raises OSError, also for one that somebody else filled."""
    for folder in folders:
        path = Path(folder.path)
        if folder.fresh:
            _empty(path)
        path.mkdir(parents=True, exist_ok=True)
        if folder.fresh:
            (path / MARK).touch()


def _empty(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        if not (path / MARK).exists() and any(path.iterdir()):
            what = f"{os.strerror(errno.ENOTEMPTY)}, and it is not one that vllm-serve made"
            raise OSError(errno.ENOTEMPTY, what, str(path))
        shutil.rmtree(path)
