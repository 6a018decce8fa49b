"""The shipped demonstration model is the one that its provenance tells of."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

DEMO = Path(__file__).parents[2] / "demo"
MODEL = DEMO / "model"
WEIGHTS = MODEL / "model.safetensors"


def parsed(path: Path) -> Any:
    return json.loads(path.read_text())


def header_of(weights: bytes) -> tuple[dict[str, Any], int]:
    """Return the tensors of a safetensors file and the number of bytes after its header."""
    length = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + length])
    header.pop("__metadata__", None)
    return header, len(weights) - 8 - length


def test_every_file_has_the_hash_that_the_training_noted() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in MODEL.iterdir()}
    assert found == parsed(DEMO / "provenance.json")["sha256"]


def test_the_model_stays_small() -> None:
    assert sum(path.stat().st_size for path in MODEL.iterdir()) < 2_000_000


def test_the_tensors_cover_the_file_without_gap_or_overlap() -> None:
    header, size = header_of(WEIGHTS.read_bytes())
    end = 0
    for begin, stop in sorted(tensor["data_offsets"] for tensor in header.values()):
        assert begin == end
        end = stop
    assert end == size


def test_every_tensor_is_bfloat16_and_as_long_as_its_shape_says() -> None:
    header, _ = header_of(WEIGHTS.read_bytes())
    for name, tensor in header.items():
        begin, stop = tensor["data_offsets"]
        assert (tensor["dtype"], stop - begin) == ("BF16", 2 * math.prod(tensor["shape"])), name


def test_the_header_counts_the_parameters_that_the_training_noted() -> None:
    header, _ = header_of(WEIGHTS.read_bytes())
    assert (
        sum(math.prod(tensor["shape"]) for tensor in header.values()) == parsed(DEMO / "provenance.json")["parameters"]
    )


def test_the_configuration_describes_a_small_qwen3_and_no_code_of_its_own() -> None:
    config, header = parsed(MODEL / "config.json"), header_of(WEIGHTS.read_bytes())[0]
    assert (config["architectures"], config["model_type"], config["dtype"]) == (
        ["Qwen3ForCausalLM"],
        "qwen3",
        "bfloat16",
    )
    assert (config["max_position_embeddings"], config["tie_word_embeddings"]) == (1024, True)
    assert "auto_map" not in config
    assert "lm_head.weight" not in header
    assert header["model.embed_tokens.weight"]["shape"] == [config["vocab_size"], config["hidden_size"]]
    layers = {name.split(".")[2] for name in header if name.startswith("model.layers.")}
    assert layers == {str(layer) for layer in range(config["num_hidden_layers"])}


def test_generation_ends_with_the_turn() -> None:
    tokens = {token["content"]: token["id"] for token in parsed(MODEL / "tokenizer.json")["added_tokens"]}
    assert parsed(MODEL / "tokenizer_config.json")["eos_token"] == "<|im_end|>"
    for name in ("config.json", "generation_config.json"):
        assert parsed(MODEL / name)["eos_token_id"] == tokens["<|im_end|>"], name


def test_the_tokenizer_has_a_token_for_every_byte_and_fits_the_model() -> None:
    tokenizer, config = parsed(MODEL / "tokenizer.json"), parsed(MODEL / "config.json")
    vocabulary = tokenizer["model"]["vocab"]
    assert sum(len(token) == 1 for token in vocabulary) == 256
    assert sorted(vocabulary.values()) == list(range(config["vocab_size"]))


def test_the_chat_template_marks_turns_as_chatml_does() -> None:
    template = (MODEL / "chat_template.jinja").read_text()
    for mark in ("<|im_start|>", "<|im_end|>", "add_generation_prompt"):
        assert mark in template


def test_the_training_noted_a_comfortable_margin() -> None:
    margins = parsed(DEMO / "provenance.json")["smallest_margins"]
    assert margins["float32"]["nats"] > 1
    assert margins["bfloat16"]["nats"] > 0
