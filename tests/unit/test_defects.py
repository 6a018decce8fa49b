"""The right values where the two scripts are wrong, and what they do that none of their recorded runs shows."""

import dataclasses
import json
from pathlib import Path

import pytest

from appliance.core import checks, fabric
from appliance.core.config import config_of
from appliance.core.envfile import environment_of as environment_in
from appliance.core.facts import Address, Facts, FileFacts, Gid, RdmaPort, Unread
from appliance.core.formula import compiler_too_new
from appliance.core.imported import imported
from appliance.core.inquiry import plain_inquiry
from appliance.core.plan import Plan, build, overlays_of
from appliance.core.problem import Problem, RefusedError
from appliance.core.recipe import Recipe
from appliance.core.situation import Situation
from appliance.engine.process import environment_of
from appliance.host.gather import gather
from appliance.service.share import recipe_at, recipe_files
from tests.unit.test_parity import OVERLAYS

ROOTS = Path(__file__).parents[1] / "roots"
RTX3090X4 = "qwen38-flash-next/rtx3090x4"
GX10 = "glm53-flash/gx10"
STOCK = "[knobs]\nallow_stock = true\n"
CONFIG = '{"text_config": {"ple_embedding_dtype": "float8_e4m3fn"}}'


def recipe(identity: str) -> Recipe:
    return recipe_at(recipe_files()[identity], "/usr/share/vllm-serve")


def four(folder: Path, config: str = CONFIG) -> Facts:
    """Return the facts of a machine with the checkpoint of the four GPUs."""
    (folder / "m").mkdir()
    (folder / "m/config.json").write_text(config)
    (folder / "m/qsa_kv_scales.json").write_text("{}")
    return gather(folder, plain_inquiry())


def box(root: str = "two") -> Facts:
    return gather(ROOTS / f"gx10-{root}", plain_inquiry())


def four_plan(folder: Path, text: str = "", config: str = CONFIG) -> Plan:
    file = f'recipe = "{RTX3090X4}"\n[model]\nsource = "/m"\n{text}'
    return build(config_of(file, "x.toml"), recipe(RTX3090X4), four(folder, config))


def box_plan(text: str = "", facts: Facts | None = None) -> Plan:
    return build(config_of(f'recipe = "{GX10}"\n{STOCK}{text}', "x.toml"), recipe(GX10), facts or box())


def imported_plan(folder: Path, environment: str) -> Plan:
    text = imported(RTX3090X4, environment_in(environment.encode(), "x.env"), ("/m",))
    return build(config_of(text, "x.toml"), recipe(RTX3090X4), four(folder))


def refused(text: str = "", facts: Facts | None = None) -> tuple[Problem, ...]:
    with pytest.raises(RefusedError) as error:
        box_plan(text, facts)
    return tuple(error.value.problems)


def value(plan: Plan, flag: str) -> str:
    return plan.argv[plan.argv.index(flag) + 1]


def variable(plan: Plan, name: str) -> str | None:
    return {entry.name: entry.value for entry in plan.env}.get(name)


def sizes(plan: Plan) -> list[int]:
    found: list[int] = json.loads(value(plan, "--compilation-config"))["cudagraph_capture_sizes"]
    return found


@pytest.mark.parametrize(("written", "number"), [("08", 8), ("010", 10)])
def test_zeros_in_front_are_one_number_for_vllm_and_for_the_graphs(tmp_path: Path, written: str, number: int) -> None:
    plan = imported_plan(tmp_path, f"MAX_SEQS={written}")
    assert (value(plan, "--max-num-seqs"), sizes(plan)[-1]) == (str(number), 4 * number)


def test_what_the_recipe_ships_is_worth_no_note(tmp_path: Path) -> None:
    assert four_plan(tmp_path).notes == ()


def test_requests_that_can_not_share_the_pool_are_noted_with_both_numbers(tmp_path: Path) -> None:
    notes = "\n".join(four_plan(tmp_path, "[vllm]\nmax_num_seqs = 8\n").notes)
    assert "2097152" in notes
    assert "924993" in notes


