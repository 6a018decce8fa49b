"""last-failure.json in the state folder of the service: the last failure, for `vllm-serve explain`."""

import contextlib
import os
from pathlib import Path

from appliance.core.codec import json_of, record_of
from appliance.core.failure import Failure

NAME = "last-failure.json"

STATE = Path("/var/lib/vllm-serve/state")
"""Where the unit keeps its state; systemd makes the folder and names it in STATE_DIRECTORY."""

MODE = 0o640
"""For the service's group: the lines may name paths and hosts, which are not for everybody."""


def keep_failure(folder: Path, failure: Failure) -> str | None:
    """Replace the file in one step, which a power cut does not tear; return what went wrong, None where nothing did."""
    draft = folder / f".{NAME}.new"
    text = (json_of(failure) + "\n").encode("utf-8", "backslashreplace")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        draft.chmod(MODE)  # whatever the umask is
        draft.replace(folder / NAME)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        return f"{folder / NAME} can't be written: {error.strerror}"
    return None


def read_failure(folder: Path) -> Failure | None:
    """Return the last failure; None where none is kept. Raises OSError, and ValueError on a damaged file."""
    try:
        return record_of(Failure, (folder / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
