"""Every judge, asking a server as the self-test does: what is right, what is wrong, and what could not be told."""

import asyncio
import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from appliance.engine.client import EngineClient
from appliance.selftest.examination import Examination, examined, outcome_of
from appliance.selftest.verdict import Outcome, Verdict
from tests.component.asking import SHORT, FakeServer, Servers, question, questions, told
from tests.fakes.prompt import SHIPPED


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers.below(tmp_path_factory.mktemp("servers")) as found:
        yield found


@dataclasses.dataclass(frozen=True)
class Row:
    """A judge: its question, a personality that answers it, and the faults that make the answer wrong."""

    judge: str
    keys: str
    faults: Mapping[str, str]
    """What the verdict on each says: a part of `why` or of what was found."""
    model: str = "large"
    asks: bool = True
    """It sends a POST, so that a busy server keeps it waiting."""
    streams: bool = False


WORD = 'ask = "What is the capital of France? Answer with one word."\n'
TOOL = """
ask = 'What is the weather in "Oslo"? Use the tool.'
tool = "weather"
description = "Tells the weather of a city."
parameters = { type = "object", properties = { city = { type = "string" } }, required = ["city"] }
arguments = { city = "Oslo" }
"""
SCHEMA = """
ask = "Describe Oslo as JSON."
schema = { type = "object", properties = { city = { type = "string" } }, required = ["city"] }
"""
AT_ONCE = """
rounds = 2
[question.answers]
"What is 3 + 4? Answer with only the number." = "7"
"What is 9 + 8? Answer with only the number." = "17"
"What is 6 + 6? Answer with only the number." = "12"
"What is the capital of Japan? Answer with one word." = "Tokyo"
"What is the capital of Italy? Answer with one word." = "Rome"
"What is the opposite of hot? Answer with one word." = "cold"
"""
ENDLESS = {"degenerate": "ran on to 256 tokens", "runon": "ran on to 256 tokens"}
NO_LOGPROBS = {"nan": "", "null": "", "refused-nan": "HTTP 400"}

ROWS = (
    Row("answer", WORD + 'equals = "Paris"', {**ENDLESS, "wrong": "siraP", "empty": "", "special": "<|im_end|>"}),
    Row("answer", WORD + 'contains = ["paris", "parigi"]', {**ENDLESS, "wrong": "siraP", "empty": ""}),
    Row("answer", WORD + "matches = '^Par[ij]s$'", {**ENDLESS, "wrong": "siraP", "special": "<|im_end|>"}),
    Row("answer", 'ask = "What is 12 + 30?"\nnumber = 42', {**ENDLESS, "wrong": "24", "empty": "", "other": "43"}),
    Row(
        "answer",
        'ask = "The capital of Spain is"\nendpoint = "completion"\nmax_tokens = 12\ncontains = "Madrid"',
        {"wrong": "", "empty": "", "degenerate": "the the"},
        model="base",
    ),
    Row(
        "counting",
        'ask = "Count from {first} to {last}, with a space between."\nfirst = 7\nlast = 33',
        {**ENDLESS, "wrong": "nothing follows 7", "empty": "7 is missing", "other": "21 follows 19"},
    ),
    Row(
        "writing",
        'ask = "한국어로 인사해 주세요."\nscript = "hangul"',
        {
            **ENDLESS,
            "empty": "0 letters of it",
            "mojibake": "bytes of another encoding",
            "replacement": "1 replacement character",
            "other": "1 letters of it",
        },
    ),
    Row(
        "fingerprint",
        f'reference = "{SHIPPED}"',
        {
            **NO_LOGPROBS,
            "shifted": "other probabilities than its reference (token",
            "unlikely": "other probabilities",
            "other": "other probabilities",
            "tokenizer": "tokenizer or chat template changed",
        },
        model="demo",
    ),
    Row("likelihood", "most = 4", {**NO_LOGPROBS, "unlikely": "unlikely to the model", "refuse": "no answer"}),
    Row("repeatable", WORD, {"refuse": "no answer", "html": "not JSON"}),
    Row(
        "streaming",
        'ask = "Name three colours."',
        {
            "stream": "not the answer in one piece",
            "truncated-stream": "without its end mark",
            "empty": "a stream without a text",
            "latin": "not UTF-8",
            "html": "not JSON",
        },
        streams=True,
    ),
    Row("names", 'names = ["large"]', {"names": "a name is not served", "html": "not JSON"}, asks=False),
    Row(
        "tool",
        TOOL,
        {
            "tools": "not JSON",
            "tools-value": "other arguments",
            "tools-text": "no tool is called",
            "empty": "no tool is called",
            "degenerate": "ran on",
        },
    ),
    Row("reasoning", WORD + 'contains = "Paris"', {"wrong": "siraP", "empty": "while it thought"}, model="thinking"),
    Row("structured", SCHEMA, {"schema": "'city' is a required property", "schema-text": "hard to say", **ENDLESS}),
    Row(
        "ending",
        'ask = "Say hello."',
        {**ENDLESS, "special": "the special token <|im_end|> in the answer", "empty": "an empty answer"},
    ),
    Row("needle", "tokens = 1500\nmax_tokens = 256", {**ENDLESS, "wrong": "74-napizram", "empty": ""}),
    Row("image", 'colour = "blue"', {**ENDLESS, "wrong": "eulb", "empty": "", "other": ""}),
    Row(
        "embedding",
        "",
        {"nan": "numbers that are none", "empty": "a vector of zeros", "degenerate": "likeness 1.000", "html": ""},
        model="embedding",
    ),
    Row("rerank", "", {"nan": "numbers", "wrong": "oven", "degenerate": "oven", "html": ""}, model="rerank"),
    Row("transcription", "", {"refuse": "", "html": "not JSON", "redirect": "HTTP 302"}, model="transcription"),
    Row("concurrent", AT_ONCE, {**ENDLESS, "wrong": "one of 6 at once", "corrupt": "one of 6 at once", "empty": ""}),
    Row("task", "", {"degenerate": '"the" over and over', "empty": "says nothing", "special": "special token"}),
)

