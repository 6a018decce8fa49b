"""The launch plan and the checks before it."""

import dataclasses

import pytest

from appliance.core import checks
from appliance.core.config import Config, config_of
from appliance.core.facts import CheckpointFacts, EngineFacts, Facts, PortFacts, Unread, WeightFile
from appliance.core.finding import Severity
from appliance.core.inquiry import inquiry_of
from appliance.core.plan import build
from appliance.core.recipe import recipe_of
from appliance.core.situation import Situation

RECIPE = recipe_of(
    'id = "r"\nsummary = "s"\n[model]\nsource = "demo/model"\n[vllm]\nmax_model_len = 1024\nenforce_eager = true\n'
    '[env]\nA = 1\n[[question]]\nname = "q"\njudge = "task"\n',
    "r.toml",
)
MODEL = "/usr/share/vllm-serve/demo/model"
FACTS = Facts(
    engine=EngineFacts(id="e", folder="/e", vllm="0.32.0+cpu", torch="2.13.0+cpu", device="cpu"),
    checkpoint=CheckpointFacts(
        folder=MODEL,
        architecture="Qwen3ForCausalLM",
        max_position_embeddings=1024,
        weights=(WeightFile(name="model.safetensors", bytes=1_300_000, fault=None),),
        missing=(),
    ),
    gpus=None,
    memory_total=24 << 30,
    memory_available=20 << 30,
    port=PortFacts(host="127.0.0.1", port=8000, fault=None, transient=False),
    unread=(Unread(what="gpus", reason="NVML: no library"),),
)


def config(text: str = "") -> Config:
    return config_of(f'recipe = "r"\n{text}', "x.toml")


def findings(text: str = "", facts: Facts = FACTS) -> list[tuple[str, Severity, bool]]:
    found = checks.run(Situation(config=config(text), recipe=RECIPE, facts=facts))
    return [(finding.id, finding.severity, finding.transient) for finding in found]


def test_the_command_line_holds_recipe_user_and_extra_arguments_in_that_order() -> None:
    text = '[vllm]\nmax_model_len = 512\nseed = 7\n[engine]\nextra_args = ["--max-num-seqs", "4"]\n'
    plan = build(config(text), RECIPE, FACTS)
    start = f"/e/bin/python /e/bin/vllm serve {MODEL} --host 127.0.0.1 --port 8000 --served-model-name model"
    assert " ".join(plan.argv) == f"{start} --max-model-len 512 --enforce-eager --seed 7 --max-num-seqs 4"
    origins = {setting.name: setting.origin for setting in plan.settings}
    assert origins == {"max_model_len": "x.toml:3", "enforce_eager": "r.toml:7", "seed": "x.toml:4"}


def test_answers_come_from_the_settings_but_not_from_how_much_memory_was_free() -> None:
    """A baseline is held closely only where nothing changed that could change an answer."""

    def identity(text: str) -> object:
        return build(config(text), RECIPE, FACTS).identity

    plain = identity("")
    assert plain is not None
    assert identity("[vllm]\ngpu_memory_utilization = 0.3\n") == plain
    assert identity("[vllm]\nmax_num_seqs = 4\n") != plain
    assert identity("[env]\nA = 2\n") != plain
    assert identity('[engine]\nextra_args = ["--seed", "4"]\n') != plain


def test_the_users_variables_come_after_the_recipes() -> None:
    plan = build(config("[env]\nA = 2\n"), RECIPE, FACTS)
    assert {variable.name: variable.value for variable in plan.env}["A"] == "2"
    assert "NOTIFY_SOCKET" in plan.unset


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:8000"), ("0.0.0.0", "http://127.0.0.1:8000"), ("::", "http://[::1]:8000")],
)
def test_the_self_test_reaches_the_api_on_this_machine(host: str, url: str) -> None:
    plan = build(config(f'[api]\nhost = "{host}"\nallow_unauthenticated = true\n'), RECIPE, FACTS)
    assert plan.base_url == url


def test_a_sound_machine_has_no_findings() -> None:
    assert findings() == []


def test_a_missing_engine_may_still_come() -> None:
    facts = dataclasses.replace(FACTS, engine=None)
    assert findings(facts=facts) == [("build.engine", Severity.ERROR, True)]


def test_a_missing_engine_that_the_file_names_does_not_come_by_waiting() -> None:
    facts = dataclasses.replace(FACTS, engine=None)
    assert findings('[engine]\nuse = "other"\n', facts) == [("build.engine", Severity.ERROR, False)]


def test_a_busy_port_may_become_free() -> None:
    facts = dataclasses.replace(
        FACTS, port=PortFacts(host="127.0.0.1", port=8000, fault="Address already in use", transient=True)
    )
    assert findings(facts=facts) == [("network.port", Severity.ERROR, True)]


def test_a_damaged_checkpoint_is_refused_before_vllm_reads_it() -> None:
    assert FACTS.checkpoint is not None
    torn = WeightFile(name="model.safetensors", bytes=7, fault="is 7 bytes long, too short for a header")
    checkpoint = dataclasses.replace(FACTS.checkpoint, weights=(torn,), missing=("config.json",))
    ids = findings(facts=dataclasses.replace(FACTS, checkpoint=checkpoint))
    assert ids == [("checkpoint.files", Severity.ERROR, False), ("checkpoint.weights", Severity.ERROR, False)]


def test_an_unreadable_checkpoint_says_why() -> None:
    unread = (Unread(what="checkpoint", reason="there is no folder /m"),)
    facts = dataclasses.replace(FACTS, checkpoint=None, unread=unread)
    assert findings(facts=facts) == [("checkpoint.folder", Severity.ERROR, False)]


def test_an_api_for_others_needs_a_word_of_consent() -> None:
    assert findings('[api]\nhost = "0.0.0.0"\n') == [("network.keyless", Severity.ERROR, False)]
    text = '[api]\nhost = "0.0.0.0"\nallow_unauthenticated = true\n'
    assert findings(text) == [("network.keyless", Severity.WARNING, False)]


def test_little_memory_is_a_warning() -> None:
    facts = dataclasses.replace(FACTS, memory_available=1 << 30)
    assert findings(facts=facts) == [("memory.main", Severity.WARNING, False)]


def test_the_running_engines_own_port_is_not_tried() -> None:
    assert inquiry_of(config(), RECIPE, 8000).held
    assert inquiry_of(config('[api]\nhost = "0.0.0.0"\n'), RECIPE, 8000).held
    assert not inquiry_of(config("[api]\nport = 8001\n"), RECIPE, 8000).held


def test_our_own_running_engine_is_known_on_whatever_port_it_listens() -> None:
    assert inquiry_of(config("[api]\nport = 8001\n"), RECIPE, 8000).engine_runs
    assert not inquiry_of(config(), RECIPE).engine_runs
