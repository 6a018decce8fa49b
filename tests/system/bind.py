"""A folder or file of the host that a machine sees."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """One mount from the host into a machine."""

    source: Path
    target: Path
    writable: bool = False

    def option(self) -> str:
        r"""Return the option of systemd-nspawn for this mount.

        >>> Bind(source=Path("/a:b"), target=Path("/c")).option()
        '--bind-ro=/a\\:b:/c'
        """
        name = "--bind" if self.writable else "--bind-ro"
        return f"{name}={_escaped(self.source)}:{_escaped(self.target)}"


def same_place(source: Path) -> Bind:
    """Return the mount that shows SOURCE, read-only, under the path it has on the host."""
    return Bind(source=source, target=source)


def _escaped(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:")
