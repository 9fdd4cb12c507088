"""Layers too wide for d² numbers, in the subspace that their weight reads and writes.

W is what it is in the span of its leading singular directions, found by a random sketch of W with
a fixed seed (Halko, Martinsson & Tropp 2011). Where W has no larger rank, H_b, G_a and Z are exact
there; what is lost of W, H_a and G_b is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lawscope.capture.linear import LinearLayer

SEED = 20241103
EXTRA = 8  # directions beyond those wanted, which make the leading ones accurate
POWERS = 2  # products with WᵀW, which make the leading ones stand out


@dataclass(frozen=True, eq=False)
class Frame:
    """Orthonormal directions of each side of a layer; None where all are kept."""

    inputs: Tensor | None  # shape (d_a, m)
    outputs: Tensor | None  # shape (d_b, m)

    def reduce_weight(self, weight: Tensor) -> Tensor:
        """Return W in these directions."""
        weight = weight if self.inputs is None else weight @ self.inputs.to(weight)
        return weight if self.outputs is None else self.outputs.to(weight).T @ weight

    def lost(self, weight: Tensor) -> float:
        """Return the share of ‖W‖² outside these directions."""
        whole = float(weight.square().sum())
        return max(0.0, 1 - float(self.reduce_weight(weight).square().sum()) / whole)


WHOLE = Frame(None, None)


def find_frame(layer: LinearLayer, weight: Tensor, most: int) -> Frame:
    """Return the leading directions of a layer that is wider than ``most`` on either side."""
    inputs = find_directions(weight, most) if layer.inputs > most else None
    outputs = find_directions(weight.T, most) if layer.outputs > most else None
    return Frame(inputs, outputs)


def find_directions(weight: Tensor, most: int) -> Tensor:
    """Return at most so many leading right singular directions of W, shape (d_a, m)."""
    W = weight.to("cpu", torch.float64)
    rows = len(W)
    if rows <= most:
        whole: Tensor = torch.linalg.qr(W.T)[0]
        return whole
    generator = torch.Generator().manual_seed(SEED)
    count = min(most + EXTRA, rows)
    test = torch.randn(rows, count, generator=generator, dtype=torch.float64, device="cpu")
    basis: Tensor = torch.linalg.qr(W.T @ test)[0]
    for _ in range(POWERS):
        basis = torch.linalg.qr(W.T @ (W @ basis))[0]
    # Of the directions found the leading ones, by the singular values of W among them.
    _, _, turned = torch.linalg.svd(W @ basis, full_matrices=False)
    leading: Tensor = basis @ turned[:most].T
    return leading
