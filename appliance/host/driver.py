"""Which driver of the GPUs is in use: the version of the loaded module, and that of its library."""

import re
from pathlib import Path

from appliance.core.record import record
from appliance.host.source import place, text_of

MODULE_FILES = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")
"""Where the kernel tells the version of the loaded module; the driver answers for the second, and may wait."""

LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64",
    "/usr/lib",
)
"""Where the driver's library lies: the distributions', and where NVIDIA's own installer puts it."""

LIBRARY = "libcuda.so"

VERSION = re.compile(r"(?<![\w.])\d{2,4}(?:\.\d{1,4}){1,3}(?![\w.])")
"""As 580.65.06; dates and times beside it have no dots."""


@record
class Driver:
    """The versions of the two halves of a driver."""

    module: str | None = None
    """None where no module is loaded, or it does not tell."""
    library: str | None = None
    """None where no library lies in the usual places; a newer one can lie beside an older loaded module."""


def driver_in_use(root: Path) -> Driver:
    """Return the driver of a machine, from a few small files; neither NVML nor a program is asked."""
    return Driver(module=_module(root), library=_library(root))


def change_between(before: Driver, now: Driver) -> str:
    """Return what is another version now; empty where nothing is. What can't be told now is no change.

    >>> change_between(Driver(module="580.65.06"), Driver(module="580.82.07"))
    'module 580.65.06 -> 580.82.07'
    """
    halves = (("module", before.module, now.module), ("library", before.library, now.library))
    return ", ".join(f"{name} {old or 'none'} -> {new}" for name, old, new in halves if new not in (None, old))


def _module(root: Path) -> str | None:
    for path in MODULE_FILES:
        try:
            found = VERSION.search(text_of(root, path))
        except LookupError:
            continue
        if found:
            return found[0]
    return None


def _library(root: Path) -> str | None:
    """Return the version in the name of the file that the library's link leads to."""
    for folder in LIBRARY_FOLDERS:
        try:
            file = place(root, f"{folder}/{LIBRARY}.1").resolve(strict=True)
        except (OSError, LookupError):
            continue
        if found := VERSION.search(file.name.removeprefix(f"{LIBRARY}.")):
            return found[0]
    return None
