"""The self-test's way through its questions."""

import asyncio

import pytest

from appliance.selftest.examination import examined
from appliance.selftest.verdict import Verdict
from tests.unit.example import plan


class Listener:
    """An engine that says the right thing, of a length."""

    def __init__(self, longest: int | None) -> None:
        self._longest = longest
        self.asked: list[int] = []

    async def longest(self) -> int | None:
        return self._longest

    async def chat(self, ask: str, max_tokens: int, seconds: float) -> tuple[str, str]:
        assert ask == "What is 3 + 4?"
        assert seconds > 0
        self.asked.append(max_tokens)
        return "3 + 4 = 7.", "stop"


async def verdicts(engine: Listener) -> list[Verdict]:
    return [verdict async for verdict in examined(plan(), engine)]


@pytest.mark.parametrize(("longest", "most"), [(None, 256), (40960, 256), (512, 256), (100, 50)])
def test_an_answer_is_asked_for_that_leaves_room_for_the_question(longest: int | None, most: int) -> None:
    engine = Listener(longest)
    assert [verdict.right for verdict in asyncio.run(verdicts(engine))] == [True]
    assert engine.asked == [most]
