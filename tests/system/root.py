"""The root folders of Debian from which machines boot: made once, kept in the cache."""

import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tests.system import apt_source
from tests.system.apt_source import AptSource
from tests.system.command import CommandError, checked, finished
from tests.system.lock import BusyError, held

SYSTEM = """
    systemd systemd-sysv dbus logrotate iproute2 procps curl ca-certificates apt-utils
    python3 python3-venv
"""
# What the product's package depends on or recommends: a machine without a network has to have it.
PRODUCT = """
    python3-aiohttp python3-cattr python3-click python3-jsonschema python3-psutil python3-regex python3-rich
    python3-sdnotify python3-systemd python3-tomli
    g++ gcc libc6-dev libnuma1 openssl python3-dev
"""
HOST_NAME = "debian"
# mmdebstrap leaves the host's name and resolver behind, and no /etc/hosts. A machine-id keeps each
# boot from being a first boot, at which systemd would enable every unit that it finds.
HOOKS = (
    f'echo {HOST_NAME} >"$1/etc/hostname"',
    f'printf "127.0.0.1 localhost\\n::1 localhost\\n127.0.1.1 {HOST_NAME}\\n" >"$1/etc/hosts"',
    ': >"$1/etc/resolv.conf"',
    'chroot "$1" systemd-machine-id-setup',
)
# An interrupted mmdebstrap leaves processes and mounts behind, and a removal that went through
# those mounts would reach the host: both end with namespaces that end with this process.
CONTAINED = (
    *("setpriv", "--pdeathsig=KILL", "--"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
)
SECONDS_TO_BUILD = 1800.0
SECONDS_KEPT_UNUSED = 24 * 3600.0
UNFINISHED = ".unfinished-"


class RootError(Exception):
    """A root could not be made."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides what is in a root."""

    suite: str
    sources: tuple[AptSource, ...]
    settings: tuple[str, ...]
    """Lines of apt.conf, for the making of the root and for apt in it."""
    keyring: Path | None

    def argv(self, target: Path) -> list[str]:
        """Return the command that makes the root at TARGET."""
        return [
            "mmdebstrap",
            "--variant=minbase",
            f"--include={','.join((SYSTEM + PRODUCT).split())}",
            *(f"--aptopt={line}" for line in self.settings),
            *(f"--customize-hook={hook}" for hook in HOOKS),
            self.suite,
            str(target),
            *(source.line(self.keyring) for source in self.sources),
        ]

    def folder_name(self) -> str:
        """Return a name that no other recipe has."""
        text = "\0".join(self.argv(Path("/target")))
        return f"{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def debian_root(cache: Path, suite: str = "bookworm") -> Path:
    """Return the root of SUITE in the cache, and make it first where there is none (a minute).

    Archives, proxies and certificates are the host's. Raises RootError where it cannot be made.
    """
    keyring = apt_source.ARCHIVE_KEYRING
    recipe = Recipe(
        suite=suite,
        sources=apt_source.host_sources(suite),
        settings=apt_source.host_settings(),
        keyring=keyring if keyring.exists() else None,
    )
    roots = cache / "roots"
    roots.mkdir(parents=True, exist_ok=True)
    root = roots / recipe.folder_name()
    with held(roots):
        if not root.is_dir():
            _make(recipe, root, cache / "logs" / f"{root.name}.log")
        os.utime(root)
        _remove_unused(roots, time.time() - SECONDS_KEPT_UNUSED)
    return root


def _make(recipe: Recipe, root: Path, log: Path) -> None:
    unfinished = root.with_name(f"{UNFINISHED}{root.name}-{os.getpid()}")
    _remove(unfinished)
    argv = [*CONTAINED, *recipe.argv(unfinished)]
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        result = checked(finished(argv, named=argv, timeout=SECONDS_TO_BUILD))
        unfinished.rename(root)
    except CommandError as failure:
        log.write_text(failure.output)
        raise RootError(f"making a root of Debian {recipe.suite}: {failure}") from failure
    finally:
        _remove(unfinished)
    log.write_text(result.stdout + result.stderr)


def _remove_unused(roots: Path, since: float) -> None:
    """Remove what, finished or not, is of no use SINCE that time and no machine runs from."""
    for root in list(roots.iterdir()):
        if root.is_dir() and root.stat().st_mtime < since:
            try:
                with held(root, wait=False):
                    _remove(root.rename(roots / f"{UNFINISHED}{root.name}"))
            except BusyError:
                continue


def _remove(folder: Path) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    if f" {folder}/" in mounts:
        raise RootError(f"{folder} has mounts below it\nhint: umount --recursive {folder}")
    if folder.exists():
        shutil.rmtree(folder)
