"""Make checkpoints of random weights, or compute them the ordinary way; the engine's Python runs this.

python tests/contract/randommodel.py make FOLDER TOKENIZER     one folder for each architecture
python tests/contract/randommodel.py large FOLDER TOKENIZER    one of 24 layers, 0.2 GiB in bfloat16
python tests/contract/randommodel.py compute FOLDER < FILE     the logprobs of a fingerprint's passages
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

LENGTHS = {"vocab_size": 496, "max_position_embeddings": 2048, "pad_token_id": None, "initializer_range": 0.2}
SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, **LENGTHS}
GROUPED = {**SMALL, "num_key_value_heads": 2}
EXPERTS = {**GROUPED, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
LARGE = {**GROUPED, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 24}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", GROUPED),
    "mixtral": ("MixtralConfig", {**GROUPED, "num_local_experts": 4}),
    "qwen3-moe": ("Qwen3MoeConfig", {**EXPERTS, "head_dim": 16}),
    "gpt2": ("GPT2Config", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 2048, **LENGTHS}),
    "gemma3": ("Gemma3TextConfig", {**GROUPED, "head_dim": 16, "sliding_window": 64}),
    "gpt-oss": ("GptOssConfig", {**GROUPED, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "mamba2": ("Mamba2Config", {**LENGTHS, "hidden_size": 64, "num_hidden_layers": 3, "num_heads": 8, "head_dim": 16}),
}
"""What differs: keys of other names, merged experts, tied and scaled embeddings, sinks, no attention at all."""

BLOCK = 32


def make(name: str, folder: Path, tokenizer: Path) -> None:
    """Write one checkpoint in several shards."""
    kind, options = ("LlamaConfig", LARGE) if name == "large" else MODELS[name]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**options)).to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="20MB" if name == "large" else "200KB")
    for file in (*tokenizer.glob("tokenizer*"), tokenizer / "chat_template.jinja"):
        shutil.copy(file, folder)


def make_fp8(source: Path, folder: Path) -> None:
    """Write a checkpoint again with the matrices of its layers in blocks of fp8, each with a scale."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*safetensors*"))
    weights = {name: tensor for file in source.glob("*.safetensors") for name, tensor in load_file(file).items()}
    for name in [name for name, tensor in weights.items() if tensor.ndim == 2 and "_proj" in name]:
        rows, columns = weights[name].shape
        blocks = weights[name].float().view(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
        scale = blocks.abs().amax((1, 3)) / 448  # the largest number that fp8 has
        weights[name] = (blocks / scale[:, None, :, None]).view(rows, columns).to(torch.float8_e4m3fn)
        weights[f"{name}_scale_inv"] = scale
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    quantisation = {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK], "activation_scheme": "dynamic"}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": quantisation}))


def compute(folder: Path) -> None:
    """Write the logprobs of each prompt, by whole models at once."""
    fp8: Any = import_module("transformers.quantizers.quantizer_finegrained_fp8")
    fp8.is_accelerate_available = lambda *_: True  # it wants a library here that it does not use
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    found: dict[str, list[list[float]]] = {}
    for name, prompts in json.load(sys.stdin).items():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / name, **options).eval()
        found[name] = [logprobs_of(model, torch.tensor([prompt])) for prompt in prompts]
    sys.stdout.write(json.dumps(found) + "\n")


def logprobs_of(model: Any, ids: Any) -> list[float]:
    """Return the logprob of each token but the first."""
    with torch.no_grad():
        logprobs = model(ids, use_cache=False).logits[0, :-1].float().log_softmax(-1)
    return [float(value) for value in logprobs.gather(1, ids[0, 1:, None])[:, 0]]


if __name__ == "__main__":
    transformers.logging.disable_progress_bar()
    place = Path(sys.argv[2])
    if sys.argv[1] == "compute":
        compute(place)
    elif sys.argv[1] == "large":
        make("large", place, Path(sys.argv[3]))
    else:
        for each in MODELS:
            make(each, place / each, Path(sys.argv[3]))
        make_fp8(place / "llama", place / "llama-fp8")
        make_fp8(place / "qwen3-moe", place / "qwen3-moe-fp8")
