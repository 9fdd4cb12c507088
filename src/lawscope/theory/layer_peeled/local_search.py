"""Peeled models without a convex form: local minima from many starts, no certificate.

Every block of variables is a matrix divided by its norm and multiplied by the largest one allowed,
so that the constraints hold by construction and no scale is left over. L-BFGS minimises the
logarithm of the loss, which may be as small as e^−100.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from lawscope.arrays import FloatArray, IntArray
from lawscope.formatting import many, number
from lawscope.result import Result
from lawscope.section import Lines, Section
from lawscope.theory.layer_peeled.groups import find_minority
from lawscope.theory.layer_peeled.program import cross_entropy
from lawscope.whole_number import whole_number

if TYPE_CHECKING:
    import pandas as pd

OPTIONS: Any = {"maxiter": 3000, "maxfun": 5000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
# On the start near collapse, as a share of its root mean square.
NOISE = 0.1
# Losses nearer than this are the same.
EQUAL = 1e-8
# A classifier this much shorter than the root mean square has no direction.
GONE = 1e-6


def on_bound(
    raw: FloatArray, bound: float, q: float = 2.0
) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
    """Return x with Σ|x|^q = bound, and how a slope in x becomes a flat one in the variables.

    |x|^q has a kink in its slope at zero for q < 2, where sparse features end up; with
    x = sign(y)·|y|^(2/q) it is y², which has none.
    """
    bend, steep = max(1.0, 2 / q), max(2.0, q)
    size = float((np.abs(raw) ** steep).sum())
    along = (bound / size) ** (1 / q) * bend * np.abs(raw) ** (bend - 1)
    normal = bend * np.sign(raw) * np.abs(raw) ** (steep - 1) / size
    scaled = along * raw / bend

    def pull(slope: FloatArray) -> FloatArray:
        return np.asarray(along * slope - (slope * scaled).sum() * normal).ravel()

    return scaled, pull


@dataclass(frozen=True, eq=False)
class Stack:
    """min Σ (n_k/N)·ℓ(W_m σ(… σ(W_1 h_k)), k) with Σ|h|^q ≤ bounds[0] and ‖W_i‖² ≤ bounds[i]."""

    counts: FloatArray  # n_k, shape (K,)
    width: int  # p, features and hidden units
    bounds: tuple[float, ...]
    q: float = 2.0
    relu: bool = False  # σ is max(·, 0) instead of the identity

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shapes of the features and of every layer's weights."""
        K, p = len(self.counts), self.width
        return [(K, p), *[(p, p)] * (len(self.bounds) - 2), (K, p)]

    def blocks(self, flat: FloatArray) -> list[tuple[FloatArray, Callable[..., FloatArray]]]:
        """Return every block on its bound, with its derivative."""
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])
        parts = zip(np.split(flat, ends[:-1]), self.shapes, strict=True)
        powers = [self.q] + [2.0] * (len(self.bounds) - 1)
        raw = [part.reshape(shape) for part, shape in parts]
        return [on_bound(*each) for each in zip(raw, self.bounds, powers, strict=True)]

    def log_loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return the logarithm of the loss and its gradient."""
        (features, *layers), pulls = zip(*self.blocks(flat), strict=True)
        hidden = [features]
        for weights in layers[:-1]:
            passed = hidden[-1] @ weights.T
            hidden.append(np.maximum(passed, 0) if self.relu else passed)
        logits, share = hidden[-1] @ layers[-1].T, self.counts / self.counts.max()
        share = share / share.sum()
        losses, slope = cross_entropy(logits - logits.diagonal()[:, None], 1 - np.eye(len(share)))
        np.fill_diagonal(slope, -slope.sum(axis=1))
        loss, slope, parts = float(share @ losses), share[:, None] * slope, []
        for layer in range(len(layers), 0, -1):
            parts.append(pulls[layer](slope.T @ hidden[layer - 1]))
            slope = slope @ layers[layer - 1]
            if self.relu and layer > 1:
                slope = slope * (hidden[layer - 1] > 0)
        parts.append(pulls[0](slope))
        return math.log(loss), np.concatenate(parts[::-1]) / loss


@dataclass(frozen=True, eq=False, repr=False)
class LocalPeeled(Result):
    """The best local minimum found. A better one may exist: nothing certifies it.

    Attributes:
        counts: samples per class, shape (K,).
        losses: of all starts, shape (S,): the first near neural collapse, the others at random.
        minority_cosines: mean cosine between the classifiers of two minority classes at the minimum
            of each start, shape (S,).
        layers: weights of the best minimum, the first layer first.
        features: of the best minimum, one row per class, shape (K, p).
        collapsed_loss: the least loss found among configurations with neural collapse, equal for
            all classes, under the same bounds.
        settings: everything that was asked for.
    """

    schema: ClassVar[str] = "lawscope.local_peeled/1"
    derived: ClassVar[tuple[str, ...]] = ("loss", "certified", "minority_cosine")
    counts: FloatArray
    losses: FloatArray
    minority_cosines: FloatArray
    layers: tuple[FloatArray, ...]
    features: FloatArray
    collapsed_loss: float
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """The least loss of all starts."""
        return float(self.losses.min())

    @property
    def certified(self) -> bool:
        """False: these programs are not convex, and nothing bounds the loss from below."""
        return False

    @property
    def weights(self) -> FloatArray:
        """The last layer, one classifier per row, shape (K, p)."""
        return self.layers[-1]

    @property
    def minority_cosine(self) -> float:
        """Mean cosine between the classifiers of two minority classes; NaN if undefined."""
        return float(self.minority_cosines[int(self.losses.argmin())])

    @property
    def below_collapsed(self) -> bool:
        """Whether the best loss is below that of neural collapse by more than rounding."""
        return self.loss < self.collapsed_loss * (1 - EQUAL)

    @cached_property
    def cosines(self) -> FloatArray:
        """Cosines between classifiers, NaN where one is zero, shape (K, K)."""
        return compute_cosines(self.weights)

    def table(self) -> pd.DataFrame:
        """Return one row per start."""
        import pandas as pd

        found = pd.DataFrame({"loss": self.losses, "minority_cosine": self.minority_cosines})
        found["below_collapsed"] = self.losses < self.collapsed_loss * (1 - EQUAL)
        return found.rename_axis("start").reset_index()

    def section(self) -> Section:
        """Return the loss of every start beside that of neural collapse."""
        losses = np.sort(self.losses)
        lines = np.stack([losses, np.full(len(losses), self.collapsed_loss)])
        starts = np.arange(1, len(losses) + 1, dtype=np.float64)
        names = ["found (not certified)", "neural collapse"]
        return Section(
            title="Layer-Peeled Model, local search",
            headline=str(self),
            charts=[Lines("Loss of every start", names, lines, starts, "start", "loss")],
            papers=("layer_peeled",),
        )

    def __str__(self) -> str:
        side = "below" if self.below_collapsed else "not below"
        return (
            f"local minimum: loss {number(self.loss)}, the best of "
            f"{many(len(self.losses), 'start')}, not certified; {side} neural collapse at "
            f"{number(self.collapsed_loss)}"
        )


def search(
    stack: Stack, collapsed_loss: float, near: list[FloatArray], settings: dict[str, Any]
) -> LocalPeeled:
    """Descend from ``settings["starts"]`` starts: the first near collapse, the others at random."""
    rng = np.random.default_rng(settings["seed"])
    features, *layers = near
    if stack.q < 2:
        features = np.sign(features) * np.abs(features) ** (stack.q / 2)  # as on_bound has them
    given = np.concatenate([block.ravel() for block in (features, *layers)])
    noise = NOISE * np.sqrt((given**2).mean()) * rng.standard_normal(given.size)
    begun = [given + noise, *rng.standard_normal((settings["starts"] - 1, given.size))]
    ends = [
        minimize(stack.log_loss, start, jac=True, method="L-BFGS-B", options=OPTIONS)
        for start in begun
    ]
    losses = np.array([np.exp(end.fun) for end in ends])
    minima = [[scaled for scaled, _ in stack.blocks(end.x)] for end in ends]
    minority = find_minority(stack.counts)
    cosines = np.array([_mean_cosine(blocks[-1], minority) for blocks in minima])
    features, *layers = minima[int(losses.argmin())]
    asked = {"counts": stack.counts.tolist(), **settings}
    return LocalPeeled(
        stack.counts, losses, cosines, tuple(layers), features, collapsed_loss, asked
    )


def check_search(starts: int, dimension: int | None, seed: int, classes: int) -> tuple[int, int]:
    """Return at least one start, and at least K − 1 features or, where None is given, K."""
    begun = whole_number("starts", starts, 1, "searches nothing")
    whole_number("seed", seed, 0, "is not a seed")
    if dimension is None:
        return begun, classes
    few = f"is too small for a simplex of {classes} classes"
    return begun, whole_number("dimension", dimension, classes - 1, few)


def compute_cosines(weights: FloatArray) -> FloatArray:
    """Return the cosines between rows, NaN where one is zero."""
    lengths = np.linalg.norm(weights, axis=1)
    lengths[lengths <= GONE * np.sqrt((lengths**2).mean())] = np.nan
    rows = weights / lengths[:, None]
    return np.asarray(np.clip(rows @ rows.T, -1, 1))


def _mean_cosine(weights: FloatArray, minority: IntArray) -> float:
    if len(minority) < 2:
        return math.nan
    cosines = compute_cosines(weights)[np.ix_(minority, minority)]
    return float(cosines[np.triu_indices(len(minority), 1)].mean())