def test_a_missing_checkpoint_is_told_together_with_a_missing_engine() -> None:
    unread = (Unread(what="checkpoint", reason="there is no folder /m"),)
    facts = dataclasses.replace(box("none"), checkpoint=None, engine=None, unread=unread)
    config = config_of(f'recipe = "{RTX3090X4}"\n', "x.toml")
    found = checks.errors(checks.run(Situation(config=config, recipe=recipe(RTX3090X4), facts=facts)))
    assert {finding.id for finding in found} == {"build.engine", "checkpoint.folder"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("{}", "is absent, this recipe needs float8_e4m3fn; run"),
        ('{"ple_embedding_dtype": "float8_e4m3fn"}', "is absent, this recipe needs"),
        ('{"text_config": {"ple_embedding_dtype": "bfloat16"}}', "is bfloat16, this recipe needs float8_e4m3fn"),
    ],
)
def test_a_checkpoint_for_another_engine_is_refused_and_never_changed(tmp_path: Path, config: str, told: str) -> None:
    with pytest.raises(RefusedError) as error:
        four_plan(tmp_path, config=config)
    assert f"/m/config.json: text_config.ple_embedding_dtype {told}" in str(error.value)
    assert (tmp_path / "m/config.json").read_text() == config


@pytest.mark.parametrize("config", ["{", "[]", ""])
def test_a_config_that_can_not_be_read_is_not_called_one_without_the_key(tmp_path: Path, config: str) -> None:
    with pytest.raises(RefusedError) as error:
        four_plan(tmp_path, config=config)
    assert "/m/config.json" in str(error.value)
    assert "lacks" not in str(error.value)
    assert "ple_embedding_dtype" not in str(error.value)


@pytest.mark.parametrize("blank", ["' '", "'\t'"])
def test_blanks_name_no_gpu(tmp_path: Path, blank: str) -> None:
    assert variable(imported_plan(tmp_path, f"CUDA_VISIBLE_DEVICES={blank}"), "CUDA_VISIBLE_DEVICES") == "0,1,2,3"


@pytest.mark.parametrize("names", ['" "', "[]", '["a", " "]'])
def test_blanks_are_no_name_of_a_model(names: str) -> None:
    with pytest.raises(RefusedError, match="served_model_name"):
        config_of(f"[model]\nserved_model_name = {names}", "x.toml")


def test_the_depth_of_drafting_is_one_number_for_the_engine_and_for_its_graphs(tmp_path: Path) -> None:
    plan = four_plan(tmp_path, "[knobs]\ndraft_tokens = 2\n")
    assert json.loads(value(plan, "--speculative-config"))["num_speculative_tokens"] == 2
    assert sizes(plan) == [1, 2, 3, 6, 9, 12]


def test_the_first_of_several_names_is_the_self_tests(tmp_path: Path) -> None:
    assert imported_plan(tmp_path, "MODEL_NAME=alpha beta").served_model_name == "alpha"


@pytest.mark.parametrize(("word", "variables"), [("1", ("30", "300")), ("0", (None, None))])
def test_counters_are_logged_where_they_are_asked_for(
    tmp_path: Path, word: str, variables: tuple[str | None, str | None]
) -> None:
    plan = imported_plan(tmp_path, f"COUNTERS={word}")
    names = ("MERLIN_TOPK_EXACT_COUNTERS_LOG", "VLLM_QSA_KV_CLIP_COUNT")
    assert tuple(variable(plan, name) for name in names) == variables


def test_the_caches_are_made_before_the_launch_and_autotuning_is_fresh_unless_it_is_kept(tmp_path: Path) -> None:
    assert [folder.path for folder in four_plan(tmp_path).folders] == ["/var/cache/vllm-serve/engine"]
    shared, keyed = ("/var/cache/vllm-serve/engine/glm53-121-fp8_e4m3", "-1757696d/vllm")
    rest = [(f"{shared}{keyed}", False), (f"{shared}/triton", False), (f"{shared}/tilelang", False)]
    made = [(folder.path, folder.fresh) for folder in box_plan().folders]
    assert made == [("/tmp/flashinfer_autotune", True), *rest]
    kept = [(folder.path, folder.fresh) for folder in box_plan("persist_autotune = true\n").folders]
    assert kept == [(f"{shared}/flashinfer_autotune", False), *rest]


@pytest.mark.parametrize(("requests", "noted"), [(6, False), (7, True)])
def test_more_than_eight_graphs_are_noted(tmp_path: Path, requests: int, noted: bool) -> None:
    notes = four_plan(tmp_path, f"[vllm]\nmax_num_seqs = {requests}\n").notes
    assert any("CUDA graphs" in note for note in notes) == noted


