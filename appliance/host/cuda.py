"""The release of the CUDA compiler."""

import re
from pathlib import Path

from appliance.host.command import printed
from appliance.host.source import first_text, is_this_machine

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


def release_of(text: str) -> str:
    """Return the release that `nvcc --version` names. Raises LookupError where it names none.

    >>> release_of("Cuda compilation tools, release 13.0, V13.0.48")
    '13.0'
    """
    found = re.search(r"release ([0-9]{1,4}\.[0-9]{1,4})", text)
    if not found:
        raise LookupError("nvcc names no release")
    return found[1]
