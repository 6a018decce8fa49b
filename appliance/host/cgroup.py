"""The processes of the unit that this one belongs to."""

from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def own_pids(pid: int | None = None) -> frozenset[int]:
    """Return the processes of a process's control group, ours where none is named; none where that can't be told."""
    try:
        line = next(
            line for line in Path(f"/proc/{pid or 'self'}/cgroup").read_text().splitlines() if line.startswith("0::")
        )
        pids = (GROUPS / line.removeprefix("0::").lstrip("/") / "cgroup.procs").read_text().split()
    except (OSError, StopIteration):
        return frozenset()
    return frozenset(int(pid) for pid in pids)
