"""What the two big recipes say beyond the recorded cases: what is noted, what is refused, what follows what."""

import dataclasses
import json
from pathlib import Path

import pytest

from appliance.core.config import config_of
from appliance.core.facts import EngineFacts, Facts, FileFacts
from appliance.core.inquiry import inquiry_of
from appliance.core.plan import Plan, build
from appliance.core.problem import RefusedError
from appliance.core.recipe import Recipe
from appliance.host.gather import gather
from appliance.service.prospect import prospect_of
from appliance.service.share import recipe_at, recipe_files

GX10 = "glm53-flash/gx10"
RTX3090X4 = "qwen38-flash-next/rtx3090x4"
ROOTS = Path(__file__).parents[1] / "roots"
STOCK = EngineFacts(id="e", folder="/e", vllm="0.32.0", torch="2.13.0", device="cuda")


def recipe(identity: str) -> Recipe:
    return recipe_at(recipe_files()[identity], "/usr/share/vllm-serve")


def facts_of(text: str, root: str = "two") -> Facts:
    return gather(ROOTS / f"gx10-{root}", inquiry_of(config_of(text, "x.toml"), recipe(GX10)))


def plan(text: str = "", root: str = "two") -> Plan:
    file = f'recipe = "{GX10}"\n[knobs]\nallow_stock = true\n{text}'
    return build(config_of(file, "x.toml"), recipe(GX10), facts_of(file, root))


def four(text: str, facts: Facts | None = None) -> Plan:
    file = f'recipe = "{RTX3090X4}"\n[model]\nsource = "/models/glm-5.3-flash-nvfp4"\n{text}'
    found = facts or bare()
    return prospect_of(config_of(file, "x.toml"), recipe(RTX3090X4), found).plan


def bare() -> Facts:
    """Return the facts of a machine on which nobody looked for files."""
    return dataclasses.replace(facts_of(""), checkpoint=None, checkpoints=(), searched=(), files=())


def test_a_persons_own_drafting_moves_the_graphs() -> None:
    text = "[vllm]\nspeculative_config = { method = 'mtp', num_speculative_tokens = 1 }\n"
    argv = plan(text).argv
    assert argv[argv.index("--max-cudagraph-capture-size") + 1] == "64"
    argv = four(text.replace("= 1 }", "= 4 }")).argv
    compilation = json.loads(argv[argv.index("--compilation-config") + 1])
    assert compilation["cudagraph_capture_sizes"] == [1, 2, 4, 5, 10, 15, 20]


def test_one_port_of_a_mesh_is_noted_with_what_it_carries() -> None:
    assert plan(root="two").notes == ()
    (note,) = plan(root="one").notes
    assert "the fabric is rocep1s0f0 alone, about half of what two ports carry" in note
    assert plan('[cluster]\nfabric_layout = "ring"\n', root="one").notes == ()


def test_a_port_that_is_named_and_not_there_is_waited_for_in_a_mesh() -> None:
    with pytest.raises(RefusedError) as refused:
        plan('[cluster]\nsubnets = ["10.10.1.", "10.10.2."]\n', root="one")
    assert all(problem.transient for problem in refused.value.problems)
    assert "for 10.10.2." in str(refused.value)


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        ('head = "192.168.7.11"', None),
        ('head = "192.168.7.12"', "a worker of 192.168.7.12"),
        ('head = "boss"', "is a host name: write its address, or set role as well"),
        ('head = "boss"\nrole = "head"', None),
        ('head = "boss"\nrole = "worker"', "a worker of boss"),
    ],
)
def test_the_head_plans_and_a_worker_says_whose_it_is(cluster: str, told: str | None) -> None:
    if told is None:
        assert plan(f"[cluster]\n{cluster}\n").argv[2] == "serve"
        return
    with pytest.raises(RefusedError, match=told):
        plan(f"[cluster]\n{cluster}\n")


