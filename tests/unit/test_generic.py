"""The recipe `generic`: every checkpoint on every machine, what a person sets, and what is refused."""

import dataclasses
import json
from typing import Any

import pytest

from appliance.core.architecture import ArchitectureList, kind_of, refusal_of, slow_way_of, unfit_quantization
from appliance.core.config import config_of
from appliance.core.facts import CheckpointFacts, Facts, Unread
from appliance.core.finding import Severity
from appliance.core.problem import RefusedError
from appliance.service.architectures import architectures_for, architectures_of
from appliance.service.prospect import Prospect, prospect_of
from appliance.service.share import chosen_recipe
from tests.generic.matrix import CASES, MACHINES, arguments, expected, facts_of, machine_of, prospect_with, told
from tests.generic.matrix import prospect as prospect_on

ANY = (1, 2)

TABLE: dict[str, tuple[int | tuple[int, ...] | None, ...]] = {
    "qwen3-0.6b": (1, 1, 1, 1, 1, 1),
    "llama-3.1-8b": (1, 1, 1, 2, None, None),
    "llama-3.1-70b": (None, 2, None, None, None, None),
    "qwen3-30b-a3b": (1, 1, 1, 4, None, None),
    "deepseek-v3": (None, None, None, None, None, None),
    "qwen3-32b-fp8": (1, 1, 1, 4, None, None),
    "nemotron-3-nano-30b-a3b-nvfp4": (1, 1, 1, ANY, None, None),
    "qwen2.5-14b-awq": (1, 1, 1, 1, None, 1),
    "qwen2.5-7b-gptq-int4": (1, 1, 1, 1, None, 1),
    "qwen2.5-vl-7b": (1, 1, 1, 2, None, None),
    "whisper-large-v3-turbo": (1, 1, 1, 1, 1, 1),
    "bge-m3": (1, 1, 1, 1, 1, 1),
    "qwen3-embedding-0.6b": (1, 1, 1, 1, 1, 1),
    "bge-reranker-v2-m3": (1, 1, 1, 1, 1, 1),
    "flan-t5-base": (1, 1, 1, 1, 1, 1),
}
"""Tensor parallel sizes, reckoned by hand, in the order of MACHINES; None where the memory does not hold the model."""

UNSERVED = {
    "flan-t5-base": "checkpoint.architecture",
}
"""What has a plan and is refused by a check."""


def value_of(found: Prospect, flag: str) -> str | None:
    line = arguments(found.plan)
    return line[line.index(flag) + 1] if flag in line else None


def env_of(found: Prospect) -> dict[str, str]:
    return {variable.name: variable.value for variable in found.plan.env}


def why(checkpoint: str, machine: str, text: str = "") -> list[str]:
    with pytest.raises(RefusedError) as refused:
        prospect_on(checkpoint, machine, text)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(("checkpoint", "machine"), CASES)
def test_the_plan_is_the_expected_one(checkpoint: str, machine: str) -> None:
    assert told(checkpoint, machine) == expected()[checkpoint][machine]


@pytest.mark.parametrize(("checkpoint", "machine"), CASES)
def test_the_plan_is_what_a_person_reckons(checkpoint: str, machine: str) -> None:
    wanted = TABLE[checkpoint][MACHINES.index(machine)]
    if wanted is None:
        assert ["does not fit" in line for line in why(checkpoint, machine)] == [True]
        return
    found = prospect_on(checkpoint, machine)
    tp = int(value_of(found, "--tensor-parallel-size") or 0)
    assert tp in (wanted if isinstance(wanted, tuple) else (wanted,))
    devices = None if machine == "cpu" else ",".join(str(index) for index in range(tp))
    assert env_of(found).get("CUDA_VISIBLE_DEVICES") == devices
    assert [finding.id for finding in found.errors] == ([UNSERVED[checkpoint]] if checkpoint in UNSERVED else [])


