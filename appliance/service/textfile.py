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
        content = _content(path)
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


def _content(path: Path) -> bytes:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        what = "is a folder, wants a file" if stat.S_ISDIR(mode) else "is no plain file"
        raise RefusedError([problem_with(path, what)])
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        content = stream.read(4 * LARGEST_FILE + 1)
    if len(content) > 4 * LARGEST_FILE:
        raise RefusedError([problem_with(path, f"more than {LARGEST_FILE} characters")])
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


def write_text(path: Path, text: str) -> None:
    """Put a text in the place of a file, at once and for all to read; a link stays one. Raises RefusedError."""
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".vllm-serve.toml.")
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                os.fchmod(descriptor, 0o644)
                stream.flush()
                os.fsync(descriptor)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise RefusedError([problem_with(path, f"can't be written: {error.strerror}")]) from None