IDS = [f"{row.judge}-{number}" for number, row in enumerate(ROWS)]
FAULTS = [
    pytest.param(row, fault, said, id=f"{name}-{fault}")
    for name, row in zip(IDS, ROWS, strict=True)
    for fault, said in row.faults.items()
]
ASKING = [pytest.param(row, id=name) for name, row in zip(IDS, ROWS, strict=True) if row.asks]
HINDRANCES = {
    "busy": "busy, not wrong: HTTP ",
    "slow": "busy, not wrong: no whole reply within 0.3 s",
    "drop": "busy, not wrong: no ",
    "error": "the server failed: HTTP 500",
}


def server_of(servers: Servers, row: Row) -> FakeServer:
    return servers.of(row.model, BUSY=1000000, SLOW=1, THOUGHTS=60)


def verdict_on(servers: Servers, row: Row, faults: str = "right", more: str = "", budget: float = 30.0) -> Verdict:
    asked = question(row.judge, f"{more}\n{row.keys}")
    return server_of(servers, row).asked([asked], faults, budget=budget)[0]


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in zip(IDS, ROWS, strict=True)])
def test_a_sound_model_is_right(servers: Servers, row: Row) -> None:
    verdict = verdict_on(servers, row, more='timeout = "20s"')
    assert verdict.outcome is Outcome.RIGHT, told(verdict)


@pytest.mark.parametrize(("row", "fault", "said"), FAULTS)
def test_a_fault_is_wrong_and_the_verdict_says_what_came(servers: Servers, row: Row, fault: str, said: str) -> None:
    verdict = verdict_on(servers, row, fault, more='timeout = "20s"')
    assert verdict.outcome is Outcome.WRONG, told(verdict)
    assert said in told(verdict)
    assert len(str(verdict)) <= 400
    assert str(verdict).isprintable()


@pytest.mark.parametrize("hindrance", HINDRANCES)
@pytest.mark.parametrize("row", ASKING)
def test_a_hindered_server_is_never_called_wrong(servers: Servers, row: Row, hindrance: str) -> None:
    verdict = verdict_on(servers, row, hindrance, more='timeout = "300ms"', budget=SHORT)
    assert verdict.outcome is Outcome.UNKNOWN, told(verdict)
    assert verdict.judgement.why.startswith(HINDRANCES[hindrance])
    assert outcome_of([verdict]) is Outcome.UNKNOWN


@pytest.mark.parametrize("fault", ["abort", "lost", "drop"])
def test_a_stream_that_the_server_gives_up_is_not_called_wrong(servers: Servers, fault: str) -> None:
    row = next(row for row in ROWS if row.streams)
    verdict = verdict_on(servers, row, fault, budget=SHORT)
    assert verdict.outcome is Outcome.UNKNOWN, told(verdict)