def test_the_settings_are_safe() -> None:
    for checkpoint in TABLE:
        found = prospect_on(checkpoint, "h200x2") if checkpoint != "deepseek-v3" else None
        line = arguments(found.plan) if found else []
        assert not {"--trust-remote-code", "--allowed-local-media-path", "--allow-credentials"} & set(line)
    one = prospect_on("qwen3-0.6b", "h200")
    assert env_of(one)["VLLM_PLUGINS"] == ""
    assert value_of(one, "--allowed-media-domains") == "none/"
    assert "--disable-fastapi-docs" in arguments(one.plan)


@pytest.mark.parametrize(
    ("text", "machine", "checkpoint", "tp", "devices"),
    [
        ("[vllm]\ntensor_parallel_size = 4\n", "rtx3090x4", "qwen3-0.6b", "4", "0,1,2,3"),
        ("[vllm]\ntp = 2\n", "rtx3090x4", "qwen3-0.6b", "2", "0,1"),
        ("[vllm]\nmax_model_len = 8192\n", "rtx3090x4", "llama-3.1-8b", "1", "0"),
        ("[vllm]\ngpu_memory_utilization = 0.5\n", "rtx3090x4", "llama-3.1-8b", "4", "0,1,2,3"),
        ("[vllm]\nkv_cache_dtype = 'fp8'\n", "rtx3090x4", "qwen2.5-vl-7b", "1", "0"),
        ("[vllm]\ncpu_offload_gb = 10\n", "rtx3090x4", "qwen2.5-vl-7b", "1", "0"),
        ("[vllm]\npipeline_parallel_size = 2\n", "rtx3090x4", "qwen3-30b-a3b", "2", "0,1,2,3"),
        ("[gpu]\ndevices = [3, 1]\n", "rtx3090x4", "llama-3.1-8b", "2", "3,1"),
        ("[gpu]\ndevices = [2]\n", "rtx3090x4", "qwen3-0.6b", "1", "2"),
        ("[gpu]\ncount = 1\n", "rtx3090x4", "llama-3.1-8b", "1", "0"),
        ("[gpu]\ndevices = [3, 2, 1]\ncount = 2\n", "rtx3090x4", "llama-3.1-8b", "2", "3,2"),
    ],
)
def test_the_rest_follows_from_what_a_person_sets(
    text: str, machine: str, checkpoint: str, tp: str, devices: str
) -> None:
    found = prospect_on(checkpoint, machine, text)
    assert value_of(found, "--tensor-parallel-size") == tp
    assert env_of(found)["CUDA_VISIBLE_DEVICES"] == devices


@pytest.mark.parametrize(
    ("text", "machine", "checkpoint", "what"),
    [
        ("tensor_parallel_size = 3\n", "rtx3090x4", "llama-3.1-8b", "32 attention heads do not divide by 3"),
        ("tensor_parallel_size = 8\n", "rtx3090x4", "qwen3-0.6b", "8 GPUs are wanted, 4 can be used"),
        ("tensor_parallel_size = 2\n", "rtx3090x4", "qwen3-30b-a3b", "does not fit: 56.9 GiB of weights, 96.0 GiB"),
    ],
)
def test_a_persons_number_that_can_not_be_is_refused_where_it_stands(
    text: str, machine: str, checkpoint: str, what: str
) -> None:
    (line,) = why(checkpoint, machine, f"[vllm]\n{text}")
    assert line.startswith("x.toml:6: [vllm] tensor_parallel_size: ")
    assert what in line


def test_the_persons_cache_on_a_cpu_is_taken_while_it_fits() -> None:
    found = prospect_on("qwen3-0.6b", "cpu", "[vllm]\nkv_cache_memory_bytes = 1073741824\n")
    assert value_of(found, "--kv-cache-memory-bytes") == "1073741824"
    assert "17.5 GiB of main memory" in why("qwen3-0.6b", "cpu", '[vllm]\nkv_cache_memory_bytes = "20g"\n')[0]


def test_a_cpu_is_given_no_setting_of_gpus() -> None:
    found = prospect_on("qwen3-0.6b", "cpu")
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} & env_of(found).keys()
    assert value_of(found, "--gpu-memory-utilization") is None


