"""What config.json tells of a model's build, as far as its size and its split over GPUs depend on it."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.core.facts import CheckpointFacts
from appliance.core.record import record

NESTS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys below which a model of several senses keeps what is said here of its language part."""

SENSES = ("vision_config", "audio_config", "thinker_config")
DEFAULT_POSITIONS = 2048
"""Tokens; vLLM's own where config.json has no key for it (config/model.py, _get_and_verify_max_len)."""

STRAY_WEIGHTS = re.compile(r"training_args\.bin|(optimizer|scheduler|scaler|rng_state.*)\.(bin|pt|pth)")
"""Files of a training, which vLLM does not load (weight_utils.py, filter_files_not_needed_for_inference)."""

LARGEST = 1 << 40
"""Numbers above it are no model's."""

ALREADY_SCALED = ("default", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
"""Kinds of rotary scaling whose factor vLLM does not apply to the positions (config/model.py)."""

Tables = tuple[Mapping[str, Any], ...]


@record
class Shape:
    """A model's build; None for what its config.json does not say."""

    model_type: str = ""
    dtype: str | None = None
    """Of the weights as they lie, `bfloat16`."""
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    mla: int | None = None
    """Elements that one layer keeps of a token with latent attention; None for the usual kind."""
    layers: int | None = None
    """Those that keep all tokens: not state spaces, not sliding windows, not encoders."""
    intermediate: int | None = None
    moe_intermediate: int | None = None
    group: int | None = None
    """Weights that share a scale along a dimension; None where a split is free."""
    blocks: bool = False
    """Scales are of square blocks: both dimensions are split by whole groups."""
    mamba_heads: int | None = None
    mamba_groups: int | None = None
    vision_heads: int | None = None
    vocabulary: int | None = None
    positions: int = DEFAULT_POSITIONS
    """Tokens of the longest request."""
    pad_token: int | None = None
    quantization: str | None = None
    """vLLM's name of the method, and `nvfp4` whoever packed it."""
    multimodal: bool = False
    encoder_decoder: bool = False

    @property
    def roberta(self) -> bool:
        """Tell whether positions are counted from behind the padding token (models/roberta.py)."""
        return "roberta" in self.model_type


@record
class Demand:
    """What a model asks of memory."""

    shape: Shape
    loaded: int | None
    """Weights once they are loaded; None when nobody knows."""
    tokens: int
    """Of the longest request."""
    token: int
    """Bytes of KV cache for a token, over all GPUs together."""


def shape_of(config: str | None) -> Shape:
    """Return the shape that the text of a config.json tells; of anything else, one in which all is unknown.

    >>> shape_of('{"num_attention_heads": 32, "hidden_size": 4096}').head_dim, shape_of("[").heads
    (128, None)
    """
    tables = _tables(config)
    heads = _count(tables, "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")
    hidden = _count(tables, "hidden_size", "n_embd", "d_model")
    latent, value = _count(tables, "kv_lora_rank"), _count(tables, "v_head_dim")
    head_dim = (value if latent else None) or _count(tables, "head_dim", "d_kv")
    quantization = _table(tables, "quantization_config", "compression_config")
    method = _method(quantization)
    mamba_heads = _count(tables, "mamba_num_heads", "mamba_n_heads")
    model_type = _text(tables[-1:], "model_type") or ""
    return Shape(
        model_type=model_type,
        dtype=_text(tables, "dtype", "torch_dtype"),
        heads=heads,
        kv_heads=_kv_heads(tables) or heads,
        head_dim=head_dim or (hidden // heads if hidden and heads else None),
        mla=latent and latent + (_count(tables, "qk_rope_head_dim") or 0),
        layers=_layers(tables, model_type),
        intermediate=_count(tables, "intermediate_size", "n_inner", "ffn_dim", "d_ff", "decoder_ffn_dim"),
        moe_intermediate=_count(tables, "moe_intermediate_size"),
        group=_group(quantization, method),
        blocks="weight_block_size" in quantization or method == "nvfp4",
        mamba_heads=mamba_heads,
        mamba_groups=_count(tables, "mamba_n_groups", "mamba_ngroups", "n_groups") if mamba_heads else None,
        vision_heads=_count(_inner(tables, "vision_config"), "num_heads", "num_attention_heads", "attention_heads"),
        vocabulary=_count(tables, "vocab_size"),
        positions=_positions(tables, model_type),
        pad_token=_whole(tables, "pad_token_id"),
        quantization=method,
        multimodal=model_type == "whisper" or any(_inner(tables, name) for name in SENSES),
        encoder_decoder=any(table.get("is_encoder_decoder") is True for table in tables),
    )


def table_of(config: str | None) -> Mapping[str, Any]:
    """Return the table in the text of a config.json; an empty one where there is none."""
    try:
        found = json.loads(config or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _tables(config: str | None) -> Tables:
    """Return the table of the language part, then those around it."""
    tables = [table_of(config)]
    while inner := next((found for name in NESTS if isinstance(found := tables[0].get(name), dict)), None):
        tables.insert(0, inner)
    return tuple(tables)


def _inner(tables: Tables, name: str) -> Tables:
    return tuple(found for table in tables if isinstance(found := table.get(name), dict))


def _found(tables: Tables, names: tuple[str, ...]) -> Iterator[Any]:
    yield from (table[name] for table in tables for name in names if name in table)


def _whole(tables: Tables, *names: str) -> int | None:
    return next((found for found in _found(tables, names) if type(found) is int and 0 <= found < LARGEST), None)


def _count(tables: Tables, *names: str) -> int | None:
    return next((found for found in _found(tables, names) if type(found) is int and 0 < found < LARGEST), None)


def _text(tables: Tables, *names: str) -> str | None:
    return next((found for found in _found(tables, names) if isinstance(found, str)), None)


def _table(tables: Tables, *names: str) -> Mapping[str, Any]:
    return next((found for found in _found(tables, names) if isinstance(found, dict)), {})


def _list(tables: Tables, *names: str) -> list[Any] | None:
    return next((found for found in _found(tables, names) if isinstance(found, list)), None)


def _kv_heads(tables: Tables) -> int | None:
    if any(table.get("multi_query") is True and "num_kv_heads" not in table for table in tables):
        return 1
    return _count(tables, "num_key_value_heads", "num_kv_heads", "n_head_kv")


def _layers(tables: Tables, model_type: str) -> int | None:
    """Count the layers that keep every token, by the several ways in which hybrids name them."""
    every = _count(tables, "decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if "bert" in model_type:
        return 0
    pattern = _text(tables, "hybrid_override_pattern")
    if pattern is not None:
        return pattern.count("*")
    kinds = _list(tables, "layer_types", "layers_block_type")
    if kinds:
        full = sum(kind in ("full_attention", "attention", "hybrid") for kind in kinds)
        return full or every
    if (interval := _count(tables, "full_attention_interval", "attn_layer_period")) and every:
        return every // interval
    indexes = _list(tables, "attn_layer_indices")
    return len(indexes) if indexes else every


def _positions(tables: Tables, model_type: str) -> int:
    """Return the longest request as vLLM derives it (config/model.py, _get_and_verify_max_len)."""
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
    found = _count(tables, *names, "max_sequence_length", "max_seq_length", "seq_len", "max_target_positions")
    rope = _table(tables, "rope_scaling", "rope_parameters")
    kind, factor = rope.get("rope_type", rope.get("type", "default")), rope.get("factor")
    if kind == "longrope":
        return _count(tables, "original_max_position_embeddings") or found or DEFAULT_POSITIONS
    if found is None:
        return DEFAULT_POSITIONS
    scaled = isinstance(kind, str) and kind not in ALREADY_SCALED and "gemma3" not in model_type
    if scaled and isinstance(factor, (int, float)) and 1 <= factor < LARGEST:
        return int(found * factor)
    return found


def _method(quantization: Mapping[str, Any]) -> str | None:
    method = quantization.get("quant_method")
    if not isinstance(method, str):
        return None
    words = (method, quantization.get("quant_algo"), quantization.get("format"))
    packed = any("nvfp4" in word.lower() for word in words if isinstance(word, str))
    return "nvfp4" if packed or method == "modelopt_fp4" else method.lower()


def _group(quantization: Mapping[str, Any], method: str | None) -> int | None:
    """Return how many weights share a scale, by the keys of the several methods."""
    block = quantization.get("weight_block_size")
    if isinstance(block, list):
        sizes = [size for size in block if type(size) is int and 0 < size < LARGEST]
        return max(sizes, default=None)
    groups = quantization.get("config_groups")
    entries = groups.values() if isinstance(groups, dict) else ()
    inner = [group.get("weights") for group in entries if isinstance(group, dict)]
    tables = (quantization, *(table for table in inner if isinstance(table, dict)))
    return _count(tables, "group_size") or (16 if method == "nvfp4" else None)


def demand(
    checkpoint: CheckpointFacts | None,
    length: int | str | None,
    dtype: str | None,
    cache: str | None,
    method: str | None,
) -> Demand:
    """Return what a model asks of memory, by its config.json and the flags for length, types and quantization.

    Without quantization float32 is loaded as a type of 16 bits unless the dtype says otherwise; what vLLM quantizes
    while it loads has no known size.
    """
    shape = shape_of(checkpoint.config if checkpoint else None)
    full = dtype in ("float", "float32")
    stored, element = 4 if shape.dtype == "float32" else 2, 4 if full else 2
    loaded = weights_bytes(checkpoint)
    if loaded is not None and shape.quantization is None:
        loaded = loaded * element // stored if method is None else None
    if cache is not None and re.match(r"fp8|int8|nvfp4|int4", cache):
        element = 1
    wide = shape.mla or 2 * (shape.kv_heads or 0) * (shape.head_dim or 0)
    tokens = number_of(length)
    return Demand(
        shape=shape,
        loaded=loaded,
        tokens=int(tokens) if tokens and tokens > 0 else shape.positions,
        token=(shape.layers or 0) * wide * element,
    )


def weights_bytes(checkpoint: CheckpointFacts | None) -> int | None:
    """Return the bytes of the files that vLLM loads: the safetensors, and others only where there are none.

    A second copy in Mistral's form, consolidated*, does not count beside the usual one (weight_utils.py:585).
    """
    files = [file for file in checkpoint.weights if not STRAY_WEIGHTS.fullmatch(file.name)] if checkpoint else []
    files = [file for file in files if file.name.endswith(".safetensors")] or files
    files = [file for file in files if not file.name.startswith("consolidated")] or files
    return sum(file.bytes for file in files) or None


def longest(checkpoint: CheckpointFacts | None) -> int:
    """Return max_model_len: -1, as long as fits; RoBERTa's table of positions is shorter than its config.json says.

    Its positions start behind the padding token (models/roberta.py:85).
    """
    shape = shape_of(checkpoint.config if checkpoint else None)
    if not shape.roberta or shape.pad_token is None:
        return -1
    return max(shape.positions - shape.pad_token - 1, 1)


def when_multimodal(checkpoint: CheckpointFacts | None, value: int) -> int | None:
    """Return a value for a model of several senses; nothing for one of text."""
    return value if shape_of(checkpoint.config if checkpoint else None).multimodal else None


def senses_limit(checkpoint: CheckpointFacts | None, images: int, videos: int, audios: int) -> dict[str, int] | None:
    """Return how much of each sense a prompt may hold; nothing for a model of text."""
    limit = {"image": images, "video": videos, "audio": audios}
    return limit if shape_of(checkpoint.config if checkpoint else None).multimodal else None


def number_of(found: Any) -> float | None:
    """Return a number as people give it to vLLM, `4k`, `1.5g`; None for `auto` and what is none.

    >>> number_of("4k"), number_of("1Ki"), number_of(-1), number_of("auto")
    (4000.0, None, -1.0, None)
    """
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return float(found)
    parts = re.fullmatch(r"\s*([0-9.eE+-]+)\s*([kKmMgGtT]?)\s*", found) if isinstance(found, str) else None
    try:
        number = float(parts[1]) if parts else None
    except ValueError:
        return None
    if number is None or parts is None or not math.isfinite(number):
        return None
    base = 1024 if parts[2].isupper() else 1000
    return number * float(base ** " kmgt".index(parts[2].lower() or " "))
