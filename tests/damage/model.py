"""A copy of the demonstration model in hand, and what a damage is."""

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

NORMS = ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm")
MATRICES = (
    *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
)
EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"


@dataclass(slots=True, kw_only=True)
class ModelCopy:
    """All of a checkpoint, to be changed in place."""

    weights: dict[str, Any]
    """Tensors by name; all of them are ours to write to."""
    config: dict[str, Any]
    generation: dict[str, Any]
    tokenizer: dict[str, Any]
    tokenizer_config: dict[str, Any]
    template: str
    draw: random.Random
    """Seeded by the name and the variant of the damage."""
    torch: Any
    """The module, which the Python of the tests lacks."""
    kept: float = 1.0
    """How much of the file of the weights is written."""

    @property
    def layers(self) -> int:
        """How many layers the model has."""
        return int(self.config["num_hidden_layers"])

    def key(self, layer: int, name: str) -> str:
        """Return the name of a tensor of a layer."""
        return f"model.layers.{layer}.{name}.weight"

    def of(self, layer: int, name: str) -> Any:
        """Return a tensor of a layer."""
        return self.weights[self.key(layer, name)]

    def some_layer(self) -> int:
        """Draw a layer."""
        return self.draw.randrange(self.layers)

    def some(self, names: tuple[str, ...]) -> tuple[str, Any]:
        """Draw a layer, and a tensor of it by one of some names."""
        key = self.key(self.some_layer(), self.draw.choice(names))
        return key, self.weights[key]

    def matrices(self) -> Iterator[tuple[str, Any]]:
        """Yield every tensor of two dimensions, with its name."""
        yield from ((name, weight) for name, weight in self.weights.items() if weight.dim() == 2)

    def exchange(self, one: str, other: str) -> None:
        """Exchange two tensors by name."""
        self.weights[one], self.weights[other] = self.weights[other], self.weights[one]

    def noise(self, weight: Any, share: float) -> Any:
        """Return normal noise as large as a share of the weight's own spread."""
        wide = weight.float()
        return self.torch.randn_like(wide) * wide.std() * share


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage; a variant is drawn from it by a number."""

    name: str
    make: Callable[[ModelCopy], str]
    """Damage the copy; return what exactly was drawn."""
    excuse: str = ""
    """Why a variant may stay uncaught; empty where none may."""
    fatal: bool = False
    """Whether vLLM refuses it or dies of it; of any other damage an engine that does not start proves nothing."""

    @property
    def sentence(self) -> str:
        """What is damaged, as its function says."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]