@pytest.mark.parametrize("row", ASKING)
def test_a_key_is_asked_for_and_taken(servers: Servers, row: Row) -> None:
    server = servers.of(row.model, "--api-key", "sesame", THOUGHTS=60)
    asked = question(row.judge, f'timeout = "20s"\n{row.keys}')
    for key in (None, "another"):
        verdict = server.asked([asked], key=key)[0]
        assert verdict.outcome is Outcome.UNKNOWN, told(verdict)
        assert verdict.judgement.why.startswith("the server asks for a key: HTTP 401")
    verdict = server.asked([asked], key="sesame")[0]
    assert verdict.outcome is Outcome.RIGHT, told(verdict)


def test_a_busy_server_is_asked_again(servers: Servers) -> None:
    server = servers.of("small", BUSY=1)
    verdict = server.asked([question("answer", WORD + 'equals = "Paris"')], "busy")[0]
    assert verdict.outcome is Outcome.RIGHT, told(verdict)
    assert verdict.seconds >= 1


def test_an_answer_to_the_question_before_is_wrong(servers: Servers) -> None:
    asked = [question("answer", f'ask = "{text}"\nequals = "{answer}"') for text, answer in TWO.items()]
    assert [verdict.outcome for verdict in servers.of("demo").asked(asked)] == [Outcome.RIGHT] * 2
    verdict = servers.of("demo").asked(asked, "repeat")[1]
    assert verdict.outcome is Outcome.WRONG
    assert verdict.judgement.found == "3 + 4 = 7."


TWO = {"What is 3 + 4?": "3 + 4 = 7.", "What is 9 + 8?": "9 + 8 = 17."}


def test_a_drafter_must_be_accepted_as_often_as_the_question_says(servers: Servers) -> None:
    server = servers.of("large", ACCEPTED="0.8,0.5")
    talk, low, high = question("ending", 'ask = "Say hello."'), question("acceptance"), "least = 0.9"
    said, fine, poor = server.asked([talk, low, question("acceptance", high)])
    assert (said.outcome, fine.outcome, poor.outcome) == (Outcome.RIGHT, Outcome.RIGHT, Outcome.WRONG), told(fine)
    assert poor.judgement.why == "too few drafted tokens are accepted"
    assert poor.judgement.expected == "at least 2.7"
    assert dict(fine.judgement.measures)["accepted_length"] == pytest.approx(2.3, abs=0.2)
    none = servers.of("demo").asked([question("acceptance")])[0]
    assert (none.outcome, none.judgement.why) == (Outcome.SKIPPED, "no drafter is in use")


@pytest.mark.parametrize(
    ("keys", "outcome", "expected"),
    [
        (
            'first_token = "5s"\ntokens_per_second = 20',
            Outcome.RIGHT,
            "first_token at most 5, tokens_per_second at least 20",
        ),
        ('first_token = "50ms"', Outcome.WRONG, "first_token at most 0.05"),
        ("tokens_per_second = 99999", Outcome.WRONG, "tokens_per_second at least 99999"),
        ("", Outcome.RIGHT, ""),
    ],
)
def test_a_server_is_as_fast_as_the_question_says(servers: Servers, keys: str, outcome: Outcome, expected: str) -> None:
    server = servers.of("large", FIRST="0.1", SPEED=400)
    verdict = server.asked([question("speed", f'timeout = "20s"\n{keys}')])[0]
    assert (verdict.outcome, verdict.judgement.expected) == (outcome, expected), told(verdict)
    assert (verdict.judgement.why == "too slow") is (outcome is Outcome.WRONG)
    assert dict(verdict.judgement.measures)["first_token"] >= 0.1


def test_a_speed_that_can_not_be_timed_is_not_called_wrong(servers: Servers) -> None:
    verdict = servers.of("demo").asked([question("speed", 'ask = "Say hello."\ntokens_per_second = 5')])[0]
    assert verdict.outcome is Outcome.UNKNOWN
    assert "too short to time" in verdict.judgement.why
    silent = servers.of("demo").asked([question("speed", 'first_token = "1s"')], "empty")[0]
    assert (silent.outcome, silent.judgement.found) == (Outcome.WRONG, "a stream without a text")
    moved = servers.of("demo").asked([question("speed", 'first_token = "1s"')], "redirect")[0]
    assert (moved.outcome, moved.judgement.found) == (Outcome.WRONG, "HTTP 302: ")


