"""The GPUs' memory between two engines: a driver gives it back some time after the last process is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from appliance.core.facts import GpuFacts
from appliance.core.inquiry import plain_inquiry
from appliance.core.unit import shown_bytes
from appliance.service.preparation import gathered

DOORS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""What there is on a machine whose GPUs NVML can tell of."""

SLACK = 256 << 20
"""Bytes that the driver itself may keep, or a display take, between two looks."""

DEADLINE = 60.0
"""Seconds. An H200 gave 133 GB back within 0.2 s; a context that crashed can take half a minute."""

INTERVAL = 1.0


Look = Callable[[], Awaitable[tuple[GpuFacts, ...] | None]]
"""Asks for the GPUs; None where there are none to ask, or nobody answers."""


class Release:
    """What was free before the first engine of this supervisor."""

    def __init__(self, look: Look, deadline: float = DEADLINE, interval: float = INTERVAL) -> None:
        self._look = look
        self._deadline, self._interval = deadline, interval
        self._before: dict[str, int] = {}
        self.held = ""
        """What is not free yet, for the status line."""

    async def note(self) -> None:
        """Remember what is free where nothing of ours runs; once, for later engines leave things behind."""
        if not self._before:
            self._before = free_memory(await self._look() or ())

    async def wait(self) -> str:
        """Wait until as much is free as before the first engine; return what is missing at the end, or nothing."""
        if not self._before:
            return ""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._deadline
        try:
            while True:
                found = await self._look()
                self.held = "" if found is None else shortfall(self._before, free_memory(found))
                if not self.held or loop.time() >= end:
                    return self.held
                await asyncio.sleep(self._interval)
        finally:
            self.held = ""


async def gpus_now(spare: set[int], doors: tuple[Path, ...] = DOORS) -> tuple[GpuFacts, ...] | None:
    """Return the GPUs of this machine; None where there are none to ask, or nobody answers."""
    if not any(door.exists() for door in doors):
        return None
    try:
        return (await gathered(plain_inquiry(), spare)).gpus
    except (TimeoutError, ValueError, OSError):
        return None


def free_memory(gpus: tuple[GpuFacts, ...]) -> dict[str, int]:
    """Return the free bytes of each GPU that tells them, by its UUID or its index."""
    return {gpu.uuid or str(gpu.index): gpu.memory_free for gpu in gpus if gpu.memory_free is not None}


def shortfall(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Return which GPUs have less free memory than before; a GPU that does not tell any more is not missed.

    >>> shortfall({"GPU-1": 10 << 30, "GPU-2": 10 << 30}, {"GPU-1": 6 << 30, "GPU-2": (10 << 30) - 5})
    'GPU-1: 6.0 of 10.0 GiB free'
    >>> shortfall({"GPU-1": 10 << 30}, {})
    ''
    """
    return ", ".join(
        f"{name}: {shown_bytes(now[name]).split()[0]} of {shown_bytes(bytes_before)} free"
        for name, bytes_before in before.items()
        if name in now and now[name] < bytes_before - SLACK
    )
