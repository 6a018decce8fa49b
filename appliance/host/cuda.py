"""The release of the CUDA compiler."""

import re
from pathlib import Path

from appliance.host.command import printed
from appliance.host.source import first_text, is_this_machine, place

KEPT = ("commands/nvcc-version.txt", "commands/nvcc.txt", "commands/nvcc--version.txt")
"""Where a root keeps what `nvcc --version` printed."""

PATIENCE = 10.0
"""Seconds that nvcc may take."""


def nvcc_release(root: Path, home: str | None) -> str:
    """Return the release of the compiler in a CUDA home. Raises LookupError with the reason."""
    if not is_this_machine(root):
        return release_of(first_text(root, KEPT))
    if home is None:
        raise LookupError("no CUDA home is named")
    return release_of(printed(f"{home}/bin/nvcc", "--version", seconds=PATIENCE))


def toolkit_below(root: Path, packages: str) -> str | None:
    """Return the CUDA toolkit that an engine's wheels brought, as that machine names it; the newest of several."""
    found = sorted(place(root, f"{packages}/nvidia").glob("cu*/bin/nvcc")) if is_this_machine(root) else []
    return str(found[-1].parents[1]) if found else None


def release_of(text: str) -> str:
    """Return the release that `nvcc --version` names. Raises LookupError where it names none.

    >>> release_of("Cuda compilation tools, release 13.0, V13.0.48")
    '13.0'
    """
    found = re.search(r"release ([0-9]{1,4}\.[0-9]{1,4})", text)
    if not found:
        raise LookupError("nvcc names no release")
    return found[1]
