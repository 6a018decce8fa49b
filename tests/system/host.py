"""What the host offers to a machine: whether one can boot here, and what it needs to see of it."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.system import apt_source, package_index
from tests.system.bind import Bind
from tests.system.cgroup import machine_cgroup

PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
PIP_CONF = Path("/etc/pip.conf")
APT_CREDENTIALS = (Path("/etc/apt/auth.conf"), Path("/etc/apt/auth.conf.d"))
TRIAL = """
    mount -t tmpfs none /tmp && mkdir /tmp/lower /tmp/upper /tmp/work /tmp/merged &&
    mount -t overlay -o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work none /tmp/merged
"""


def can_boot() -> str | None:
    """Return why no machine can boot here, in words for a person; None where one can.

    What can be tried cheaply is tried: a control group, namespaces of its own, an overlay.
    """
    if os.geteuid() != 0:
        return f"booting a machine takes root; this is user {os.geteuid()}"
    missing = {program: name for program, name in PROGRAMS.items() if not shutil.which(program)}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        return f"{', '.join(missing)} not found; apt-get install {packages}"
    return _without_cgroup() or _without_namespaces()


def host_binds(cache: Path) -> tuple[Bind, ...]:
    """Return what apt and pip in a machine need to see of the host to reach what it reaches.

    That is a pip.conf made for machines (kept in CACHE), the folders that it names, the
    certificates that the host trusts, and the files that the host's apt authenticates with.
    """
    settings = package_index.host_settings()
    conf = _kept(package_index.pip_conf(settings, os.environ), cache / "pip")
    seen = (
        *package_index.folders_in(settings),
        *package_index.files_in(settings),
        *apt_source.files_in(apt_source.host_settings()),
        *APT_CREDENTIALS,
    )
    binds = {
        PIP_CONF: conf,
        **{path: path for path in seen},
        package_index.CERTIFICATES: package_index.host_certificates(settings),
    }
    return tuple(Bind(source=source, target=target) for target, source in binds.items() if source.exists())


def _kept(text: str, folder: Path) -> Path:
    """Return a file of FOLDER with this text; its name is the text's, so nobody else changes it."""
    path = folder / hashlib.sha256(text.encode()).hexdigest()[:12]
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text)
        unfinished.rename(path)
    return path


def _without_cgroup() -> str | None:
    group = machine_cgroup("trial", Path(str(os.getpid())))
    if not group.folders:
        return "no control group hierarchy of systemd's is mounted below /sys/fs/cgroup"
    try:
        group.make()
    except OSError as error:
        return f"making a control group: {error}"
    finally:
        group.clear()
    return None


def _without_namespaces() -> str | None:
    namespaces = ["--mount", "--uts", "--ipc", "--net", "--cgroup", "--pid", "--fork"]
    command = ["unshare", *namespaces, "--", "sh", "-c", TRIAL]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    if result.returncode == 0:
        return None
    return f"making namespaces and an overlay as a machine has them: {result.stderr.strip()}"
