"""The processes of the unit that this one belongs to."""

from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def own_pids() -> frozenset[int]:
    """Return the processes of this process's control group, which is the unit's; none where that can't be told."""
    try:
        line = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        pids = (GROUPS / line.removeprefix("0::").lstrip("/") / "cgroup.procs").read_text().split()
    except (OSError, StopIteration):
        return frozenset()
    return frozenset(int(pid) for pid in pids)