def test_gpus_that_do_not_answer_may_still_come() -> None:
    unread = (Unread(what="gpus", reason="NVML: Driver/library version mismatch"),)
    facts = dataclasses.replace(facts_of("qwen3-0.6b", "h200"), gpus=None, unread=unread)
    with pytest.raises(RefusedError) as refused:
        prospect_with(facts)
    assert [problem.transient for problem in refused.value.problems] == [True]
    assert "Driver/library version mismatch" in str(refused.value)


def test_a_checkpoint_without_readable_files_is_no_refusal_for_size() -> None:
    bare = CheckpointFacts(
        folder="/models/x", architecture=None, max_position_embeddings=None, weights=(), missing=("config.json",)
    )
    found = prospect_with(dataclasses.replace(machine_of("rtx3090x4"), checkpoint=bare))
    assert value_of(found, "--tensor-parallel-size") == "1"
    assert [finding.id for finding in found.errors] == ["checkpoint.files"]


def test_without_a_source_the_message_names_the_key() -> None:
    config = config_of('recipe = "generic"\n', "x.toml")
    with pytest.raises(RefusedError, match=r"\[model\] source"):
        prospect_of(config, chosen_recipe(config), machine_of("h200"))


@pytest.fixture(scope="module")
def known() -> ArchitectureList:
    found = architectures_of("0.32.0")
    assert found is not None
    return found


def named(name: str, **more: Any) -> str:
    return json.dumps({"architectures": [name], **more})


@pytest.mark.parametrize(
    ("config", "device", "reason"),
    [
        (named("Qwen3ForCausalLM"), "cpu", None),
        (named("WhisperForConditionalGeneration", is_encoder_decoder=True), "cuda", None),
        (named("EagleLlamaForCausalLM"), "cuda", "is a draft model"),
        (named("Qwen2_5_VLForConditionalGeneration"), "cpu", "needs torchvision, which this engine lacks"),
        (named("Qwen2_5_VLForConditionalGeneration"), "cuda", None),
        (named("KananaVForConditionalGeneration"), "cuda", "needs timm"),
        (named("MPTForCausalLM"), "cuda", "0.28.0 was the last that had it"),
        (named("BartForConditionalGeneration", is_encoder_decoder=True), "cuda", "in a plugin of it, https://"),
        (named("T5ForConditionalGeneration", is_encoder_decoder=True), "cuda", "is an encoder and a decoder"),
        (named("Qwen3ForSequenceClassification"), "cuda", None),
        (named("ASTModel"), "cuda", None),
        (named("OwnForCausalLM", auto_map={"AutoModel": "x.Y"}), "cuda", "needs code of its own"),
        (named("OwnForCausalLM"), "cuda", "vLLM 0.32.0 does not know OwnForCausalLM"),
        (named("DeepseekV3ForCausalLM", auto_map={"AutoModel": "x.Y"}), "cuda", None),
        ("{}", "cuda", None),
        ('{"architectures": 3}', "cuda", None),
        (None, "cuda", None),
    ],
)
def test_an_architecture_is_refused_for_its_reason(
    known: ArchitectureList, config: str | None, device: str, reason: str | None
) -> None:
    found = refusal_of(config, known, device)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_code_that_a_person_lets_in_may_know_more(known: ArchitectureList) -> None:
    assert refusal_of(named("OwnForCausalLM"), known, "cuda", own_code=True) is None
    assert refusal_of(named("EagleLlamaForCausalLM"), known, "cuda", own_code=True) is not None


def test_what_a_model_does_is_told_as_vllm_decides_it(known: ArchitectureList) -> None:
    assert kind_of(named("Qwen3ForCausalLM"), known) == "generate"
    assert kind_of(named("Qwen3ForCausalLM"), known, pooled=True) == "pooling"
    assert kind_of(named("XLMRobertaModel"), known) == "pooling"
    assert kind_of(named("Qwen3ForSequenceClassification"), known) == "pooling"
    assert kind_of(named("CohereAsrForConditionalGeneration"), known) == "transcription"
    assert kind_of("{}", known) == "generate"


def test_the_code_of_transformers_is_slower(known: ArchitectureList) -> None:
    assert "is slower" in (slow_way_of(named("ASTModel"), known) or "")
    assert slow_way_of(named("Qwen3ForCausalLM"), known) is None


