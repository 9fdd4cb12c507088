"""The nonconvex model itself: classifiers and one free feature per sample, descended from a start.

Both constraints are active at the optimum, so W = √(K·E_W)·V/‖V‖ and H likewise lose nothing, and
what is left is a smooth problem without constraints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from lawscope.arrays import FloatArray


@dataclass(frozen=True)
class FreeModel:
    """Equal classes whose features are free to differ."""

    classes: int
    per_class: int
    dimension: int
    weight_energy: float
    feature_energy: float

    def descend(self, seed: int) -> tuple[float, FloatArray]:
        """Loss and features, (K, n, p), where L-BFGS ends from a random start."""
        rows = self.classes * (1 + self.per_class)
        start = np.random.default_rng(seed).standard_normal(rows * self.dimension)
        options: Any = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-12}
        end = minimize(self.loss, start, jac=True, method="L-BFGS-B", options=options)
        features = self._parts(end.x)[1]
        return float(end.fun), features.reshape(self.classes, self.per_class, self.dimension)

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Mean cross-entropy and its derivative by the unscaled V and G, as one vector."""
        W, H = (part.reshape(-1, self.dimension) for part in self._parts(flat))
        labels = np.repeat(np.arange(self.classes), self.per_class)
        logs = log_softmax(H @ W.T, axis=1)
        slope = (np.exp(logs) - np.eye(self.classes)[labels]) / len(labels)
        value = -logs[np.arange(len(labels)), labels].mean()
        # What of the slopes is not towards the centres of the spheres, in the units of V and G.
        along = []
        slopes = (slope.T @ H).ravel(), (slope @ W).ravel()
        for radius, part, toward in zip(self._radii(), self._split(flat), slopes, strict=True):
            length = np.linalg.norm(part)
            unit = part / length
            along.append(radius / length * (toward - unit * (unit @ toward)))
        return float(value), np.concatenate(along)

    def _radii(self) -> tuple[float, float]:
        weights = self.classes * self.weight_energy
        features = self.classes * self.per_class * self.feature_energy
        return weights**0.5, features**0.5

    def _split(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        cut = self.classes * self.dimension
        return flat[:cut], flat[cut:]

    def _parts(self, flat: FloatArray) -> list[FloatArray]:
        """W and H, scaled onto their spheres, flat."""
        pairs = zip(self._radii(), self._split(flat), strict=True)
        return [np.asarray(radius * part / np.linalg.norm(part)) for radius, part in pairs]
