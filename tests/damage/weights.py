"""Damages of tensors by numbers: scaled, lost, flipped, noisy, read as something else."""

from typing import Any

from tests.damage.model import EMBEDDING, FINAL_NORM, MATRICES, NORMS, Damage, ModelCopy


def scale_norm(factor: float, copy: ModelCopy) -> str:
    """Multiply one norm of a layer."""
    name, weight = copy.some(NORMS)
    weight.mul_(factor)
    return f"{name} x{factor:g}"


def norm_by_half(copy: ModelCopy) -> str:
    """One norm of a layer is multiplied by 1.5."""
    return scale_norm(1.5, copy)


def norm_by_a_tenth(copy: ModelCopy) -> str:
    """One norm of a layer is multiplied by 1.1."""
    return scale_norm(1.1, copy)


def final_norm(copy: ModelCopy) -> str:
    """The norm before the output head is multiplied by 1.5."""
    copy.weights[FINAL_NORM].mul_(1.5)
    return f"{FINAL_NORM} x1.5"


def norm_lost(copy: ModelCopy) -> str:
    """One norm of a layer is left at ones, as it was made."""
    name, weight = copy.some(NORMS)
    weight.fill_(1)
    return f"{name} = 1"


def shard_lost(copy: ModelCopy) -> str:
    """A quarter of the tensors, one after the other in the file, is zeros."""
    names, part = sorted(copy.weights), copy.draw.randrange(4)
    size = -(-len(names) // 4)
    lost = names[part * size : (part + 1) * size]
    for name in lost:
        copy.weights[name].zero_()
    return f"{len(lost)} tensors from {lost[0]}"


def lost(name: str, copy: ModelCopy) -> str:
    """Put zeros in place of one matrix."""
    layer = copy.some_layer()
    copy.of(layer, name).zero_()
    return f"{copy.key(layer, name)} = 0"


def down_lost(copy: ModelCopy) -> str:
    """One down projection is zeros."""
    return lost("mlp.down_proj", copy)


def output_lost(copy: ModelCopy) -> str:
    """One output projection of attention is zeros."""
    return lost("self_attn.o_proj", copy)


def half_lost(copy: ModelCopy) -> str:
    """Half of the columns of a projection into the residual is zeros, as when one GPU's part is not added."""
    name, weight = copy.some(("self_attn.o_proj", "mlp.down_proj"))
    half, first = weight.shape[1] // 2, copy.draw.randrange(2)
    weight[:, first * half : (first + 1) * half] = 0
    return f"{name}, {'second' if first else 'first'} half of the columns"


def head_lost(copy: ModelCopy) -> str:
    """The output of one attention head is not read."""
    layer, head, size = copy.some_layer(), copy.draw.randrange(4), copy.config["head_dim"]
    copy.of(layer, "self_attn.o_proj")[:, head * size : (head + 1) * size] = 0
    return f"layer {layer}, head {head}"


def row_lost(copy: ModelCopy) -> str:
    """The embedding of one token is zeros."""
    row = copy.draw.randrange(copy.config["vocab_size"])
    copy.weights[EMBEDDING][row] = 0
    return f"token {row}"


def flip_signs(share: float, copy: ModelCopy) -> str:
    """Flip the signs of a share of all weights."""
    for weight in copy.weights.values():
        flat = weight.view(-1)
        chosen = copy.torch.rand(flat.shape) < share
        flat[chosen] = -flat[chosen]
    return f"{share:.1%} of the weights"


def signs_of_a_hundredth(copy: ModelCopy) -> str:
    """1 % of all weights have the other sign."""
    return flip_signs(0.01, copy)


def signs_of_a_thousandth(copy: ModelCopy) -> str:
    """0.1 % of all weights have the other sign."""
    return flip_signs(0.001, copy)


def exponent_bit(copy: ModelCopy) -> str:
    """The top exponent bit of the largest weight of a matrix is flipped."""
    name, weight = copy.draw.choice(list(copy.matrices()))
    flat = weight.view(-1)
    place = int(flat.float().abs().argmax())
    before = float(flat[place])
    bits = flat.view(copy.torch.int16)
    bits[place] = bits[place] ^ 0x4000
    return f"{name}: {before:.3g} became {float(flat[place]):.3g}"


def largest_exponent_bit(copy: ModelCopy) -> str:
    """The top exponent bit of the largest weight of all is flipped: what was between 1 and 2 is no number any more."""
    name = max(copy.weights, key=lambda name: float(copy.weights[name].float().abs().max()))
    flat = copy.weights[name].view(-1)
    place = int(flat.float().abs().argmax())
    before = float(flat[place])
    bits = flat.view(copy.torch.int16)
    bits[place] = bits[place] ^ 0x4000
    return f"{name}: {before:.3g} became {float(flat[place]):.3g}"


def not_a_number(copy: ModelCopy) -> str:
    """One weight is NaN."""
    name, weight = copy.draw.choice(list(copy.matrices()))
    place = copy.draw.randrange(weight.numel())
    weight.view(-1)[place] = float("nan")
    return f"{name}, element {place}"


def swapped(weight: Any, torch: Any) -> Any:
    """Return a tensor of two-byte numbers with the bytes of each exchanged."""
    return weight.view(torch.uint8).view(-1, 2).flip(1).contiguous().view(weight.dtype).view(weight.shape)


def bytes_swapped(copy: ModelCopy) -> str:
    """The two bytes of every bfloat16 number are exchanged."""
    for name, weight in copy.weights.items():
        copy.weights[name] = swapped(weight, copy.torch)
    return "all tensors"


def bytes_swapped_in_one(copy: ModelCopy) -> str:
    """The two bytes of every number of one tensor are exchanged."""
    name, weight = copy.draw.choice(list(copy.weights.items()))
    copy.weights[name] = swapped(weight, copy.torch)
    return name


def read_as_half(copy: ModelCopy) -> str:
    """The bits of one matrix are read as float16 where they are bfloat16."""
    name, weight = copy.draw.choice(list(copy.matrices()))
    weight.copy_(weight.clone().view(copy.torch.float16))
    return name


def scales_lost(copy: ModelCopy) -> str:
    """One matrix lacks the scales of its 8-bit form: its largest value is 448, the largest of float8."""
    # the norms of q and k would undo it
    name, weight = copy.some(MATRICES[2:])
    weight.mul_(448 / weight.abs().max())
    return name


def zero_point_off(copy: ModelCopy) -> str:
    """The zero point of one 4-bit matrix is off by one step."""
    name, weight = copy.some(MATRICES)
    weight.add_(weight.float().abs().amax(1, keepdim=True) / 7)
    return name


def rounded(steps: int, copy: ModelCopy) -> str:
    """Round every row of every matrix to so many steps up and down, as a plain quantisation does."""
    for _, weight in copy.matrices():
        step = weight.float().abs().amax(1, keepdim=True) / steps
        weight.copy_((weight.float() / step).round() * step)
    return f"{2 * steps + 1} values a row"


def four_bits(copy: ModelCopy) -> str:
    """All matrices are rounded to 4 bits, row by row."""
    return rounded(7, copy)


def eight_bits(copy: ModelCopy) -> str:
    """All matrices are rounded to 8 bits, row by row."""
    return rounded(127, copy)


def noise(copy: ModelCopy) -> str:
    """All weights are noisy by a tenth of their spread: another training of the same model."""
    for weight in copy.weights.values():
        weight.add_(copy.noise(weight, 0.1))
    return "noise of 10 %"


def value_by_eight(copy: ModelCopy) -> str:
    """One v projection is multiplied by 8; no norm undoes it."""
    name, weight = copy.some(("self_attn.v_proj",))
    weight.mul_(8)
    return f"{name} x8"


def key_by_eight(copy: ModelCopy) -> str:
    """The keys of one layer are multiplied by 8, after the norm that would undo it."""
    name, weight = copy.some(("self_attn.k_norm",))
    weight.mul_(8)
    return f"{name} x8"


def delta_twice(copy: ModelCopy) -> str:
    """A rank-4 delta of q and v in every layer is there twice: a fine-tuning merged into what had it already."""
    for layer in range(copy.layers):
        for name in ("self_attn.q_proj", "self_attn.v_proj"):
            weight = copy.of(layer, name)
            rows, columns = weight.shape
            delta = copy.torch.randn(rows, 4) @ copy.torch.randn(4, columns)
            weight.add_(delta * (0.2 * weight.float().norm() / delta.norm()))
    return "a fifth of the weights' norm"


NUMBERS = (
    Damage("one norm x1.5", norm_by_half),
    Damage("one norm x1.1", norm_by_a_tenth),
    Damage("final norm x1.5", final_norm),
    Damage("one norm lost", norm_lost),
    Damage("one shard lost", shard_lost),
    Damage("one down projection lost", down_lost),
    Damage("one output projection lost", output_lost),
    Damage("half of a projection lost", half_lost),
    Damage("one head lost", head_lost),
    Damage("one embedding row lost", row_lost, "a token that no text of the fingerprint holds hardly shows"),
    Damage("1 % of signs flipped", signs_of_a_hundredth),
    Damage("0.1 % of signs flipped", signs_of_a_thousandth),
    Damage("top exponent bit of the largest weight flipped", largest_exponent_bit),
    Damage("top exponent bit of a matrix flipped", exponent_bit),
    Damage("NaN in one weight", not_a_number),
    Damage("bf16 bytes swapped", bytes_swapped),
    Damage("bytes of one tensor swapped", bytes_swapped_in_one),
    Damage("bf16 read as float16", read_as_half),
    Damage("scales lost", scales_lost),
    Damage("zero point off by one", zero_point_off),
    Damage("4-bit rounding", four_bits),
    Damage("8-bit rounding", eight_bits, "as large as numerical noise, which is what it is"),
    Damage("noise of 10 %", noise),
    Damage("v projection x8", value_by_eight),
    Damage("keys x8 behind their norm", key_by_eight),
    Damage("rank-4 delta added twice", delta_twice),
)