def test_the_overlays_of_an_installed_engine_are_looked_for(tmp_path: Path) -> None:
    file = f'recipe = "{GX10}"\n[paths]\nengines = "/engines"\n'
    engine = tmp_path / "engines/e"
    overlay = engine / "lib/python3.12/site-packages/vllm/v1/core/sched/adaptive_k.py"
    for place in (overlay, engine / "bin/python"):
        place.parent.mkdir(parents=True)
        place.touch()
    manifest = {"id": "e", "vllm": "0.32.0", "torch": "2", "device": "cuda", "python": "3.12", "lock": ""}
    (engine / "engine.json").write_text(json.dumps(manifest))
    (tmp_path / "engines/current").symlink_to("e")
    found = gather(tmp_path, inquiry_of(config_of(file, "x.toml"), recipe(GX10)))
    packages = "/engines/e/lib/python3.12/site-packages/vllm"
    assert found.has_file(f"{packages}/v1/core/sched/adaptive_k.py")
    assert found.has_file(f"{packages}/distributed/device_communicators/arx.py") is False
    two = facts_of(file)
    gone = tuple(dataclasses.replace(entry, exists=False) for entry in found.files if "-packages/" in entry.path)
    drafter = FileFacts(path="/models/glm-5.3-flash-dflash2/config.json", exists=True)
    there = dataclasses.replace(two, engine=None, files=(*two.files, *found.files), searched=())
    assert build(config_of(file, "x.toml"), recipe(GX10), there).argv
    with pytest.raises(RefusedError, match="none of the overlays arx, snapshot"):
        build(config_of(file, "x.toml"), recipe(GX10), dataclasses.replace(two, files=(drafter, *gone), searched=()))


def test_a_stock_engine_is_not_started_with_another_engines_flags() -> None:
    with pytest.raises(RefusedError) as refused:
        four("", dataclasses.replace(bare(), engine=STOCK))
    (problem,) = refused.value.problems
    assert "vllm 0.32.0, which does not take" in problem.what
    assert "[vllm] offload_towers" in problem.what
    assert "[env] VLLM_E2_GUARD_MODE" in problem.what
    assert "needs the engine halt95/qwen38-flash-next-3090s" in problem.hint
    assert four("").argv


@pytest.mark.parametrize("gpu", ["devices = [0, 1]", "count = 2"])
def test_two_gpus_are_too_few_for_a_model_that_is_split_over_four(gpu: str) -> None:
    with pytest.raises(RefusedError, match="found 2 GPUs, tensor_parallel_size x pipeline_parallel_size is 4"):
        four(f"[gpu]\n{gpu}\n")


def test_an_engine_that_would_be_killed_before_it_is_done_is_noted() -> None:
    (note,) = four("").notes
    assert note.endswith("/config.json could not be looked at; it must be float8_e4m3fn")
    assert "shutdown_timeout is 60 s, and [patience] stopping kills the engine after 20 s" in "".join(
        four("[vllm]\nshutdown_timeout = 60\n").notes
    )
    assert "shutdown_timeout" not in "".join(
        four('[vllm]\nshutdown_timeout = 60\n[patience]\nstopping = "90s"\n').notes
    )


def variables(text: str) -> dict[str, str]:
    return {variable.name: variable.value for variable in plan(text).env}


def test_a_named_gpu_reaches_the_engine_of_a_box() -> None:
    assert variables("[gpu]\ndevices = [0]\n")["CUDA_VISIBLE_DEVICES"] == "0"
    assert "CUDA_VISIBLE_DEVICES" not in variables("")


def test_a_claim_counts_without_a_ring_and_a_ring_claims_for_its_group() -> None:
    assert "MENTAT_CLAIM" not in variables('group = "g"\n')
    assert variables('claim = "c"\n')["MENTAT_CLAIM"] == "c"
    ring = '[cluster]\nfabric_layout = "ring"\n'
    assert variables(f'group = "g"\n{ring}')["MENTAT_CLAIM"] == "g"
    assert variables(f'claim = "c"\n{ring}')["MENTAT_CLAIM"] == "c"


def test_numbers_in_thousands_are_vllms_and_the_formulas() -> None:
    argv = plan('decode_reserve_tokens = 1000\n[vllm]\nmax_num_batched_tokens = "16k"\n').argv
    assert argv[argv.index("--max-num-batched-tokens") + 1] == "16k"
    assert argv[argv.index("--long-prefill-token-threshold") + 1] == "15000"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "scales").mkdir()
    file = f'recipe = "{RTX3090X4}"\n[knobs]\nscales = "/scales"\n'
    facts = gather(tmp_path, inquiry_of(config_of(file, "x.toml"), recipe(RTX3090X4)))
    assert facts.has_file("/scales") is False


def test_a_flag_with_the_name_of_a_knob_is_no_knob() -> None:
    with pytest.raises(RefusedError, match="stands beside --speculative-config, which the recipe sets"):
        plan("[vllm]\nspec_tokens = 3\n")
