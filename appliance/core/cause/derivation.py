"""What follows from the numbers of a line."""

import math

from appliance.core.cause.rule import Fields

SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
"""Signals that end an engine, by their numbers on Linux."""


def share_that_fits(fields: Fields) -> Fields:
    """Return the largest share of the memory, in hundredths, that is free.

    >>> share_that_fits({"free": "9.37", "total": "139.8"})
    {'fits': '0.06'}
    """
    free, total = float(fields["free"]), float(fields["total"])
    return {"fits": f"{math.floor(100 * free / total) / 100:.2f}"} if total else {}


def driver_version(fields: Fields) -> Fields:
    """Return the version of CUDA that a driver's number means.

    >>> driver_version({"found": "12020"})
    {'cuda': '12.2'}
    """
    if not fields.get("found", "").isdigit():
        return {}
    number = int(fields["found"])
    return {"cuda": f"{number // 1000}.{number % 1000 // 10}"}


def exit_words(fields: Fields) -> Fields:
    """Return how a process ended, by its exit code as Python has it: negative for a signal.

    >>> exit_words({"code": "-9"}), exit_words({"code": "1"}), exit_words({"code": "None"})
    ({'how': 'killed by SIGKILL'}, {'how': 'exit status 1'}, {})
    """
    code = fields.get("code", "")
    if not code.removeprefix("-").isdigit():
        return {}
    return {"how": how_it_ended(int(code))}


def how_it_ended(status: int) -> str:
    """Return how a process ended: `exit status 1`, `killed by SIGKILL`."""
    return f"killed by {SIGNALS.get(-status, f'signal {-status}')}" if status < 0 else f"exit status {status}"


def first_file(fields: Fields) -> Fields:
    """Return the last part of the first path in a list of files, and how many more there are.

    >>> first_file({"files": "'/m/model-2-of-3.safetensors', '/m/model-3-of-3.safetensors'"})
    {'file': 'model-2-of-3.safetensors', 'more': '1'}
    """
    names = [name.strip(" '\"").rpartition("/")[2] for name in fields.get("files", "").split(",") if name.strip()]
    if not names:
        return {}
    return {"file": min(names), **({"more": str(len(names) - 1)} if len(names) > 1 else {})}


def kibibytes(fields: Fields) -> Fields:
    """Return in GiB what a process of the engine held, of the kernel's kilobytes.

    >>> kibibytes({"resident": "2097152"})
    {'held': '2.0 GiB'}
    """
    return {"held": f"{int(fields['resident']) / 2**20:.1f} GiB"} if fields.get("resident", "").isdigit() else {}


def old_names(fields: Fields) -> Fields:
    """Return what older versions of torch say in another order, by the names of today.

    >>> old_names({"old_gpu": "0", "wanted": "1 GiB"})
    {'gpu': '0'}
    """
    return {name: fields[f"old_{name}"] for name in ("gpu", "total", "free") if f"old_{name}" in fields}
