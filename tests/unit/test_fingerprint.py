"""Fingerprints: how far two lie apart, what is none, and what the command refuses before it computes."""

import dataclasses
import json
import math
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.cli.checkpoint import command, text_of
from appliance.core.codec import json_of, record_of
from appliance.core.fingerprint import PASSAGES, Passage, Reference, UnlikeError, change_of, passages_of
from appliance.core.problem import RefusedError
from appliance.engine.fingerprint import NoFingerprintError, computed

ROOT = Path(__file__).parents[2]
SHIPPED = record_of(Reference, (ROOT / "demo/fingerprint.json").read_text())

FIRST = Passage(text="mop sky", chat=False, ids=(4, 5, 6), logprobs=(-2.0, -9.5))
SECOND = Passage(text="the of", chat=True, ids=(1, 2), logprobs=(-7.0,))
REFERENCE = Reference(model="demo", made_by="a test", passages=(FIRST, SECOND))


def found(*logprobs: float) -> tuple[Passage, ...]:
    """Return what a server says: the reference's passages with these logprobs."""
    first = dataclasses.replace(FIRST, logprobs=logprobs[:2])
    return first, dataclasses.replace(SECOND, logprobs=logprobs[2:])


def test_the_change_is_that_of_the_passage_and_of_the_token_that_changed_most() -> None:
    change = change_of(REFERENCE, found(-2.5, -9.0, -6.8))
    assert (change.mean, change.largest, change.tokens) == (0.5, 0.5, 3)
    assert change.place == "token 1 of passage 1 (id 5): -2.00 expected, -2.50 found"
    change = change_of(REFERENCE, found(-2.0, -9.5, -4.0))
    assert (change.mean, change.largest) == (3.0, 3.0)
    assert change.place == "token 1 of passage 2 (id 2): -7.00 expected, -4.00 found"


def test_the_same_numbers_are_no_change() -> None:
    change = change_of(REFERENCE, REFERENCE.passages)
    assert (change.mean, change.largest) == (0, 0)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_logprob_that_is_no_number_is_an_endless_change(number: float) -> None:
    change = change_of(REFERENCE, found(-2.0, number, -7.0))
    assert (change.mean, change.largest) == (math.inf, math.inf)
    assert change.place.startswith("token 2 of passage 1")


@pytest.mark.parametrize(
    ("passages", "told"),
    [
        ((FIRST,), "1 passages found, the reference has 2"),
        ((dataclasses.replace(FIRST, ids=(4, 9, 6)), SECOND), "token 1 of passage 1 has id 9, the reference has 5"),
        ((FIRST, dataclasses.replace(SECOND, ids=(3, 2))), "token 0 of passage 2 has id 3, the reference has 1"),
        (
            (FIRST, dataclasses.replace(SECOND, ids=(1, 2, 3), logprobs=(-7.0, -1.0))),
            "passage 2 has 3 tokens, the reference has 2",
        ),
        ((FIRST, dataclasses.replace(SECOND, logprobs=())), "passage 2 has 0 logprobs, 1 needed"),
    ],
)
def test_other_tokens_can_not_be_compared(passages: tuple[Passage, ...], told: str) -> None:
    with pytest.raises(UnlikeError, match=f"^{told}$".replace("(", r"\(")):
        change_of(REFERENCE, passages)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 2}, "format 2, this version reads 1"),
        ({"passages": []}, "no passage in it"),
        ({"passages": [{"text": "x", "chat": False, "ids": [1], "logprobs": []}]}, "passage 1 has 1 tokens and 0 log"),
        ({"passages": [{"text": "x", "chat": False, "ids": [1, 2], "logprobs": []}]}, "has 2 tokens and 0 logprobs"),
        ({"passages": [{"text": "x", "chat": False, "ids": [1, 2], "logprobs": [math.nan]}]}, "that is no number"),
        ({"passages": [{"text": "x", "chat": False, "ids": [1, 2]}]}, "missing 'logprobs'"),
        ({"maker": "me"}, "maker"),
    ],
)
def test_what_no_program_of_ours_wrote_is_no_reference(change: dict[str, object], told: str) -> None:
    table = {**json.loads(json_of(REFERENCE)), **change}
    with pytest.raises(ValueError, match=told):
        record_of(Reference, json.dumps(table))


def test_a_reference_survives_its_file() -> None:
    assert record_of(Reference, text_of(REFERENCE)) == REFERENCE
    assert len(text_of(REFERENCE).splitlines()) == 2 + len(REFERENCE.passages)


def test_the_shipped_fingerprint_holds_the_fixed_texts_and_the_walk_through_the_vocabulary() -> None:
    walk = passages_of((ROOT / "demo/passages.toml").read_text(), "passages.toml")
    assert tuple(passage.prompt for passage in SHIPPED.passages) == (*PASSAGES, *walk)
    vocabulary = json.loads((ROOT / "demo/model/tokenizer.json").read_text())["model"]["vocab"]
    met = {token for passage in SHIPPED.passages for token in passage.ids}
    assert len(met & set(vocabulary.values())) >= 0.9 * len(vocabulary)


