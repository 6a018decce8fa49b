"""The folders that an engine writes to."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from appliance.core.recipe import Folder


def make_folders(folders: Iterable[Folder]) -> None:
    """Make each folder, empty where it must be fresh. Raises OSError; links are never followed to be emptied."""
    for folder in folders:
        path = Path(folder.path)
        if folder.fresh and path.is_symlink():
            path.unlink()
        elif folder.fresh and path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
