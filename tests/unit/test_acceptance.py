"""The drafter of a model, by the counters of its server."""

import asyncio

import pytest

from appliance.core.judge import Acceptance
from appliance.core.reply import Reply, ReplyError, Trouble
from appliance.selftest.server import acceptance, accepted_length
from appliance.selftest.talk import Server, Talk
from appliance.selftest.verdict import Judgement, Outcome

COUNTERS = """\
# HELP vllm:spec_decode_num_drafts_total drafts
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 100.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} ACCEPTED
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 1.0
"""


class Counting(Server):
    """A server of which only the counters are asked."""

    def __init__(self, reply: Reply | None) -> None:
        self._reply = reply

    async def get(self, path: str, seconds: float) -> Reply:
        assert (path, seconds) == ("/metrics", 5.0)
        if self._reply is None:
            raise ReplyError("no reply", Trouble.BUSY)
        return self._reply


def judged(reply: Reply | None) -> Judgement:
    talk = Talk(server=Counting(reply), model="m", seconds=5.0)  # type: ignore[abstract]  # the others are not asked
    return asyncio.run(acceptance(Acceptance(), talk))


@pytest.mark.parametrize("reply", [None, Reply(status=404, text="Not Found"), Reply(status=500, text="")])
def test_counters_that_can_not_be_read_tell_nothing(reply: Reply | None) -> None:
    found = judged(reply)
    assert found.outcome is Outcome.SKIPPED
    assert found.why.startswith("/metrics can't be read: ")


def test_counters_that_did_not_come_are_asked_for_again() -> None:
    class Busy(Counting):
        async def get(self, path: str, seconds: float) -> Reply:
            reply, self._reply = self._reply, Reply(status=200, text=COUNTERS.replace("ACCEPTED", "10.0"))
            return reply or await super().get(path, seconds)

    talk = Talk(server=Busy(Reply(status=503, text="")), model="m", seconds=5.0)  # type: ignore[abstract]  # as above
    assert asyncio.run(acceptance(Acceptance(), talk)).outcome is Outcome.WRONG


def test_counters_that_tell_half_are_no_verdict() -> None:
    half = "vllm:spec_decode_num_drafts_total 3.0\n"
    assert judged(Reply(status=200, text=half)).outcome is Outcome.UNKNOWN


def test_a_drafter_that_drafts_nothing_is_wrong() -> None:
    dead = COUNTERS.replace("ACCEPTED", "0.0").replace("} 100.0", "} 0.0")
    found = judged(Reply(status=200, text=dead))
    assert (found.outcome, found.found) == (Outcome.WRONG, "accepted length 0 of at most 4")


def test_a_name_with_brackets_hides_no_counter() -> None:
    text = COUNTERS.replace("ACCEPTED", "150.0").replace('"m"', '"a}b"')
    assert accepted_length(text) == (2.5, 4)


def test_without_a_drafter_the_question_does_not_apply() -> None:
    assert judged(Reply(status=200, text="vllm:num_requests_running 0.0\n")).outcome is Outcome.SKIPPED
    assert judged(Reply(status=200, text="")).outcome is Outcome.SKIPPED


def test_a_drafter_of_few_positions_can_fail_too() -> None:
    assert accepted_length(COUNTERS.replace("ACCEPTED", "150.0")) == (2.5, 4)
    assert judged(Reply(status=200, text=COUNTERS.replace("ACCEPTED", "150.0"))).outcome is Outcome.RIGHT
    poor = judged(Reply(status=200, text=COUNTERS.replace("ACCEPTED", "10.0")))
    assert (poor.outcome, poor.found) == (Outcome.WRONG, "accepted length 1.1 of at most 4")
    assert poor.expected == "at least 1.38"
