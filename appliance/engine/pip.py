"""pip, as the installer uses it: its command, what its lines tell of the progress, and why it failed."""

import re
from pathlib import Path

CONNECT = (
    "connect this machine, or tell pip its proxy or mirror in /etc/pip.conf, "
    "or install from a folder of wheels: vllm-serve engine install --wheelhouse DIR"
)

UNREACHED = re.compile(
    r"(Failed to establish a new connection: [^')\"]+|ProxyError\('[^')]+|SSLError\(.*?\)|[Rr]ead timed out|"
    r"Connection to \S+ timed out)"
)
"""How pip's warnings say that an index does not answer; its last line says only that nothing matches."""

REASONS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (UNREACHED, "the package index can't be reached: {0}", CONNECT),
    (re.compile(r"No space left on device"), "the disk is full", "make room, or set [paths] engines to another disk"),
    (
        re.compile(r"^\s+(\S+==\S+) from "),
        "{0} is not the file that the lock names",
        "the mirror serves another build, or somebody changed it; use the index or wheels that the lock is made from",
    ),
    (
        re.compile(r"No matching distribution found for (torch==\S+\+cpu)"),
        "{0} is not on the plain package index",
        "add PyTorch's index of CPU builds as extra-index-url in /etc/pip.conf, or install with --wheelhouse DIR",
    ),
    (re.compile(r"No matching distribution found for (\S+)"), "no index or folder has {0}", CONNECT),
    (re.compile(r"^ERROR: (.*)"), "pip says: {0}", "see the lines before"),
)
"""What to look for in pip's output, in this order, with what it means and what to do."""


def pip_command(folder: Path, *arguments: str) -> list[str]:
    """Return the command that runs an environment's own pip, whatever lies in the working directory."""
    return [str(folder / "bin" / "python"), "-I", "-m", "pip", "--no-input", "--disable-pip-version-check", *arguments]


def why_failed(lines: list[str]) -> str:
    """Return the reason of a failure and what to do, from everything that pip printed."""
    for pattern, reason, hint in REASONS:
        found = next((match for line in lines if (match := pattern.search(line))), None)
        if found:
            return f"{reason.format(*found.groups())}; {hint}"
    return f"pip says: {(lines or ['nothing'])[-1][:300]}"


def progress_of_pip(lines: list[str], total: int) -> str | None:
    """Return what the newest line is worth telling: each package's turn, and the long step at the end."""
    if lines[-1].startswith("Collecting "):
        count = sum(line.startswith("Collecting ") for line in lines)
        return f"fetching package {count} of {total}: {lines[-1].split()[1]}"
    if lines[-1].startswith("Installing collected packages"):
        return f"unpacking {total} packages"
    return None
