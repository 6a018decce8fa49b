"""The kernel's messages, read in a process of their own, which may hang."""

import asyncio
import time
from pathlib import Path

import pytest

from appliance.service.kernel import kernel_messages_since

FAKE = "tests.fakes.journal"


async def asked(moment: float, deadline: float) -> tuple[tuple[str, ...] | None, set[int], set[int]]:
    """Return the answer, the children that were known as ours while it came, and those that are known afterwards."""
    spare: set[int] = set()
    asking = asyncio.create_task(kernel_messages_since(moment, spare, deadline, FAKE))
    known: set[int] = set()
    while not asking.done():
        known |= spare
        await asyncio.sleep(0.01)
    for _ in range(500):
        if not spare:
            break
        await asyncio.sleep(0.01)
    return asking.result(), known, spare


@pytest.mark.parametrize(
    ("moment", "answer"), [(1.0, ("NVRM: Xid", "segfault at 0")), (6.0, ()), (3.0, None), (4.0, None), (5.0, None)]
)
def test_what_it_answers_is_the_answer_and_anything_else_is_not_known(
    moment: float, answer: tuple[str, ...] | None
) -> None:
    found, known, spare = asyncio.run(asked(moment, 60.0))
    assert found == answer
    assert len(known) == 1
    assert spare == set()


def test_a_journal_that_hangs_is_left_in_time_and_its_reader_is_gone() -> None:
    begun = time.monotonic()
    found, known, spare = asyncio.run(asked(2.0, 0.5))
    assert found is None
    assert time.monotonic() - begun < 10
    assert spare == set()
    assert not any(Path(f"/proc/{pid}").exists() for pid in known)


def test_the_real_reader_answers_or_says_that_it_does_not_know() -> None:
    found = asyncio.run(kernel_messages_since(time.time(), set(), 60.0))
    assert found is None or isinstance(found, tuple)