def test_a_model_that_thinks_on_is_asked_without_thinking_or_not_judged(servers: Servers) -> None:
    server = servers.of("thinking", THOUGHTS=400)
    asked = [question("answer", f'{WORD}equals = "Paris"{more}') for more in ("", "\nthinking = true")]
    calm, cut = server.asked(asked)
    assert calm.outcome is Outcome.RIGHT, told(calm)
    assert cut.outcome is Outcome.UNKNOWN
    assert cut.judgement.why == "still thinking after 256 tokens; raise max_tokens, or set thinking = false"


def test_thoughts_in_the_content_are_wrong_only_for_the_judge_of_reasoning(servers: Servers) -> None:
    for model in ("thinking-inline", "thinking-tags"):
        asked = [question("reasoning", WORD), question("answer", f'{WORD}equals = "Paris"')]
        thoughts, answer = servers.of(model, THOUGHTS=60).asked(asked)
        assert thoughts.outcome is Outcome.WRONG
        assert thoughts.judgement.why == "thoughts in the content"
        assert answer.outcome is Outcome.RIGHT, told(answer)


def test_a_server_that_hangs_is_left_within_the_budget(servers: Servers) -> None:
    server = servers.of("small")
    asked = [
        question("task", 'timeout = "1min"'),
        question("answer", f'{WORD}equals = "Paris"\ntasks = ["chat"]\ntimeout = "1min"'),
        question("names", 'tasks = ["embedding"]'),
    ]
    start = time.monotonic()
    verdicts = server.asked(asked, "hang", budget=1.5)
    assert 1.4 < time.monotonic() - start < 3
    assert [verdict.outcome for verdict in verdicts] == [Outcome.UNKNOWN] * 3
    assert "busy, not wrong" in verdicts[0].judgement.why
    assert verdicts[2].judgement.why == "the budget of 1.5 s was used up before it was asked"


def test_a_gate_is_not_skipped_because_the_server_was_busy_when_its_task_was_asked_for(servers: Servers) -> None:
    server = servers.of("large", BUSY=1000000, SLOW=1, THOUGHTS=60)
    asked = [question("names"), question("streaming", 'ask = "Say hello."\ntasks = ["chat"]')]
    verdicts = server.asked(asked, "busy", budget=SHORT)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.RIGHT, Outcome.UNKNOWN]
    assert outcome_of(verdicts) is Outcome.UNKNOWN


def test_an_endless_reply_is_left(servers: Servers) -> None:
    verdict = servers.of("small").asked([question("answer", f'{WORD}equals = "Paris"\ntimeout = "30s"')], "large")[0]
    assert verdict.outcome is Outcome.WRONG
    assert "a reply of more than 67108864 bytes" in told(verdict)


def test_a_server_that_is_not_there_is_no_wrong_model() -> None:
    examination = Examination(model="x", questions=(question("answer", WORD + 'equals = "Paris"'),), budget=SHORT)

    async def only() -> Verdict:
        return await anext(examined(examination, EngineClient("http://127.0.0.1:9")))

    verdict = asyncio.run(only())
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.judgement.why.startswith("busy, not wrong: no reply: ClientConnectorError")


def test_a_question_of_another_task_is_skipped_and_nothing_but_skips_is_no_proof(servers: Servers) -> None:
    text = '[[question]]\nname = "a"\njudge = "embedding"\ntasks = ["embedding"]'
    verdicts = servers.of("small").asked(questions(text))
    assert [(verdict.outcome, verdict.judgement.why) for verdict in verdicts] == [
        (Outcome.SKIPPED, "the model is made for chat")
    ]
    assert outcome_of(verdicts) is Outcome.UNKNOWN


def test_a_reference_that_can_not_be_read_is_no_wrong_model(servers: Servers, tmp_path: Path) -> None:
    for number, content in enumerate(["", "{", "[" * 100000, '{"format": 2}', "null", '{"passages": []}']):
        file = tmp_path / f"{number}.json"
        file.write_text(content)
        verdict = servers.of("demo").asked([question("fingerprint", f'reference = "{file}"')])[0]
        assert verdict.outcome is Outcome.UNKNOWN, content[:20]
        assert verdict.judgement.why.startswith(f"the reference {file} can't be used: ")
    verdict = servers.of("demo").asked([question("fingerprint", f'reference = "{tmp_path}/none"')])[0]
    assert "No such file" in verdict.judgement.why


def test_a_short_server_is_not_called_wrong_for_what_it_has_no_room_for(servers: Servers) -> None:
    short = servers.of("demo", "--max-model-len", "64")
    asked = [question("counting", "first = 5\nlast = 59"), question("needle", "tokens = 4096")]
    assert {verdict.outcome for verdict in short.asked(asked)} == {Outcome.UNKNOWN}
