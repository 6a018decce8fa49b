"""Every file below a root that is a copy of a machine."""

import errno
import stat
from pathlib import Path

from appliance.core.record import record
from appliance.host.source import is_this_machine, place, plain

SKIPPED = {"proc", "sys", "dev", "run", "commands"}
"""Folders of the root that hold no files of a disk."""

MOST = 20_000
"""Entries that are looked at."""


@record
class Inventory:
    """What a walk over a root found."""

    files: tuple[str, ...] = ()
    """Regular files, as that machine names them, sorted."""
    complete: bool = False
    """False when there were too many entries, a folder that can't be read, or links in a circle."""


@record
class _Folder:
    """A folder to look into."""

    name: str
    """As that machine names it; empty for the root."""
    at: Path
    above: tuple[Path, ...] = ()
    """The folders on the way here: one of them again is a circle."""


def inventory(root: Path, most: int = MOST) -> Inventory:
    """Return the files below a root; none of this machine, whose disks are too large for a look at each start."""
    if is_this_machine(root):
        return Inventory()
    files: list[str] = []
    top = root.resolve()
    ahead = [_Folder(name="", at=top)]
    looked, complete = 0, True
    while ahead:
        folder = ahead.pop()
        entries, whole = _entries(top, folder, most - looked)
        looked += len(entries)
        complete = complete and whole
        for entry in entries:
            if isinstance(entry, _Folder):
                ahead.append(entry)
            elif entry:
                files.append(entry)
    return Inventory(files=tuple(sorted(files)), complete=complete)


def _entries(top: Path, folder: _Folder, most: int) -> tuple[list[_Folder | str | None], bool]:
    """Return at most so many entries of a folder, and whether that is all there is to see."""
    try:
        places = sorted(folder.at.iterdir())
    except OSError:
        return [], False
    entries: list[_Folder | str | None] = []
    whole = len(places) <= most
    for at in places[:most]:
        try:
            entries.append(_seen(top, folder, at))
        except OSError:
            whole = False
    return entries, whole


def _seen(top: Path, folder: _Folder, at: Path) -> _Folder | str | None:
    """Return a folder to look into, or the name of a file; None for anything else. Raises OSError, for a circle too."""
    name = f"{folder.name}/{at.name}"
    try:
        real = place(top, name) if at.is_symlink() else at
        mode = real.stat().st_mode
    except (FileNotFoundError, LookupError):
        # A link to nothing.
        return None
    if stat.S_ISREG(mode):
        return plain(name)
    if not stat.S_ISDIR(mode) or SKIPPED & {name.removeprefix("/"), *real.relative_to(top).parts[:1]}:
        return None
    above = (*folder.above, folder.at)
    if real in above:
        raise OSError(errno.ELOOP, "a folder that lies in itself", name)
    return _Folder(name=name, at=real, above=above)
