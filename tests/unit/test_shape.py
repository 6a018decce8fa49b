"""What config.json tells of a model, and what garbage does not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from appliance.core.facts import CheckpointFacts, WeightFile
from appliance.core.shape import Shape, demand, longest, number_of, shape_of, weights_bytes
from tests.generic.matrix import WEIGHTS, checkpoint_of

GIB = 1 << 30
KEYS = (
    *("num_attention_heads", "hidden_size", "head_dim", "kv_lora_rank", "num_key_value_heads", "text_config"),
    *("vision_config", "thinker_config", "quantization_config", "quant_method", "weight_block_size", "config_groups"),
    *("group_size", "weights", "rope_scaling", "rope_type", "factor", "max_position_embeddings", "layer_types"),
    *("hybrid_override_pattern", "full_attention_interval", "num_hidden_layers", "model_type", "multi_query"),
    *("pad_token_id", "mamba_num_heads", "n_groups", "torch_dtype", "is_encoder_decoder", "architectures"),
)
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


def shape(name: str) -> Shape:
    return shape_of(checkpoint_of(name).config)


@given(some.dictionaries(some.sampled_from(KEYS), VALUES) | VALUES)
@settings(max_examples=300, deadline=None)
def test_no_config_is_too_odd(found: Any) -> None:
    text = json.dumps(found)
    weights = (WeightFile(name="model.safetensors", bytes=1, fault=None),)
    odd = CheckpointFacts(
        folder="/m", architecture=None, max_position_embeddings=None, weights=weights, missing=(), config=text
    )
    assert shape_of(text).positions > 0
    assert demand(odd, None, None, None, None).token >= 0
    assert longest(odd) == -1 or longest(odd) > 0


@given(some.text())
def test_no_text_is_too_odd(text: str) -> None:
    assert shape_of(text).heads is None
    assert number_of(text) is None or isinstance(number_of(text), float)


def test_a_nest_too_deep_is_as_good_as_nothing() -> None:
    assert shape_of('{"text_config":' * 100_000) == Shape()
    assert shape_of(None) == Shape()


@pytest.mark.parametrize(
    ("name", "kib", "gib"),
    [
        ("qwen3-0.6b", 112, 1.40),
        ("llama-3.1-8b", 128, 14.96),
        ("llama-3.1-70b", 320, 131.42),
        ("qwen3-30b-a3b", 96, 56.87),
        ("deepseek-v3", 68.625, 641.30),
        ("qwen3-32b-fp8", 256, 31.97),
        ("nemotron-3-nano-30b-a3b-nvfp4", 6, 18.00),
        ("qwen2.5-14b-awq", 192, 9.29),
        ("qwen2.5-7b-gptq-int4", 56, 5.19),
        ("qwen2.5-vl-7b", 56, 15.45),
        ("whisper-large-v3-turbo", 20, 1.51),
        ("bge-m3", 0, 1.06),
        ("bge-reranker-v2-m3", 0, 1.06),
        ("qwen3-embedding-0.6b", 112, 1.11),
    ],
)
def test_what_a_checkpoint_asks_of_memory_is_what_a_person_reckons(name: str, kib: float, gib: float) -> None:
    found = demand(checkpoint_of(name), -1, None, None, None)
    assert found.token == kib * 1024
    assert found.loaded is not None
    assert round(found.loaded / GIB, 2) == gib


@pytest.mark.parametrize(
    ("name", "positions", "group", "method"),
    [
        ("qwen3-0.6b", 40960, None, None),
        ("llama-3.1-8b", 131072, None, None),
        ("deepseek-v3", 163840, 128, "fp8"),
        ("qwen2.5-14b-awq", 32768, 128, "awq"),
        ("qwen2.5-7b-gptq-int4", 32768, 128, "gptq"),
        ("whisper-large-v3-turbo", 448, None, None),
        ("qwen2.5-vl-7b", 128000, None, None),
    ],
)
def test_length_and_quantization_are_read(name: str, positions: int, group: int | None, method: str | None) -> None:
    found = shape(name)
    assert (found.positions, found.group, found.quantization) == (positions, group, method)


def test_a_hybrid_counts_the_layers_that_keep_tokens() -> None:
    found = shape("nemotron-3-nano-30b-a3b-nvfp4")
    assert (found.layers, found.mamba_heads, found.mamba_groups) == (6, 64, 8)
    mixed = {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention", "sliding_attention", "x"]}
    assert shape_of(json.dumps(mixed)).layers == 1
    assert shape_of(json.dumps({"num_hidden_layers": 48, "full_attention_interval": 4})).layers == 12


def test_the_language_part_of_several_senses_is_looked_at() -> None:
    text = (
        '{"model_type": "a", "text_config": {"num_attention_heads": 8, "hidden_size": 64}, "vision_config": {"x": 1}}'
    )
    found = shape_of(text)
    assert (found.heads, found.head_dim, found.multimodal, found.model_type) == (8, 8, True, "a")
    senses = [name for name in WEIGHTS if shape(name).multimodal]
    assert senses == ["qwen2.5-vl-7b", "whisper-large-v3-turbo"]
    assert shape("qwen2.5-vl-7b").vision_heads == 16


def test_nvfp4_is_told_whoever_packed_it() -> None:
    for quantization in (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
        {"quant_method": "modelopt_fp4"},
    ):
        found = shape_of(json.dumps({"quantization_config": quantization}))
        assert (found.quantization, found.group) == ("nvfp4", 16)


def test_what_a_person_sets_changes_the_demand() -> None:
    small = checkpoint_of("qwen3-0.6b")
    assert demand(small, "4k", None, None, None).tokens == 4000
    assert demand(small, "4K", None, None, None).tokens == 4096
    assert demand(small, "auto", None, None, None).tokens == 40960
    assert demand(small, -1, None, "fp8_e4m3", None).token == 56 * 1024
    assert demand(small, -1, "float32", None, None).loaded == 2 * WEIGHTS["qwen3-0.6b"]
    assert demand(checkpoint_of("bge-m3"), -1, "float32", None, None).loaded == WEIGHTS["bge-m3"]
    assert demand(small, -1, None, None, "fp8").loaded is None


def test_only_the_files_that_vllm_loads_are_counted() -> None:
    sizes = {"model.safetensors": 5, "consolidated.safetensors": 5, "pytorch_model.bin": 7, "training_args.bin": 1}

    def counted(*names: str) -> int | None:
        files = tuple(WeightFile(name=name, bytes=sizes[name], fault=None) for name in names)
        return weights_bytes(
            CheckpointFacts(folder="/m", architecture=None, max_position_embeddings=None, weights=files, missing=())
        )

    assert counted(*sizes) == 5
    assert counted("pytorch_model.bin", "training_args.bin") == 7
    assert counted("consolidated.safetensors") == 5
    assert counted("training_args.bin") is None
    assert weights_bytes(None) is None


def test_robertas_table_of_positions_ends_before_its_config_says() -> None:
    assert [name for name in WEIGHTS if longest(checkpoint_of(name)) != -1] == ["bge-m3", "bge-reranker-v2-m3"]
    assert longest(checkpoint_of("bge-m3")) == 8192
