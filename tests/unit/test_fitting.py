"""How a model is fitted to GPUs and to main memory."""

import dataclasses

import pytest

from appliance.core.facts import EngineFacts, Facts, GpuFacts, Unread
from appliance.core.fitting import (
    GIB,
    MIB,
    accelerator,
    case,
    choose_tp,
    cpu_cache,
    cpu_misfit,
    device_of,
    misfit,
    room,
    too_much_wanted,
    utilization,
    valid_tp,
    visible_devices,
)
from appliance.core.kind import NotYetError, UnfitError
from appliance.core.shape import Shape, demand, shape_of
from tests.generic.matrix import checkpoint_of, machine_of

EVERY = (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("name", "possible"),
    [
        ("qwen3-0.6b", EVERY),
        ("llama-3.1-8b", EVERY),
        ("llama-3.1-70b", EVERY),
        ("qwen3-30b-a3b", EVERY),
        ("deepseek-v3", EVERY),
        ("qwen3-32b-fp8", EVERY),
        ("bge-m3", EVERY),
        ("bge-reranker-v2-m3", EVERY),
        ("qwen3-embedding-0.6b", EVERY),
        ("qwen2.5-14b-awq", (1, 2, 4)),
        ("qwen2.5-7b-gptq-int4", (1, 2, 4)),
        ("qwen2.5-vl-7b", (1, 2, 4)),
        ("whisper-large-v3-turbo", (1, 2, 4)),
    ],
)
def test_a_model_splits_over_as_many_gpus_as_a_person_finds(name: str, possible: tuple[int, ...]) -> None:
    shape = shape_of(checkpoint_of(name).config)
    assert tuple(tp for tp in EVERY if valid_tp(tp, shape) is None) == possible


def test_nvfp4_experts_tear_at_eight() -> None:
    shape = shape_of(checkpoint_of("nemotron-3-nano-30b-a3b-nvfp4").config)
    packed = dataclasses.replace(shape, group=16, blocks=True)
    assert [tp for tp in EVERY if valid_tp(tp, packed) is None] == [1, 2, 4]


@pytest.mark.parametrize(
    ("tp", "shape", "reason"),
    [
        (3, Shape(heads=28), "28 attention heads do not divide by 3"),
        (8, Shape(heads=24, kv_heads=3), "3 KV heads can be neither split over 8 GPUs nor copied evenly"),
        (4, Shape(heads=24, kv_heads=6), "6 KV heads can be neither split over 4 GPUs nor copied evenly"),
        (4, Shape(intermediate=11006), "11006 columns of the MLP do not divide by 4"),
        (2, Shape(moe_intermediate=7), "7 columns of an expert do not divide by 2"),
        (2, Shape(vision_heads=7), "7 heads of the vision tower do not divide by 2"),
        (4, Shape(mamba_heads=8, mamba_groups=2), "2 groups of the state space do not divide by 4"),
        (4, Shape(mamba_heads=8, mamba_groups=1), None),
        (3, Shape(vocabulary=100), "128 rows of the padded vocabulary do not divide by 3"),
        (
            4,
            Shape(intermediate=256, group=128),
            "256 columns of the MLP on 4 GPUs tear groups of 128 quantized weights",
        ),
        (7, Shape(), None),
    ],
)
def test_a_split_is_refused_with_its_numbers(tp: int, shape: Shape, reason: str | None) -> None:
    assert valid_tp(tp, shape) == reason


@pytest.mark.parametrize(
    ("machine", "share", "gib"),
    [
        ("h200", 0.92, 123.15),
        ("h200x2", 0.92, 123.15),
        ("gx10", 0.80, 92.45),
        ("rtx3090x4", 0.90, 18.98),
        ("rtx2080super", 0.83, 4.65),
    ],
)
def test_the_room_on_a_gpu_is_what_a_person_reckons(machine: str, share: float, gib: float) -> None:
    found = accelerator(machine_of(machine), None, None)
    assert utilization(found) == share
    size = room(found, share, None)
    assert size is not None
    assert abs(size / GIB - gib) < 0.011


def gpu(index: int, name: str = "NVIDIA A", free: int | None = 79 * GIB, total: int | None = 80 * GIB) -> GpuFacts:
    return GpuFacts(
        index=index, name=name, uuid=f"GPU-{index}", memory_total=total, memory_free=free, compute_capability="9.0"
    )


def machine(*gpus: GpuFacts) -> Facts:
    return dataclasses.replace(machine_of("h200"), gpus=gpus)


def test_gpus_of_one_kind_are_used() -> None:
    mixed = machine(gpu(0, "NVIDIA B", total=24 * GIB), gpu(1), gpu(2), gpu(3, "NVIDIA B", total=24 * GIB))
    found = accelerator(mixed, None, None)
    assert found is not None
    assert found.names == ("1", "2")
    assert visible_devices(found, 1, (1, 1)) == "1"


def test_a_person_names_gpus_and_their_most() -> None:
    facts = machine(gpu(0), gpu(1), gpu(2))
    named = accelerator(facts, ["2", "GPU-0"], None)
    assert named is not None
    assert named.names == ("2", "GPU-0")
    fewer = accelerator(facts, ["2", "GPU-0"], 1)
    assert fewer is not None
    assert fewer.names == ("2",)
    counted = accelerator(facts, None, 2)
    assert counted is not None
    assert counted.names == ("0", "1")
    with pytest.raises(UnfitError, match="names 7, found 0, 1, 2"):
        accelerator(facts, ["7"], None)