@pytest.mark.parametrize(
    ("method", "device", "capability", "reason"),
    [
        ({"quant_method": "awq"}, "cuda", "7.5", None),
        ({"quant_method": "gptq"}, "cuda", "5.2", "gptq weights need a GPU of compute capability 6.0, found 5.2"),
        ({"quant_method": "fp8"}, "cuda", "7.0", "fp8 weights need a GPU of compute capability 7.5, found 7.0"),
        ({"quant_method": "fp8"}, "cuda", "12.1", None),
        ({"quant_method": "fp8"}, "cpu", "", "vLLM has no kernel for a CPU without AMX tiles and fp8 weights"),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4"},
            "cpu",
            "",
            "vLLM has no kernel for a CPU and nvfp4 weights",
        ),
        ({"quant_method": "awq"}, "cpu", "", None),
        ({}, "cuda", "3.5", None),
    ],
)
def test_quantized_weights_need_a_device_that_computes_with_them(
    method: dict[str, str], device: str, capability: str, reason: str | None
) -> None:
    config = json.dumps({"quantization_config": method})
    assert unfit_quantization(config, device, (capability,) if capability else ()) == reason


def small(config: str) -> Facts:
    """Return a small quantized model on the CPU."""
    facts = facts_of("qwen3-0.6b", "cpu")
    assert facts.checkpoint is not None
    return dataclasses.replace(facts, checkpoint=dataclasses.replace(facts.checkpoint, config=config))


def test_the_checks_name_what_stands_against_a_model() -> None:
    fp8 = prospect_with(small(named("Qwen3ForCausalLM", quantization_config={"quant_method": "fp8"})))
    assert [finding.id for finding in fp8.errors] == ["checkpoint.quantization"]
    vision = prospect_with(small(named("Qwen2_5_VLForConditionalGeneration")))
    assert [finding.id for finding in vision.errors] == ["checkpoint.architecture"]
    own = named("OwnForCausalLM", auto_map={"AutoModel": "x.Y"})
    assert [finding.id for finding in prospect_with(small(own)).errors] == ["checkpoint.architecture"]
    assert prospect_with(small(own), "[vllm]\ntrust_remote_code = true\n").errors == ()
    slow = prospect_with(small(named("ASTModel")), '[vllm]\nrunner = "generate"\n')
    assert [(one.id, one.severity) for one in slow.findings] == [("checkpoint.architecture", Severity.WARNING)]


def test_a_runner_that_a_person_chooses_counts() -> None:
    pooling = '[vllm]\nrunner = "pooling"\n'
    assert prospect_on("qwen3-embedding-0.6b", "h200", pooling).errors == ()
    asked = '[selftest]\nrecipe_questions = false\n[[question]]\nname = "q"\njudge = "ending"\nask = "q"\n'
    found = prospect_on("qwen3-embedding-0.6b", "h200", pooling + asked)
    assert [finding.id for finding in found.errors] == ["checkpoint.kind"]
    assert "no question of the self-test can be asked of it" in found.errors[0].summary
    plain = prospect_on("qwen3-embedding-0.6b", "h200", '[vllm]\nrunner = "generate"\n')
    assert plain.findings == ()


def test_the_list_is_for_a_persons_checkpoint_on_stock_vllm() -> None:
    facts = machine_of("h200")
    assert facts.engine is not None
    generic = config_of('recipe = "generic"\n[model]\nsource = "/m"\n', "x.toml")
    demo = config_of('recipe = "demo"\n', "x.toml")
    assert architectures_for(generic, chosen_recipe(generic), facts) is not None
    assert architectures_for(demo, chosen_recipe(demo), facts) is None
    changed = dataclasses.replace(facts, engine=dataclasses.replace(facts.engine, tree="/src/vllm"))
    assert architectures_for(generic, chosen_recipe(generic), changed) is None
    other = dataclasses.replace(facts, engine=dataclasses.replace(facts.engine, vllm="0.99.0"))
    assert architectures_for(generic, chosen_recipe(generic), other) is None
