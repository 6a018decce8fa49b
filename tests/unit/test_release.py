"""Between two engines: the memory of the GPUs is waited for, and not for ever."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from appliance.core.facts import GpuFacts
from appliance.service.release import Release, free_memory, gpus_now, shortfall

GIB = 1 << 30

Reading = tuple[GpuFacts, ...] | None


def gpus(*free: int | None) -> tuple[GpuFacts, ...]:
    return tuple(
        GpuFacts(index=index, name="H200", uuid=f"GPU-{index}", memory_free=one) for index, one in enumerate(free)
    )


class Driver:
    """Answers each look with the next reading, and the last one for ever; None is a driver that does not answer."""

    def __init__(self, *readings: Reading) -> None:
        self.readings = list(readings)
        self.looks = 0

    async def look(self) -> Reading:
        self.looks += 1
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def waited(*readings: Reading, deadline: float = 60.0) -> tuple[str, int]:
    """Return what is missing at the end, and how often the driver was asked."""
    driver = Driver(*readings)

    async def play() -> str:
        memory = Release(driver.look, deadline, interval=0.001)
        await memory.note()
        missing = await memory.wait()
        assert memory.held == ""
        return missing

    return asyncio.run(play()), driver.looks


@pytest.mark.parametrize(
    ("readings", "looks"),
    [
        ((gpus(140 * GIB), gpus(140 * GIB)), 2),
        ((gpus(140 * GIB), gpus(7 * GIB), gpus(100 * GIB), gpus(140 * GIB - 5)), 4),
        ((gpus(None), gpus(None)), 1),
        ((gpus(), gpus()), 1),
        ((None, gpus(3)), 1),
        ((gpus(8 * GIB, 8 * GIB), gpus(8 * GIB, GIB), gpus(8 * GIB, 8 * GIB)), 3),
        ((gpus(8 * GIB), None), 2),
    ],
)
def test_memory_that_comes_back_is_waited_for(readings: Iterable[Reading], looks: int) -> None:
    assert waited(*readings) == ("", looks)


def test_memory_that_does_not_come_back_is_told_at_the_end() -> None:
    missing, looks = waited(gpus(8 * GIB), gpus(2 * GIB), deadline=0.05)
    assert missing == "GPU-0: 2.0 of 8.0 GiB free"
    assert looks > 2


def test_what_was_free_before_the_first_engine_is_noted_once() -> None:
    driver = Driver(gpus(8 * GIB), gpus(6 * GIB))

    async def play() -> None:
        memory = Release(driver.look)
        await memory.note()
        await memory.note()

    asyncio.run(play())
    assert driver.looks == 1


def test_a_machine_without_a_driver_is_not_asked() -> None:
    assert asyncio.run(gpus_now(set(), (Path("/nowhere"),))) is None


def test_a_gpu_without_a_uuid_goes_by_its_index_and_a_little_is_not_missed() -> None:
    assert free_memory((GpuFacts(index=3, name="x", memory_free=5),)) == {"3": 5}
    assert shortfall({"3": 300 << 20}, {"3": 44 << 20}) == ""
    assert shortfall({"3": 300 << 20}, {"3": (44 << 20) - 1}) == "3: 44.0 of 300.0 MiB free"
