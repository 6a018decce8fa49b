"""The package under test, built from the files that git tracks."""

import subprocess
import tempfile
from pathlib import Path

TREE = Path(__file__).parents[2]


class BuildError(Exception):
    """The package could not be built; the text ends with what the build said last."""


def built_package(out: Path) -> Path:
    """Build the package into a folder and return its file."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("vllm-serve_*.deb"):
        old.unlink()
    with tempfile.TemporaryDirectory() as build:
        command = [str(TREE / "debian/build"), f"{build}/tree", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise BuildError("\n".join((done.stdout + done.stderr).splitlines()[-30:]))
    return next(out.glob("vllm-serve_*.deb"))
