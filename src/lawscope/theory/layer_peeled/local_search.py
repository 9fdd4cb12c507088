"""Peeled models without a convex form: local minima from many starts, no certificate.

Every block of variables is a matrix divided by its norm and multiplied by the largest one allowed,
so that the constraints hold by construction and no scale is left over. L-BFGS minimises the
logarithm of the loss, which may be as small as e^−100.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

FloatArray = NDArray[np.float64]
OPTIONS: Any = {"maxiter": 3000, "maxfun": 5000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
NOISE = 0.1  # on the start near collapse, as a share of its root mean square


class Minimum(NamedTuple):
    """Where one start ended: loss, features (K, p) and weights, the first layer first."""

    loss: float
    features: FloatArray
    weights: tuple[FloatArray, ...]


class Block(NamedTuple):
    """A matrix on its bound and its derivative: along·dy − scaled·⟨normal, dy⟩."""

    scaled: FloatArray
    along: FloatArray
    normal: FloatArray

    def pull(self, slope: FloatArray) -> FloatArray:
        """The gradient in the variables y, flat."""
        inner = float((slope * self.scaled).sum())
        return np.asarray(self.along * slope - inner * self.normal).ravel()


@dataclass(frozen=True, eq=False)
class Stack:
    """min Σ share_k·ℓ(W_m σ(… σ(W_1 h_k)), k) under one bound per block.

    Attributes:
        share: n_k/N, shape (K,).
        width: p, features and hidden units.
        bounds: Σ|h|^q ≤ ``bounds[0]`` for the features, ‖W_i‖² ≤ ``bounds[i]``.
        q: exponent of the features' bound.
        relu: σ is max(·, 0) instead of the identity.
    """

    share: FloatArray
    width: int
    bounds: tuple[float, ...]
    q: float = 2.0
    relu: bool = False

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Of the features and of every layer's weights."""
        K, p = len(self.share), self.width
        return [(K, p), *[(p, p)] * (len(self.bounds) - 2), (K, p)]

    def search(self, near: list[FloatArray], starts: int, seed: int) -> list[Minimum]:
        """One local minimum per start: the first near the given blocks, the others at random."""
        rng = np.random.default_rng(seed)
        given = np.concatenate([self.curve(i, block).ravel() for i, block in enumerate(near)])
        noise = NOISE * np.sqrt((given**2).mean()) * rng.standard_normal(given.size)
        begun = [given + noise, *rng.standard_normal((starts - 1, given.size))]
        return [self.descend(start) for start in begun]

    def descend(self, start: FloatArray) -> Minimum:
        """The local minimum that L-BFGS reaches from a start."""
        found = minimize(self.log_loss, start, jac=True, method="L-BFGS-B", options=OPTIONS)
        blocks = [block.scaled for block in self.blocks(found.x)]
        return Minimum(float(np.exp(found.fun)), blocks[0], tuple(blocks[1:]))

    def curve(self, block: int, matrix: FloatArray) -> FloatArray:
        """The variables of a matrix: y with x = sign(y)·|y|^(2/q) where q < 2, else x itself."""
        if block or self.q >= 2:
            return matrix
        return np.asarray(np.sign(matrix) * np.abs(matrix) ** (self.q / 2))

    def blocks(self, flat: FloatArray) -> list[Block]:
        """Every block on its bound, with its derivative."""
        found, begun = [], 0
        for i, shape in enumerate(self.shapes):
            raw = flat[begun : begun + shape[0] * shape[1]].reshape(shape)
            begun += raw.size
            power = self.q if i == 0 else 2.0
            if power < 2:
                # |x|^q has a kink in its slope at zero, where sparse features end up; y² has none.
                size, bend = float((raw**2).sum()), 2 / power
                scale = (self.bounds[i] / size) ** (1 / power)
                along = scale * bend * np.abs(raw) ** (bend - 1)
                found.append(Block(along * raw / bend, along, bend * raw / size))
            else:
                size = float((np.abs(raw) ** power).sum())
                scale = (self.bounds[i] / size) ** (1 / power)
                normal = np.sign(raw) * np.abs(raw) ** (power - 1) / size
                found.append(Block(raw * scale, np.full(shape, scale), normal))
        return found

    def log_loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """The logarithm of the loss and its gradient."""
        blocks = self.blocks(flat)
        hidden = [blocks[0].scaled]
        for block in blocks[1:-1]:
            passed = hidden[-1] @ block.scaled.T
            hidden.append(np.maximum(passed, 0) if self.relu else passed)
        loss, slope = cross_entropy(hidden[-1] @ blocks[-1].scaled.T, self.share)
        parts = []
        for layer in range(len(blocks) - 1, 0, -1):
            parts.append(blocks[layer].pull(slope.T @ hidden[layer - 1]))
            slope = slope @ blocks[layer].scaled
            if self.relu and layer > 1:
                slope = slope * (hidden[layer - 1] > 0)
        parts.append(blocks[0].pull(slope))
        return float(np.log(loss)), np.concatenate(parts[::-1]) / loss


def cross_entropy(logits: FloatArray, share: FloatArray) -> tuple[float, FloatArray]:
    """Σ share_k·ℓ(z_k, k) and its slope, from differences to the own logit, so that digits stay.

    Example:
        >>> loss, _ = cross_entropy(np.zeros((2, 2)), np.array([0.5, 0.5]))
        >>> round(loss, 6)
        0.693147
    """
    own = np.arange(len(share))
    away = logits - logits.diagonal()[:, None]
    top = np.maximum(away.max(axis=1), 0.0)[:, None]
    mass = np.exp(away - top)
    mass[own, own] = 0.0
    self_mass, rest = np.exp(-top[:, 0]), mass.sum(axis=1)
    losses = np.where(top[:, 0] > 0, top[:, 0] + np.log(self_mass + rest), np.log1p(rest))
    chance = mass / (self_mass + rest)[:, None]
    chance[own, own] = -chance.sum(axis=1)
    return float(share @ losses), share[:, None] * chance
