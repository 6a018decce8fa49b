"""Which processes of the host are a machine's: those in the pid namespace of its process 1."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

SECONDS_FOR_TERM = 3.0
SECONDS_FOR_KILL = 5.0


def is_init(process: int) -> bool:
    """Tell whether a process is a systemd that is number 1 of a namespace below ours."""
    fields = _status(process)
    # before it is called systemd it is systemd-nspawn, not yet in the machine's root
    return fields.get("Name") == "systemd" and fields["NSpid"].split()[1:] == ["1"]


def strangers(init: int) -> set[int]:
    """Return the processes of a machine that came into it from outside, zombies among them."""
    namespace = _namespace(init)
    everyone = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    inside = {process for process in everyone if _namespace(process) == namespace}
    parents = {process: int(_status(process).get("PPid", init)) for process in inside - {init}}
    return {process for process, parent in parents.items() if parent not in inside}


def end_strangers(init: int) -> None:
    """End the processes that came into a machine from outside, and wait until they are reaped.

    One that is there when a machine powers off keeps systemd waiting for 10 s: it is no child of
    that systemd's, which so does not hear of its end (seen with systemd 252).
    """
    start = time.monotonic()
    while found := strangers(init):
        spent = time.monotonic() - start
        if spent > SECONDS_FOR_TERM + SECONDS_FOR_KILL:
            return
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM if spent < SECONDS_FOR_TERM else signal.SIGKILL)
        time.sleep(0.02)


def _namespace(process: int) -> Path | None:
    try:
        return Path(f"/proc/{process}/ns/pid").readlink()
    except OSError:  # it ended
        return None


def _status(process: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:  # it ended
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
