"""Text files that a person wrote."""

import os
import stat
import tempfile
from pathlib import Path

from appliance.core.document import LARGEST_FILE
from appliance.core.imported.toml import printable
from appliance.core.problem import Problem, RefusedError


def text_at(path: Path) -> str:
    """Read a file of UTF-8. Raises RefusedError, without waiting for a pipe or reading what is far too large."""
    try:
        content = _content(path, 4 * LARGEST_FILE)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"byte {error.start} is not UTF-8"
        problem = Problem(file=label(path), line=line, key="", what=what, hint="save the file as UTF-8")
    except FileNotFoundError as error:
        problem = problem_with(path, dangling(path) if path.is_symlink() else f"can't be read: {error.strerror}")
    except OSError as error:
        problem = problem_with(path, f"can't be read: {error.strerror}")
    raise RefusedError([problem])


def bounded(path: Path, most: int) -> bytes:
    """Read a plain file of at most so many bytes. Raises RefusedError."""
    try:
        return _content(path, most)
    except OSError as error:
        raise RefusedError([problem_with(path, f"can't be read: {error.strerror}")]) from None


def _content(path: Path, most: int) -> bytes:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        what = "is a folder, wants a file" if stat.S_ISDIR(mode) else "is no plain file"
        raise RefusedError([problem_with(path, what)])
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise RefusedError([problem_with(path, f"more than {most} bytes")])
    return content


def dangling(link: Path) -> str:
    """Return what is wrong with a link to nothing."""
    return f"a link to {label(link.readlink())}, where nothing is"


def problem_with(path: Path, what: str, hint: str = "") -> Problem:
    """Return a problem of a file as a whole."""
    return Problem(file=label(path), line=None, key="", what=what, hint=hint)


def label(path: Path) -> str:
    """Return a path as messages and comments show it: on one line, whatever its names are made of."""
    return printable(str(path))


def write_text(path: Path, text: str, *, replace: bool) -> None:
    """Put a text in a file, at once and for all to read; a link stays one. Raises RefusedError.

    With `replace` it takes the place of a plain file, whose mode and owner it keeps; without it nothing may be there.
    """
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".vllm-serve.toml.")
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                _like(target, descriptor)
                stream.flush()
                os.fsync(descriptor)
            if replace:
                draft.replace(target)
            else:
                target.hardlink_to(draft)
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        raise RefusedError([problem_with(path, "is there already", "--force replaces it")]) from None
    except OSError as error:
        raise RefusedError([problem_with(path, f"can't be written: {error.strerror}")]) from None


def _like(target: Path, descriptor: int) -> None:
    """Give a new file the mode and the owner of the one that it replaces. Raises RefusedError for what is no file."""
    try:
        old = target.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644)
        return
    if not stat.S_ISREG(old.st_mode):
        raise RefusedError([problem_with(target, "is no plain file")])
    os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
