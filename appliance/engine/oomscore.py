"""Who dies first when the machine runs out of memory: the engine, which can be started again."""

from pathlib import Path

FIRST = 500
"""Of 1000. The unit gives the supervisor -250; what a process starts inherits its score, and may only raise it."""


def offer(pid: int, root: Path = Path("/"), score: int = FIRST) -> str | None:
    """Make a process, and all that it starts later, die before others; return what went wrong, if anything did."""
    file = root / f"proc/{pid}/oom_score_adj"
    try:
        if int(file.read_text()) < score:
            file.write_text(str(score))
    except (OSError, ValueError) as error:
        return f"{file} can't be raised to {score}: {getattr(error, 'strerror', None) or error}"
    return None
