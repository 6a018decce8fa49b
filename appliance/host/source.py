"""Files of a machine, below a root: links lead where they would lead on that machine, and never out of the root."""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

THIS_MACHINE = Path("/")

LARGEST = 2**20
"""Bytes that are read of one file; what is larger is not what it should be."""

LINKS = 40
"""Links that one path may lead through, the kernel's own limit."""

LARGEST_LINK = 4096
"""Bytes; the kernel's limit for a path."""


class AbsentError(LookupError):
    """There is nothing at that place."""


def is_this_machine(root: Path) -> bool:
    """Tell whether the root is this machine's own: only then may programs, sockets and drivers be asked."""
    return root.resolve() == THIS_MACHINE


def place(root: Path, path: str) -> Path:
    """Return where a path of that machine lies below the root, with no link left in it but below `/`.

    Raises LookupError where the links have no end, and for what can be no path.
    """
    try:
        if "\0" in path or len(os.fsencode(path)) > LARGEST_LINK:
            raise LookupError(f"{path[:60]!r} can be no path")
    except UnicodeEncodeError:
        raise LookupError(f"{path[:60]!r} can be no path") from None
    top = root.resolve()
    if top == THIS_MACHINE:
        return Path(path)
    trail: list[str] = []
    ahead = _parts(path)
    links = 0
    while ahead:
        part = ahead.pop()
        target = None if part == ".." else _target(top, [*trail, part], last=not ahead)
        if target is not None:
            links += 1
            if links > LINKS:
                raise LookupError(f"{path} leads through more than {LINKS} links")
            trail = [] if target.startswith("/") else trail
            ahead += _parts(target)
        elif part == "..":
            trail = trail[:-1]
        else:
            trail.append(part)
    return top.joinpath(*trail)


def _parts(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in {"", "."}]


def _target(top: Path, trail: list[str], *, last: bool) -> str | None:
    """Return where a link leads; None for what is no link. Below sys/ a file in the middle of a path is one too."""
    at = top.joinpath(*trail)
    try:
        return str(at.readlink())
    except OSError:
        return None if last or trail[0] != "sys" else _written_target(at)


def _written_target(at: Path) -> str | None:
    """Return the target that a plain file holds: archives that can't hold links store them so."""
    try:
        if not at.is_file() or at.stat().st_size > LARGEST_LINK:
            return None
        text = at.read_text().strip()
    except (OSError, ValueError):
        return None
    return text if text and text.isprintable() else None


def named(root: Path, at: Path) -> str:
    """Return a place below the root as that machine names it."""
    return f"/{at.relative_to(root.resolve())}" if not is_this_machine(root) else str(at)


def plain(text: str) -> str:
    r"""Return a name that can be printed and stored: bytes that are no UTF-8 are spelled out.

    >>> plain("caf\udce9")
    'caf\\udce9'
    """
    return text.encode(errors="backslashreplace").decode()


def link_of(root: Path, path: str) -> str:
    """Return where a link leads, as it says itself. Raises AbsentError, and LookupError for what is no link."""
    parent, _, name = path.rpartition("/")
    at = place(root, parent) / name
    try:
        return str(at.readlink())
    except OSError as error:
        if target := _written_target(at):
            return target
        raise reason_for(path, error) from None


def bytes_of(root: Path, path: str, largest: int = LARGEST) -> bytes:
    """Return the content of a regular file. Raises AbsentError, and LookupError with the reason."""
    at = place(root, path)
    try:
        if not stat.S_ISREG(at.stat().st_mode):
            raise LookupError(f"{path} is not a file")
        with at.open("rb") as stream:
            content = stream.read(largest + 1)
    except OSError as error:
        raise reason_for(path, error) from None
    if len(content) > largest:
        raise LookupError(f"{path} is larger than {largest} bytes")
    return content


def text_of(root: Path, path: str, largest: int = LARGEST) -> str:
    """Return the text of a file. Raises AbsentError, and LookupError with the reason."""
    try:
        text = bytes_of(root, path, largest).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LookupError(f"{path} is not text: byte {error.start} is not UTF-8") from None
    if not text.strip():
        raise LookupError(f"{path} is empty")
    return text


def first_text(root: Path, paths: Iterable[str]) -> str:
    """Return the text of the first file that is there. Raises AbsentError naming all, and LookupError."""
    tried = []
    for path in paths:
        try:
            return text_of(root, path)
        except AbsentError:
            tried.append(path)
    raise AbsentError(f"there is none of {', '.join(tried)}")


def table_of(root: Path, path: str, largest: int = LARGEST) -> dict[str, Any]:
    """Return the table that a file of JSON holds. Raises AbsentError, and LookupError with the reason."""
    try:
        found = json.loads(text_of(root, path, largest))
    except (ValueError, RecursionError) as error:
        raise LookupError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise LookupError(f"{path} holds no table but {plain(str(found)[:40])}")
    return found


def names_of(root: Path, path: str) -> tuple[str, ...]:
    """Return the names in a folder, sorted. Raises AbsentError, and LookupError with the reason."""
    try:
        return tuple(sorted(entry.name for entry in place(root, path).iterdir()))
    except OSError as error:
        raise reason_for(path, error) from None


def numbers_of(root: Path, path: str) -> tuple[int, ...]:
    """Return the names in a folder that are numbers, in the order of numbers. Raises as `names_of` does."""
    return tuple(sorted(int(name) for name in names_of(root, path) if name.isdecimal() and len(name) < 10))


def files_of(root: Path, folder: str) -> dict[str, Path]:
    """Return the regular files of a folder by name, each at its place. Raises as `names_of` does."""
    found = {}
    for name in names_of(root, folder):
        try:
            at = place(root, f"{folder}/{name}")
            if stat.S_ISREG(at.stat().st_mode):
                found[name] = at
        except (OSError, LookupError):
            continue
    return found


def is_there(root: Path, path: str) -> bool:
    """Tell whether there is something at a path. Raises LookupError where that can't be told."""
    try:
        place(root, path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise reason_for(path, error) from None
    return True


def is_file(root: Path, path: str) -> bool:
    """Tell whether there is a file at a path. Raises LookupError where that can't be told."""
    return is_there(root, path) and place(root, path).is_file()


def reason_for(path: str, error: OSError) -> LookupError:
    """Return why a path can't be read."""
    if isinstance(error, FileNotFoundError):
        return AbsentError(f"there is no {path}")
    return LookupError(f"{path} can't be read: {error.strerror}")
