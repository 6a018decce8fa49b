"""One snapshot of the machine; run in a process of its own, because a driver can hang for good."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from appliance.core.facts import Facts, Unread
from appliance.core.inquiry import Inquiry
from appliance.host.checkpoint import checkpoint_facts
from appliance.host.engine import engine_facts
from appliance.host.gpu import gpu_facts
from appliance.host.memory import memory_bytes
from appliance.host.network import port_facts

Found = TypeVar("Found")


class _Reader:
    """Asks the sources in turn and keeps the reason for what stayed unknown."""

    def __init__(self) -> None:
        self.unread: list[Unread] = []

    def ask(self, what: str, source: Callable[[], Found]) -> Found | None:
        try:
            return source()
        except LookupError as error:
            self.unread.append(Unread(what=what, reason=str(error)))
            return None


def gather(root: Path, inquiry: Inquiry) -> Facts:
    """Return what the machine below a root is and has. Folders in the inquiry are taken below the root too."""
    reader = _Reader()
    model = inquiry.model
    return Facts(
        engine=reader.ask("engine", lambda: engine_facts(_below(root, inquiry.engines), inquiry.engine)),
        checkpoint=reader.ask("checkpoint", lambda: checkpoint_facts(_below(root, model))) if model else None,
        gpus=reader.ask("gpus", gpu_facts),
        memory_total=memory_bytes(root, "MemTotal"),
        memory_available=memory_bytes(root, "MemAvailable"),
        port=None if inquiry.held else port_facts(inquiry.host, inquiry.port),
        unread=tuple(reader.unread),
    )


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")
