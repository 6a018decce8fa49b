"""Damages of what is sound in itself and lies in a wrong place: exchanged, shifted, transposed, split otherwise."""

from typing import Any

from tests.damage.model import EMBEDDING, MATRICES, NORMS, Damage, ModelCopy


def two_layers(copy: ModelCopy) -> str:
    """Two layers are exchanged."""
    one, other = sorted(copy.draw.sample(range(copy.layers), 2))
    for name in (*MATRICES, *NORMS):
        copy.exchange(copy.key(one, name), copy.key(other, name))
    return f"layers {one} and {other}"


def layer_twice(copy: ModelCopy) -> str:
    """One layer holds the weights of another."""
    one, other = copy.draw.sample(range(copy.layers), 2)
    for name in (*MATRICES, *NORMS):
        copy.weights[copy.key(other, name)] = copy.of(one, name).clone()
    return f"layer {other} is layer {one}"


def layer_left_out(copy: ModelCopy) -> str:
    """One layer is left out; those after it move up, and the configuration agrees."""
    out = copy.some_layer()
    for name in (*MATRICES, *NORMS):
        for layer in range(out, copy.layers - 1):
            copy.weights[copy.key(layer, name)] = copy.of(layer + 1, name)
        del copy.weights[copy.key(copy.layers - 1, name)]
    copy.config["layer_types"].pop()
    copy.config["num_hidden_layers"] -= 1
    return f"layer {out}"


def gate_and_up(copy: ModelCopy) -> str:
    """The gate and up projections of one layer are exchanged."""
    layer = copy.some_layer()
    copy.exchange(copy.key(layer, "mlp.gate_proj"), copy.key(layer, "mlp.up_proj"))
    return f"layer {layer}"


def query_and_key(copy: ModelCopy) -> str:
    """The k projection of one layer is exchanged with the heads of q that it has room for."""
    layer = copy.some_layer()
    key, query = copy.of(layer, "self_attn.k_proj"), copy.of(layer, "self_attn.q_proj")
    rows = key.shape[0]
    start = copy.draw.choice((0, query.shape[0] - rows))
    before = key.clone()
    key.copy_(query[start : start + rows])
    query[start : start + rows] = before
    return f"layer {layer}, {rows} rows of q from {start}"


def key_and_value(copy: ModelCopy) -> str:
    """The k and v projections of one layer are exchanged."""
    layer = copy.some_layer()
    copy.exchange(copy.key(layer, "self_attn.k_proj"), copy.key(layer, "self_attn.v_proj"))
    return f"layer {layer}"


def norms_exchanged(copy: ModelCopy) -> str:
    """The norms before attention and before the MLP of one layer are exchanged."""
    layer = copy.some_layer()
    copy.exchange(copy.key(layer, NORMS[0]), copy.key(layer, NORMS[1]))
    return f"layer {layer}"


def embedding_shifted(copy: ModelCopy) -> str:
    """All embeddings are shifted by one row."""
    by = copy.draw.choice((1, -1))
    copy.weights[EMBEDDING] = copy.weights[EMBEDDING].roll(by, 0)
    return f"by {by:+d} row"


def head_shifted(copy: ModelCopy) -> str:
    """The output head is no longer tied to the embeddings, and lies one row off."""
    by = copy.draw.choice((1, -1))
    copy.weights["lm_head.weight"] = copy.weights[EMBEDDING].roll(by, 0)
    copy.config["tie_word_embeddings"] = False
    return f"by {by:+d} row"


def head_lost(copy: ModelCopy) -> str:
    """The configuration wants an output head of its own, and the file holds none."""
    copy.config["tie_word_embeddings"] = False
    return "tie_word_embeddings = false"


def transposed(copy: ModelCopy) -> str:
    """One square matrix is transposed."""
    name, weight = copy.some(("self_attn.q_proj", "self_attn.o_proj"))
    copy.weights[name] = weight.t().contiguous()
    return name


def _each_head(copy: ModelCopy, name: str, change: Any) -> None:
    for layer in range(copy.layers):
        weight = copy.of(layer, name)
        heads = weight.view(-1, copy.config["head_dim"], weight.shape[1])
        weight.copy_(change(heads).reshape(weight.shape).clone())


def rotary_interleaved(copy: ModelCopy) -> str:
    """The halves of each head of q and k are interleaved: rotary embedding of the other convention."""
    for name in ("self_attn.q_proj", "self_attn.k_proj"):
        _each_head(copy, name, lambda heads: heads.unflatten(1, (2, -1)).transpose(1, 2))
    return "q and k of all layers"


def _other_size(copy: ModelCopy, factor: int) -> str:
    """Make twice as many heads of half the size, or half as many of twice; the norms of q and k follow."""
    old = copy.config["head_dim"]
    size = old // 2 if factor == 2 else old * 2
    copy.config["head_dim"] = size
    for name in ("num_attention_heads", "num_key_value_heads"):
        copy.config[name] = copy.config[name] * old // size
    for layer in range(copy.layers):
        for name in NORMS[2:]:
            weight = copy.of(layer, name)
            copy.weights[copy.key(layer, name)] = weight[:size].clone() if size < old else weight.repeat(2)
    return f"heads of {size}, not of {old}"


def heads_split(copy: ModelCopy) -> str:
    """The configuration splits attention into other heads of another size; everything still fits."""
    return _other_size(copy, copy.draw.choice((1, 2)))


def heads_ordered(copy: ModelCopy) -> str:
    """The rows of a fused projection are split into heads in the wrong order."""
    way = copy.draw.choice(("q rows as size x heads", "q heads in another order", "v heads exchanged"))
    if way == "q rows as size x heads":
        _each_head(copy, "self_attn.q_proj", lambda heads: heads.transpose(0, 1))
    elif way == "q heads in another order":
        _each_head(copy, "self_attn.q_proj", lambda heads: heads[[0, 2, 1, 3]])
    else:
        _each_head(copy, "self_attn.v_proj", lambda heads: heads.flip(0))
    return way


PLACES = (
    Damage("two layers exchanged", two_layers),
    Damage("one layer twice", layer_twice),
    Damage("one layer missing", layer_left_out),
    Damage("gate and up exchanged", gate_and_up),
    Damage("q and k exchanged", query_and_key),
    Damage("k and v exchanged", key_and_value),
    Damage("norms of a layer exchanged", norms_exchanged),
    Damage("embeddings shifted by one row", embedding_shifted),
    Damage("output head shifted by one row", head_shifted),
    Damage("output head missing", head_lost),
    Damage("square matrix transposed", transposed),
    Damage("rotary halves interleaved", rotary_interleaved),
    Damage("heads split wrongly", heads_split),
    Damage("heads in a wrong order", heads_ordered),
)
