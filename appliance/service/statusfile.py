"""/run/vllm-serve/status.json: the view of the service for readers of any kind."""

from pathlib import Path

import psutil

from appliance.core.codec import json_of, record_of
from appliance.core.status import Status

NAME = "status.json"


def write_status(runtime: Path, status: Status) -> None:
    """Replace the file in one step."""
    draft = runtime / f".{NAME}.new"
    draft.write_text(json_of(status) + "\n")
    draft.chmod(0o644)  # the unit's umask is not for what everybody may read
    draft.replace(runtime / NAME)


def read_status(runtime: Path) -> Status | None:
    """Return the newest view; None where no supervisor has run. Raises ValueError on a damaged file."""
    try:
        return record_of(Status, (runtime / NAME).read_text())
    except FileNotFoundError:
        return None


def is_alive(status: Status) -> bool:
    """Tell whether the supervisor that wrote a view still runs."""
    try:
        process = psutil.Process(status.supervisor.pid)
        return process.create_time() == status.supervisor.started and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
