"""The file systems that our folders lie on: their kind from the table of mounts, their room from the kernel or df."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from appliance.core.facts import FileSystem
from appliance.core.record import record
from appliance.host.notebook import Notebook
from appliance.host.source import AbsentError, bytes_of, is_this_machine, named, place, plain, reason_for, text_of

DF = "commands/df.txt"

LARGEST_TABLE = 2**24
"""Bytes; a machine with many containers has thousands of mounts with long options."""

SCALES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


@record
class Mount:
    """One line of a table of mounts."""

    place: str
    kind: str


@record
class Room:
    """One line of df."""

    mount: str
    kind: str
    """Empty where df was not asked for it."""
    total: int | None
    free: int | None


def file_systems(root: Path, folders: Iterable[str], notebook: Notebook) -> tuple[FileSystem, ...]:
    """Return the file system of each folder, each once; of one that is not there, that where it would be made.

    Raises LookupError with the reason where nothing tells what is mounted.
    """
    rooms = _rooms(root)
    mounts = _mounts(root, rooms)
    found: dict[str, FileSystem] = {}
    for folder in folders:
        mount = notebook.ask(f"file system of {folder}", partial(_mount_below, root, folder, mounts))
        if mount and mount.place not in found:
            found[mount.place] = _measured(root, mount, rooms, notebook)
    return tuple(found.values())


def _mount_below(root: Path, folder: str, mounts: tuple[Mount, ...]) -> Mount:
    at = place(root, folder)
    return mount_of(os.path.realpath(at) if is_this_machine(root) else named(root, at), mounts)


def _mounts(root: Path, rooms: tuple[Room, ...]) -> tuple[Mount, ...]:
    for path, meaning in TABLES.items():
        try:
            # The kernel spells a path's bytes as they are.
            return meaning(bytes_of(root, path, LARGEST_TABLE).decode(errors="surrogateescape"))
        except AbsentError:
            continue
    if not rooms:
        raise AbsentError(f"there is none of {', '.join((*TABLES, DF))}")
    return tuple(Mount(place=room.mount, kind=room.kind) for room in rooms)


def mounts_of_mountinfo(text: str) -> tuple[Mount, ...]:
    """Return the mounts of /proc/self/mountinfo. Raises LookupError where it names none."""
    lines = (re.match(r"[0-9]+ [0-9]+ \S+ \S+ (\S+) (?:\S+ )*?- (\S+) ", line) for line in text.splitlines())
    return _some(Mount(place=_unescaped(line[1]), kind=line[2]) for line in lines if line)


def mounts_of(text: str) -> tuple[Mount, ...]:
    """Return the mounts of /proc/mounts. Raises LookupError where it names none."""
    lines = (line.split() for line in text.splitlines())
    return _some(Mount(place=_unescaped(words[1]), kind=words[2]) for words in lines if len(words) >= 4)


TABLES: Mapping[str, Callable[[str], tuple[Mount, ...]]] = {
    "/proc/self/mountinfo": mounts_of_mountinfo,
    "/proc/self/mounts": mounts_of,
    "/proc/mounts": mounts_of,
}


def _some(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    found = tuple(mount for mount in mounts if mount.place.startswith("/"))
    if not found:
        raise LookupError("the table of mounts names none")
    return found


def _unescaped(text: str) -> str:
    r"""Return a path as it is; the kernel writes blanks as octal numbers.

    >>> _unescaped(r"/mnt/my\040disk")
    '/mnt/my disk'
    """
    return re.sub(r"\\([01][0-7]{2})", lambda found: chr(int(found[1], 8)), text)


def mount_of(folder: str, mounts: tuple[Mount, ...]) -> Mount:
    """Return the mount that a folder lies below. Of two at one place the later covers the earlier."""
    best = max(
        (mount for mount in mounts if f"{folder}/".startswith(f"{mount.place.rstrip('/')}/")),
        key=lambda mount: len(mount.place.rstrip("/")),
        default=None,
    )
    if best is None:
        raise LookupError(f"nothing is mounted above {folder}")
    return [mount for mount in mounts if mount.place == best.place][-1]


def _measured(root: Path, mount: Mount, rooms: tuple[Room, ...], notebook: Notebook) -> FileSystem:
    what = f"file system {plain(mount.place)}"
    if is_this_machine(root):
        room = notebook.ask(what, lambda: _asked(mount))
    else:
        room = notebook.ask(what, lambda: _kept(mount, rooms))
    return FileSystem(
        mount=plain(mount.place),
        kind=plain(mount.kind),
        total=room.total if room else None,
        free=room.free if room else None,
    )


def _asked(mount: Mount) -> Room:
    try:
        found = os.statvfs(mount.place)
    except OSError as error:
        raise reason_for(mount.place, error) from None
    total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return Room(mount=mount.place, kind=mount.kind, total=total, free=free)


def _kept(mount: Mount, rooms: tuple[Room, ...]) -> Room:
    room = next((room for room in reversed(rooms) if room.mount == mount.place), None)
    if room is None:
        raise LookupError(f"{DF} does not tell its room")
    return room


def _rooms(root: Path) -> tuple[Room, ...]:
    if is_this_machine(root):
        return ()
    try:
        return tuple(rooms_of(text_of(root, DF)))
    except LookupError:
        return ()


def rooms_of(text: str) -> Iterator[Room]:
    r"""Yield the lines of `df`, with or without -h, -T and -B; what is no such line is left out.

    >>> next(rooms_of("Filesystem Size Used Avail Use% Mounted on\n/dev/sda1 252G 17G 64G 21% /")).free
    68719476736
    """
    head, *rows = text.splitlines() or [""]
    columns = head.split()
    block = next((found[1] for word in columns if (found := re.fullmatch(r"([0-9]{0,7}[BKMG]?)-blocks", word))), "")
    scale = _size(block.rstrip("B")) or 1
    for row in rows:
        words = row.split()
        share = next((at for at, word in enumerate(words) if re.fullmatch(r"[0-9]{1,3}%|-", word) and at >= 4), None)
        if share is None or not (mount := " ".join(words[share + 1 :])).startswith("/"):
            continue
        kind = words[share - 4] if "Type" in columns and share >= 5 else ""
        yield Room(mount=mount, kind=kind, total=_size(words[share - 3], scale), free=_size(words[share - 1], scale))


def _size(word: str, scale: int = 1) -> int | None:
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,3})?)([KMGTPE]?)", word)
    if not found:
        return None
    number = float(found[1]) if "." in found[1] else int(found[1])
    return int(number * SCALES[found[2]]) * scale
