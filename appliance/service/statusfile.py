"""/run/vllm-serve/status.json: the view of the service for readers of any kind."""

from pathlib import Path

from appliance.core.codec import json_of, record_of
from appliance.core.status import Identity, Status

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


def identity_of(pid: int) -> Identity | None:
    """Return which process has a pid now; None where none has, or a dead one that nobody collected."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # from the third on; a name may hold anything
    return None if fields[0] == "Z" else Identity(pid=pid, started=int(fields[19]))


def is_alive(status: Status) -> bool:
    """Tell whether the supervisor that wrote a view still runs."""
    return identity_of(status.supervisor.pid) == status.supervisor
