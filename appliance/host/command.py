"""Programs of this machine that are asked what no file tells."""

import os
import subprocess

LARGEST = 2**20
"""Characters that are kept of what a program prints."""


def printed(*command: str, seconds: float) -> str:
    """Return what a program prints, in English. Raises LookupError with the reason where it gives no answer."""
    name = command[0].rpartition("/")[2]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise LookupError(f"{name} is not installed") from None
    except OSError as error:
        raise LookupError(f"{name} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise LookupError(f"{name} did not answer within {seconds:g} s") from None
    text = done.stdout[:LARGEST].decode(errors="backslashreplace")
    if done.returncode:
        raise LookupError(f"{name} exited with {done.returncode}: {' '.join(text.split())[:200]}")
    return text
