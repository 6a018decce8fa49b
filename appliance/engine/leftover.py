"""Shared memory that a killed engine leaves in /dev/shm."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

SHARED = "/dev/shm/"  # noqa: S108  # a look-up of names, nothing is made there


def segments_of(root: Path, pids: Iterable[int]) -> set[str]:
    """Return the names of the segments that processes have mapped or open; a file in a folder there is none."""
    names = {name for pid in pids for name in _names_in_use(root / "proc" / str(pid))}
    return {name for name in names if "/" not in name}


def names_in(root: Path) -> frozenset[str]:
    """Return the names of everything in /dev/shm."""
    return frozenset(file.name for file in (root / "dev/shm").iterdir())


def remove_leftovers(root: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Remove those of the named segments that no living process uses any more; return their names."""
    folder = root / "dev/shm"
    left = {name for name in names if (folder / name).is_file()}
    used = {name for process in (root / "proc").glob("[0-9]*") for name in _names_in_use(process)} if left else set()
    removed = []
    for name in sorted(left - used):
        with contextlib.suppress(OSError):
            (folder / name).unlink()
            removed.append(name)
    return tuple(removed)


def _names_in_use(process: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for line in (process / "maps").read_text().splitlines():
            if SHARED in line and not line.endswith("(deleted)"):
                yield line.partition(SHARED)[2]
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(link.readlink())
                if target.startswith(SHARED) and not target.endswith("(deleted)"):
                    yield target.removeprefix(SHARED)