@pytest.mark.parametrize("passage", SHIPPED.passages, ids=lambda passage: passage.text[:12].encode().hex())
def test_no_passage_is_likely_and_each_fits_the_demonstration_model(passage: Passage) -> None:
    assert -sum(passage.logprobs) / len(passage.logprobs) > 9
    assert len(passage.ids) < 1024


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "passage: wants tables"),
        ("passage = 3", "wants tables"),
        ("[[passage]]\nchat = true", "missing"),
        ("[[passage]]\ntext = ''", "empty string"),
        ("[[passage]]\ntext = 'a'\nchat = 1", "chat"),
        ("[[passage]]\ntext = 'a'\nsystem = 'b'", "only a chat has a system line"),
        ("[[passage]]\ntext = 'a'\n[[passages]]\ntext = 'b'", "did you mean passage"),
    ],
)
def test_a_file_of_passages_that_says_something_else_is_refused(text: str, told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        passages_of(text, "my.toml")


class Place:
    """A configuration, a folder of engines with one that is a script, and a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkpoint = folder, folder / "model"
        self.config = folder / "vllm-serve.toml"
        self.config.write_text(f'recipe = "demo"\n[paths]\nengines = "{folder}/engines"\n')
        self.checkpoint.mkdir()
        (self.checkpoint / "config.json").write_text("{}")
        (self.checkpoint / "model.safetensors").touch()

    def engine(self, script: str) -> None:
        """Put a script where the Python of the engine is."""
        python = self.folder / "engines/current/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\ncat > {self.folder}/asked\n{script}\n")
        python.chmod(0o755)

    def run(self, *arguments: str) -> Result:
        words = ["fingerprint", str(self.checkpoint), "--config", str(self.config), *arguments]
        return CliRunner(mix_stderr=False).invoke(command, words, standalone_mode=False)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


ANSWER = json.dumps({"reference": json.loads(json_of(REFERENCE)), "most": 1 << 20, "whole": 5 << 20})


def test_the_fingerprint_goes_to_the_output_and_what_it_took_to_the_error_output(place: Place) -> None:
    place.engine(f"echo noise; echo '{ANSWER}'")
    result = place.run()
    assert result.return_value == 0
    assert record_of(Reference, result.stdout) == REFERENCE
    assert result.stderr == "3 tokens, 6.17 nats a token; 1.0 of 5.0 MiB of weights in memory at once\n"
    asked = json.loads((place.folder / "asked").read_text())
    assert asked == {"folder": str(place.checkpoint), "passages": [dataclasses.asdict(prompt) for prompt in PASSAGES]}


def test_a_file_takes_the_fingerprint_and_more_texts_come_from_one(place: Place) -> None:
    place.engine(f"echo '{ANSWER}'")
    (place.folder / "more.toml").write_text("[[passage]]\ntext = 'lamp of of'\nchat = true\n")
    out = place.folder / "out.json"
    result = place.run("--output", str(out), "--passages", str(place.folder / "more.toml"))
    assert (result.return_value, result.stdout) == (0, "")
    assert record_of(Reference, out.read_text()) == REFERENCE
    assert json.loads((place.folder / "asked").read_text())["passages"][len(PASSAGES) :] == [
        {"text": "lamp of of", "chat": True, "system": ""}
    ]


@pytest.mark.parametrize(
    ("script", "status", "told"),
    [
        ("""echo '{"error": "x is unknown"}'; exit 78""", 78, "x is unknown"),
        ("""echo '{"error": "not enough memory"}'; exit 75""", 75, "not enough memory"),
        ("kill -9 $$", 75, "signal 9 ended the computation; for want of memory"),
        ("exit 1", 78, "the engine's Python ended with 1 and no answer"),
        ("echo '{}'", 78, "the engine's Python ended with 0 and no answer"),
        ("echo '[3]'; exit 78", 78, "the engine's Python ended with 78 and no answer"),
    ],
)
def test_an_answer_that_is_none_tells_why(place: Place, script: str, status: int, told: str) -> None:
    place.engine(script)
    result = place.run("--output", str(place.folder / "out.json"))
    assert result.return_value == status
    assert told in result.stderr
    assert not (place.folder / "out.json").exists()


def refusal(place: Place) -> str:
    with pytest.raises(NoFingerprintError) as refused:
        computed(place.folder / "engines/current", place.checkpoint, PASSAGES)
    assert refused.value.status == 78
    return str(refused.value)


def test_without_an_engine_it_says_how_to_get_one(place: Place) -> None:
    assert "`vllm-serve engine install` makes one" in refusal(place)
    assert place.run().return_value == 78


def test_a_folder_that_is_no_checkpoint_is_refused(place: Place) -> None:
    place.engine("exit 1")
    weights, index = place.checkpoint / "model.safetensors", place.checkpoint / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}')
    assert refusal(place) == "1 of 2 files of weights are not there: model-2.safetensors"
    index.write_text("[]")
    assert "is not an index of weights" in refusal(place)
    index.unlink()
    weights.rename(place.checkpoint / "pytorch_model.bin")
    assert "has only pytorch_model.bin, wants safetensors" in refusal(place)
    (place.checkpoint / "pytorch_model.bin").unlink()
    assert "has no weights, wants safetensors" in refusal(place)
    (place.checkpoint / "config.json").unlink()
    assert "has no config.json" in refusal(place)
    place.checkpoint.rmdir()
    assert "is no folder" in refusal(place)


def test_a_place_that_takes_no_file_is_refused_before_anything_is_computed(place: Place) -> None:
    place.engine(f"echo '{ANSWER}'")
    for output, told in ((place.folder, "is no plain file"), (place.folder / "no/x.json", "is no folder")):
        result = place.run("--output", str(output))
        assert isinstance(result.exception, RefusedError)
        assert told in str(result.exception)
    assert not (place.folder / "asked").exists()


def test_what_is_no_file_is_never_replaced_by_one(place: Place) -> None:
    place.engine(f"echo '{ANSWER}'")
    pipe = place.folder / "pipe"
    os.mkfifo(pipe)
    assert isinstance(place.run("--output", str(pipe)).exception, RefusedError)
    assert pipe.is_fifo()
