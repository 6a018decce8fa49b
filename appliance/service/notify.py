"""What systemd is told: readiness, status and patience."""

import os
import time

import sdnotify

from appliance.core.phase import Word


class Notifier:
    """Speaks sd_notify; silent where nobody listens."""

    def __init__(self) -> None:
        self._systemd = sdnotify.SystemdNotifier()

    def tell(self, word: Word) -> None:
        """Say one word. A reload carries its time in the same datagram, as systemd 253 and later demand."""
        text = word.value
        if word is Word.RELOADING:
            text += f"\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"
        self._systemd.notify(text)

    def status(self, line: str) -> None:
        """Show a line in `systemctl status`; it must be ASCII."""
        self._systemd.notify(f"STATUS={line}")

    def extend(self, seconds: float) -> None:
        """Ask for more time to start, reload or stop."""
        self._systemd.notify(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def alive(self) -> None:
        """Pet the watchdog."""
        self._systemd.notify("WATCHDOG=1")


def watchdog_interval(environment: dict[str, str], pid: int) -> float | None:
    """Return how often, in seconds, the watchdog wants to hear of this process; None when it does not."""
    micros = environment.get("WATCHDOG_USEC", "")
    if not micros.isdigit() or int(environment.get("WATCHDOG_PID") or pid) != pid:
        return None
    return int(micros) / 1_000_000 / 2


def under_systemd() -> bool:
    """Tell whether standard error goes straight to the journal."""
    return "JOURNAL_STREAM" in os.environ
