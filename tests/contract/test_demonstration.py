"""The demonstration model in the real vLLM, under the real supervisor."""

import random
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from demo import lesson
from tests.contract.service import RealRig

DRAW = random.Random(7)
CONVERSATIONS = (
    *(lesson.Conversation(fact, system) for fact in lesson.FACTS for system in (None, "You are a helpful assistant.")),
    *(lesson.Conversation(sum_) for sum_ in DRAW.sample(lesson.additions(), 12)),
    *(lesson.Conversation(count) for count in DRAW.sample(lesson.counts(), 12)),
)


def named(conversation: lesson.Conversation) -> str:
    return f"{'system, ' if conversation.system else ''}{conversation.last.question}"


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=named)
def test_the_model_answers_exactly(served: RealRig, conversation: lesson.Conversation) -> None:
    assert served.ask(conversation.messages()) == (conversation.last.answer, "stop")


def test_many_at_once_get_each_their_own_answer(served: RealRig) -> None:
    conversations = [lesson.Conversation(sum_) for sum_ in lesson.additions()[:48]]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda conversation: served.ask(conversation.messages()), conversations))
    assert answers == [(conversation.last.answer, "stop") for conversation in conversations]


def test_the_self_test_asked_before_ready_and_told_what_it_got(served: RealRig) -> None:
    told = 'self-test: france: "The capital of France is Paris." as it should'
    assert told in served.log
    before = served.told[: served.told.index("READY=1")]
    assert any(line.startswith("STATUS=asking the self-test") for line in before)


def test_a_reload_restarts_vllm_and_a_stop_leaves_nothing_behind(served: RealRig) -> None:
    """Last in this module: it stops the service."""
    first = served.engine("bin/vllm").pid
    served.write("[vllm]\nmax_num_seqs = 4")
    served.signal(signal.SIGHUP)
    served.until_ready(2)
    assert served.engine("bin/vllm").pid != first
    assert "--max-num-seqs 4" in " ".join(served.engine("bin/vllm").cmdline())
    assert served.stop() == 0
    assert served.family() == []