def test_what_an_old_shell_left_behind_does_not_reach_the_engine(tmp_path: Path) -> None:
    endings = (
        *("CPU_OFFLOAD", "FP8_GLOBAL_SCALE", "TEST_FAULT", "TEST_FAULT_GATE", "TEST_FAULT_LOG", "OFFLOAD_WAIT_TIMEOUT"),
        *("PROGRESS_DEADLINE_S", "STARTUP_DEADLINE_S"),
    )
    names = {f"VLLM_PLE_{ending}" for ending in endings}
    names |= {"MERLIN_FOO", "VLLM_E2_SCHED_LOG", "PYTORCH_CUDA_ALLOC_CONF"}
    names |= {"VLLM_QSA_KV_COLLECT", "VLLM_QSA_KV_CLIP_COUNT"}
    seen = environment_of(four_plan(tmp_path), [("KEPT", "1"), *((name, "1") for name in sorted(names))])
    assert seen["KEPT"] == "1"
    assert not seen.keys() & names
    assert (seen["PYTHONSAFEPATH"], seen["PYTHONPATH"]) == ("1", "/var/lib/vllm-serve/engines/current/vllm")


@pytest.mark.parametrize(
    ("compiler", "driver", "fits"),
    [("13.9", "13.10", True), ("13.10", "13.9", False), ("13.0", "13.0", True), ("13.0", None, True)],
)
def test_releases_are_compared_as_numbers_and_an_unknown_one_refuses_nothing(
    compiler: str, driver: str | None, fits: bool
) -> None:
    facts = dataclasses.replace(box(), nvcc_cuda=compiler, driver_cuda=driver)
    assert (compiler_too_new(facts) is None) == fits


def test_the_copy_of_the_log_is_rotated_daily_and_above_its_cap_with_fourteen_older_ones() -> None:
    rule = {line.strip() for line in (ROOTS.parents[1] / "etc/logrotate.d/vllm-serve").read_text().splitlines()}
    assert rule >= {"daily", "maxsize 200M", "rotate 14", "compress", "copytruncate", "missingok", "notifempty"}


def port(device: str, interface: str, address: str, index: int = 3) -> tuple[Address, RdmaPort]:
    """Return an interface with one address, and the RDMA port that carries it in two entries, as the kernel does."""
    digits = "".join(f"{int(part):02x}" for part in address.split("."))
    gid = ":".join((*["0000"] * 5, "ffff", digits[:4], digits[4:]))
    kinds = (("IB/RoCE v1", index - 1), ("RoCE v2", index))
    found = RdmaPort(
        device=device,
        port=1,
        state="ACTIVE",
        physical_state="LinkUp",
        rate=200.0,
        pci_address=None,
        gids=tuple(Gid(index=slot, kind=kind, gid=gid, interface=interface) for kind, slot in kinds),
    )
    return Address(interface=interface, address=address, prefix=24, scope="global"), found


def wired(*ports: tuple[Address, RdmaPort]) -> Facts:
    lan = Address(interface="lan0", address="172.16.0.1", prefix=24, scope="global")
    addresses, rdma = (*(address for address, _ in ports), lan), tuple(found for _, found in ports)
    return dataclasses.replace(box("none"), addresses=addresses, rdma=rdma)


def test_the_start_of_an_address_is_no_pattern() -> None:
    facts = wired(port("mlx5_0", "eth0", "192.168.100.5"), port("mlx5_1", "eth1", "192.168.1.5", index=9))
    plan = box_plan('[cluster]\nsubnets = ["192.168.1."]\n', facts)
    assert (variable(plan, "NCCL_IB_HCA"), variable(plan, "NCCL_IB_GID_INDEX")) == ("mlx5_1", "9")
    assert variable(plan, "VLLM_HOST_IP") == "172.16.0.1", "the address of no fabric port, wherever it stands"


def test_a_mesh_waits_for_every_subnet_and_a_ring_takes_what_is_cabled() -> None:
    subnets = '[cluster]\nsubnets = ["10.10.1.", "10.10.2."]\n'
    problems = refused(subnets, box("one"))
    assert all(problem.transient and "for 10.10.2.;" in problem.what for problem in problems)
    plan = box_plan(f'{subnets}fabric_layout = "ring"\n', box("one"))
    assert variable(plan, "NCCL_IB_HCA") == "rocep1s0f0"


