"""What counts as progress of an engine that loads, and what is not worth a line in the journal."""

import asyncio

import pytest

from appliance.service.journal import LOOKED
from appliance.service.watch import Watch
from tests.unit.example import plan

WAITING = "(EngineCore pid=7) INFO 12-01 11:{}:00 [shm_broadcast.py:1] No available shared memory broadcast block found"


def moves(*lines: str) -> list[bool]:
    """Return for each line whether it counted as progress."""

    async def spoken() -> list[bool]:
        watch = Watch(plan("m"), list, set(), lambda _: None, lambda _: None)
        found = []
        for line in lines:
            watch.moved = -1.0
            watch.spoke(line)
            found.append(watch.moved > 0)
        return found

    return asyncio.run(spoken())


def test_a_line_that_is_printed_over_and_over_is_no_progress() -> None:
    minutes = [WAITING.format(f"{minute:02}") for minute in range(4)]
    assert moves(*minutes) == [True, False, False, False]
    others = [line.replace("pid=7", "pid=8").replace("EngineCore", "Worker") for line in minutes]
    assert moves(*(line for pair in zip(minutes, others, strict=True) for line in pair)) == [True, True, *[False] * 6]


def test_a_bar_that_grows_is_progress() -> None:
    assert moves(*(f"Loading safetensors checkpoint shards: {n}% Completed | {n}/9" for n in range(9))) == [True] * 9


@pytest.mark.parametrize(
    ("line", "looked"),
    [
        ('INFO:     127.0.0.1:40000 - "GET /metrics HTTP/1.1" 200 OK', True),
        ('(APIServer pid=3) INFO:     127.0.0.1:40000 - "GET /health HTTP/1.1" 200 OK', True),
        ('INFO:     127.0.0.1:40000 - "GET /health HTTP/1.1" 503 Service Unavailable', False),
        ('INFO:     127.0.0.1:40000 - "GET /v1/models HTTP/1.1" 200 OK', False),
    ],
)
def test_a_look_at_the_engine_is_no_line_for_the_journal(line: str, looked: bool) -> None:
    assert bool(LOOKED.search(line)) is looked
