"""What every sound model passes: the questions for a checkpoint that nobody knows, on models of every kind."""

import dataclasses
from collections.abc import Iterator, Mapping

import pytest

from appliance.core.config import config_of
from appliance.core.paper import questions_for
from appliance.core.question import Question
from appliance.selftest.examination import outcome_of
from appliance.selftest.verdict import Outcome
from appliance.service.share import chosen_recipe
from tests.component.asking import SHORT, FakeServer, Servers, told


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers.below(tmp_path_factory.mktemp("servers")) as found:
        yield found


def generic(server: FakeServer) -> tuple[Question, ...]:
    """Return what is asked of a checkpoint that nobody knows."""
    config = config_of(f'recipe = "generic"\n[model]\nserved_model_name = "{server.name}"', "generic.toml")
    return questions_for(config, chosen_recipe(config))


SOUND: Mapping[str, Mapping[str, str]] = {
    "large": {},
    "base": {"france": "skipped", "counting": "skipped", "korean": "skipped"},
    "small": {"counting": "wrong", "korean": "wrong"},
    "english": {"korean": "wrong"},
    "thinking": {},
    "thinking-inline": {},
    "thinking-tags": {},
    "embedding": {"finite": "skipped", "france": "skipped"},
    "rerank": {"finite": "skipped", "france": "skipped"},
    "transcription": {"finite": "skipped", "france": "skipped"},
}
SEEN: Mapping[str, tuple[str, ...]] = {
    "large": (
        "degenerate",
        "nan",
        "null",
        "refused-nan",
        "empty",
        "special",
        "truncated-stream",
        "stream",
        "names",
        "html",
    ),
    "base": ("degenerate", "nan", "null", "refused-nan", "empty", "truncated-stream", "names"),
    "small": ("degenerate", "nan", "empty", "special", "truncated-stream"),
    "english": ("degenerate", "nan", "empty", "special", "truncated-stream"),
    "thinking": ("nan", "truncated-stream", "refuse"),
    "thinking-inline": ("nan", "truncated-stream", "refuse"),
    "embedding": ("degenerate", "nan", "empty", "html", "names", "refuse"),
    "rerank": ("degenerate", "nan", "empty", "html", "names", "refuse"),
    "transcription": ("html", "names", "refuse"),
}


@pytest.mark.parametrize("model", SOUND)
def test_a_sound_model_that_nobody_knows_is_right(servers: Servers, model: str) -> None:
    server = servers.of(model)
    verdicts = server.asked(generic(server), budget=60)
    found = {verdict.question.name: str(verdict.outcome) for verdict in verdicts}
    assert outcome_of(verdicts) is Outcome.RIGHT, list(map(told, verdicts))
    assert found == {**found, **SOUND[model]}
    assert all(verdict.outcome is not Outcome.WRONG for verdict in verdicts if verdict.question.gate)
    assert found["task"] == "right"


@pytest.mark.parametrize(("model", "fault"), [(model, fault) for model, faults in SEEN.items() for fault in faults])
def test_a_broken_model_that_nobody_knows_is_wrong(servers: Servers, model: str, fault: str) -> None:
    server = servers.of(model)
    verdicts = server.asked(generic(server), fault, budget=60)
    assert outcome_of(verdicts) is Outcome.WRONG, list(map(told, verdicts))


@pytest.mark.parametrize("fault", ["busy", "error", "drop", "lost", "slow"])
def test_a_hindered_model_that_nobody_knows_is_not_called_wrong(servers: Servers, fault: str) -> None:
    server = servers.of("large", BUSY=1000000, SLOW=1, THOUGHTS=60)
    short = [dataclasses.replace(asked, timeout=0.3) for asked in generic(server)]
    verdicts = server.asked(short, fault, budget=SHORT)
    assert outcome_of(verdicts) is Outcome.UNKNOWN, list(map(told, verdicts))