def test_without_a_word_of_the_driver_the_caches_have_a_name_all_the_same() -> None:
    plan = box_plan(facts=dataclasses.replace(box(), gpus=None))
    cache = "/var/cache/vllm-serve/engine/glm53-unknown-fp8_e4m3"
    assert variable(plan, "TRITON_CACHE_DIR") == f"{cache}/triton"


def test_addresses_that_can_not_be_read_are_told_with_the_reason_and_waited_for() -> None:
    unread = (Unread(what="addresses", reason="the kernel refuses"),)
    problems = refused(facts=dataclasses.replace(box(), addresses=None, unread=unread))
    assert problems
    assert all(problem.transient and "the kernel refuses" in problem.what for problem in problems)


def test_an_address_that_no_interface_holds_is_told_with_those_that_are_there_and_waited_for() -> None:
    (problem,) = refused('[cluster]\nhost_address = "192.168.7.99"\n')
    assert "no interface holds 192.168.7.99; this machine has 192.168.7.11 on enP7s7" in problem.what
    assert problem.transient


@pytest.mark.parametrize("other", ["eth10", "eth1.100"])
def test_a_name_that_begins_another_is_exact_for_nccl(other: str) -> None:
    facts = wired(port("mlx5_1", "eth1", "10.0.1.1"), port("mlx5_10", other, "10.0.2.1"))
    assert fabric.exact_interface(facts, "eth1") == "=eth1"
    assert fabric.exact_interface(facts, "lan0") == "lan0"
    assert variable(box_plan('[cluster]\nsubnets = ["10.0.1."]\n', facts), "NCCL_IB_HCA") == "=mlx5_1"


def test_the_entry_of_an_address_may_lie_in_any_slot() -> None:
    facts = wired(port("mlx5_0", "eth0", "10.0.0.1", index=200))
    assert variable(box_plan(facts=facts), "NCCL_IB_GID_INDEX") == "200"


@pytest.mark.parametrize("layout", ["ring", "mesh"])
def test_the_index_is_that_of_the_device_that_a_person_names(layout: str) -> None:
    text = f'[cluster]\nfabric_layout = "{layout}"\n[env]\nNCCL_IB_HCA = "roceP2p1s0f0"\n'
    assert variable(box_plan(text, box("mismatch")), "NCCL_IB_GID_INDEX") == "6"


def test_devices_and_index_of_a_person_need_no_port_on_the_machine() -> None:
    plan = box_plan('[env]\nNCCL_IB_HCA = "mlx5_7"\nNCCL_IB_GID_INDEX = 4\n', box("none"))
    assert (variable(plan, "NCCL_IB_HCA"), variable(plan, "NCCL_IB_GID_INDEX")) == ("mlx5_7", "4")


@pytest.mark.parametrize(
    "words",
    [
        ("--api-key", "right"),
        ("--api-key=right",),
        ("--api_key", "right"),
        ("--api-k=right",),
        ("--api-key", "wrong", "--api-key", "right"),
    ],
)
def test_the_self_test_has_the_key_that_vllm_asks_for(words: tuple[str, ...]) -> None:
    assert box_plan(f"[engine]\nextra_args = {json.dumps(words)}\n").api_key == "right"


def test_the_checkpoints_own_template_can_be_had() -> None:
    plan = box_plan('[vllm]\nchat_template = ""\n')
    assert value(plan, "--chat-template") == "", "for vLLM an empty text means that nothing is set"


def test_a_template_that_is_not_there_is_found_before_the_launch() -> None:
    config = config_of(f'recipe = "{GX10}"\n', "x.toml")
    found = checks.run(Situation(config=config, recipe=recipe(GX10), facts=box(), plan=box_plan()))
    told = [finding.summary for finding in checks.errors(found) if finding.id == "checkpoint.recipe-files"]
    assert [text.partition(":")[0] for text in told] == [
        "there is no /var/lib/vllm-serve/assets/glm53-flash/glm53-chat-template.jinja"
    ]