def test_gpus_that_do_not_answer_may_still_come() -> None:
    unread = (Unread(what="gpus", reason="NVML: Driver/library version mismatch"),)
    silent = dataclasses.replace(machine(), gpus=None, unread=unread)
    with pytest.raises(NotYetError, match="version mismatch"):
        accelerator(silent, None, None)
    with pytest.raises(NotYetError, match="version mismatch"):
        device_of(dataclasses.replace(silent, engine=None))
    with pytest.raises(NotYetError, match="none was found"):
        accelerator(machine(), None, None)


def test_without_an_engine_the_machine_decides() -> None:
    assert device_of(dataclasses.replace(machine(gpu(0)), engine=None)) == "cuda"
    for reason in ("NVML: Shared Library Not Found; nvidia-smi is not installed", ""):
        bare = dataclasses.replace(machine(), engine=None, gpus=None, unread=(Unread(what="gpus", reason=reason),))
        assert device_of(bare) == "cpu"
    other = EngineFacts(id="e", folder="/e", vllm="0.32.0+cpu", torch="2", device="cpu")
    assert accelerator(dataclasses.replace(machine(gpu(0)), engine=other), None, None) is None


def test_a_gpu_that_others_hold_may_become_free() -> None:
    with pytest.raises(NotYetError, match=r"4\.0 of 80\.0 GiB of memory are free on GPU 0 \(NVIDIA A\)"):
        utilization(accelerator(machine(gpu(0, free=4 * GIB)), None, None))


def test_what_our_own_engine_holds_is_not_counted_as_taken() -> None:
    facts = machine(gpu(0, free=4 * GIB))
    assert utilization(accelerator(dataclasses.replace(facts, engine_runs=True), None, None)) == 0.90
    with pytest.raises(NotYetError):
        utilization(accelerator(facts, None, None))


def test_a_shared_gpu_gives_a_share_of_its_total() -> None:
    found = accelerator(machine(gpu(0, free=40 * GIB)), None, None)
    assert utilization(found) == 0.49
    assert room(found, 0.49, None) == int(0.49 * (80 * GIB * 97 // 100)) - 5 * GIB // 4 - 80 * GIB * 3 // 100


def test_memory_that_nobody_tells_is_asked_for() -> None:
    unknown = accelerator(machine(gpu(0, total=None, free=None)), None, None)
    with pytest.raises(UnfitError, match="set gpu_memory_utilization"):
        utilization(unknown)
    found = case(unknown, demand(checkpoint_of("llama-3.1-70b"), -1, None, None, None), None, None, None)
    assert (choose_tp(found), misfit(found, 1)) == (1, None)


def test_a_size_that_nobody_knows_is_not_refused() -> None:
    bare = dataclasses.replace(checkpoint_of("llama-3.1-70b"), weights=())
    found = accelerator(machine_of("rtx3090x4"), None, None)
    one = case(found, demand(bare, -1, None, None, None), room(found, 0.9, None), None, None)
    assert (choose_tp(one), misfit(one, 1)) == (1, None)


def test_full_length_is_worth_more_gpus_and_the_rest_stays_free() -> None:
    found = accelerator(machine_of("rtx3090x4"), None, None)
    full, short = (
        case(
            found,
            demand(checkpoint_of("llama-3.1-8b"), length, None, None, None),
            room(found, 0.9, None),
            None,
            None,
        )
        for length in (-1, 8192)
    )
    assert (choose_tp(full), choose_tp(short)) == (2, 1)


def test_stages_and_replicas_leave_fewer_gpus_to_split_over() -> None:
    found = accelerator(machine_of("rtx3090x4"), None, None)
    wanted = demand(checkpoint_of("qwen3-30b-a3b"), -1, None, None, None)
    staged = case(found, wanted, room(found, 0.9, None), None, (2, 1))
    assert (choose_tp(staged), misfit(staged, 2), misfit(staged, 4)) == (2, None, "8 GPUs are wanted, 4 can be used")
    doubled = case(found, wanted, room(found, 0.9, None), None, (1, 2))
    assert choose_tp(doubled) == 2
    assert "does not fit" in (misfit(doubled, 2) or "")


def test_main_memory_is_that_of_the_first_node() -> None:
    facts = machine_of("cpu")
    large = demand(checkpoint_of("qwen2.5-14b-awq"), -1, None, None, None)
    assert cpu_cache(facts, large) == 2199 * MIB
    assert cpu_cache(facts, demand(checkpoint_of("qwen3-0.6b"), -1, None, None, None)) == 4 * GIB
    assert cpu_misfit(facts, large, 2199 * MIB) is None
    assert "17.5 GiB of main memory" in (cpu_misfit(facts, large, "9g") or "")
    assert cpu_cache(machine_of("h200"), large) is None


def test_unknown_main_memory_is_asked_for() -> None:
    with pytest.raises(UnfitError, match="the available memory is unknown"):
        cpu_cache(dataclasses.replace(machine_of("cpu"), memory_available=None), None)


def test_what_our_engine_will_give_back_counts_as_free_and_what_others_hold_does_not() -> None:
    running = dataclasses.replace(machine(gpu(0, free=4 * GIB)), engine_runs=True)
    assert running.gpus
    known = dataclasses.replace(running, gpus=(dataclasses.replace(running.gpus[0], memory_ours=36 * GIB),))
    assert utilization(accelerator(known, None, None)) == 0.49
    assert utilization(accelerator(running, None, None)) == 0.90


def test_a_share_above_what_is_free_is_told() -> None:
    found = accelerator(machine(gpu(0, free=39 * GIB)), None, None)
    assert too_much_wanted(found, 0.48) is None
    assert too_much_wanted(found, 0.5) == "gpu_memory_utilization of 0.5 is 40.0 GiB of the GPU, 39.0 GiB are free"