def test_a_drafter_with_a_quote_in_its_name_is_one_json_text() -> None:
    facts = box()
    files = (*facts.files, FileFacts(path='/models/a"b/config.json', exists=True))
    plan = box_plan("drafter = '/models/a\"b'\n", dataclasses.replace(facts, files=files))
    assert json.loads(value(plan, "--speculative-config"))["model"] == '/models/a"b'


@pytest.mark.parametrize(
    "words", [("--speculative-config", "{}"), ("--speculative_config={}",), ("-sc", "{}"), ("--spec-method", "mtp")]
)
def test_speculation_is_not_set_a_second_time(words: tuple[str, ...]) -> None:
    (problem,) = refused(f"[engine]\nextra_args = {json.dumps(words)}\n")
    assert problem.key == "[engine] extra_args"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("decode_reserve_tokens = 16381\n", "16381 of 16384 tokens leaves 0 for prefill"),
        ('spec_extra = { model = "x" }\n', "must not set model"),
        ('spec_method = "mtp"\nspec_extra = { a = 1 }\n', 'made for "dflash", and the method is "mtp"'),
        ('spec_method = "eagle"\n', "wants one of dflash, mtp, none"),
        ("[vllm]\nmax_num_seqs = 0\n", "found 0, wants a whole number of at least 1"),
        ("[vllm]\nmax_num_batched_tokens = 31\n", "is 31 and must be at least max_num_seqs, which is 32"),
        ("[cluster]\nnodes = 1\n", "is made for 2, 3, 4, 6, found 1"),
        ('[cluster]\nhead = "192.168.7.12"\nrole = "head"\n', "this machine is 192.168.7.11 and head"),
        ('[cluster]\nhead = "192.168.7.11"\nrole = "worker"\n', 'head = "192.168.7.11" is this machine'),
    ],
)
def test_values_that_do_not_fit_the_model_are_refused_in_the_file_too(text: str, told: str) -> None:
    assert any(told in problem.what for problem in refused(text))


@pytest.mark.parametrize(
    ("line", "told"), [("max_num_seqs = 0", "found 0, wants"), ("max_num_batched_tokens = 3", "must be at least")]
)
def test_counts_are_held_against_each_other_in_the_file_too(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        four_plan(tmp_path, f"[vllm]\n{line}\n")


@pytest.mark.parametrize("line", ["decode_reserve_tokens = -1", "kv_extra_memory = -1", 'kv_extra_memory = "2GiB"'])
def test_a_reserve_and_more_memory_are_numbers_from_0_on(line: str) -> None:
    (problem,) = refused(f"{line}\n")
    assert problem.key == f"[knobs] {line.partition(' ')[0]}"


def test_a_threshold_above_the_budget_of_a_step_is_told() -> None:
    text = "[vllm]\nlong_prefill_token_threshold = 99999\n"
    try:
        told = " ".join(box_plan(text).notes)
    except RefusedError as error:
        told = str(error)
    assert "99999" in told
    assert "16384" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spec_tokens = 7\n", ""),
        ("spec_tokens = 5\n", "7"),
        ('spec_method = "mtp"\nspec_tokens = 5\n', ""),
        ('[vllm]\nmoe_backend = "marlin"\n', ""),
        (
            'capture_sizes = [8, 512]\n[vllm]\nmoe_backend = "marlin"\n',
            "512 tokens exceeds max_num_seqs x (1 + draft) = 256",
        ),
    ],
)
def test_what_is_taken_and_unwise_is_noted_and_the_rest_is_not(text: str, told: str) -> None:
    notes = box_plan(text).notes
    assert told in "".join(notes)
    assert bool(notes) == bool(told)


@pytest.mark.parametrize(("nodes", "pool"), [(2, 8589934592), (3, 12884901888), (4, 27917287425), (6, 27917287424)])
def test_more_memory_is_for_the_pool_of_four_boxes(nodes: int, pool: int) -> None:
    plan = box_plan(f"kv_extra_memory = 1\n[cluster]\nnodes = {nodes}\n")
    assert value(plan, "--kv-cache-memory-bytes") == str(pool)


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_overlay_is_known_by_its_file(name: str) -> None:
    path = f"/usr/local/lib/python3.12/dist-packages/{OVERLAYS[name]}"
    facts = dataclasses.replace(box("none"), files=(FileFacts(path=path, exists=True),))
    assert overlays_of(recipe(GX10), facts) == (name,)
