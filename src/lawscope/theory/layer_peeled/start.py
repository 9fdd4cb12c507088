"""Where the path begins: every class for itself, by water-filling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lawscope.theory.layer_peeled.program import Program

FloatArray = NDArray[np.float64]


def water_fill(program: Program) -> tuple[tuple[FloatArray, FloatArray], float]:
    """A start (a, M) and a price μ.

    A class alone against K − 1 equal rivals has the margin a with α(1 − ε − p + q) = μ, p its own
    probability and q that of a rival; μ is chosen so that the margins add up to τ, and
    Z = diag(a)(I − 11ᵀ/K).
    """
    K, log_alpha = program.classes, np.log(program.alpha)

    def margins(log_mu: float) -> FloatArray:
        # log(1 + K·s/(1 − s)) with s = 1 − ε − μ/α the lead of the own class.
        behind = program.smoothing + np.exp(np.minimum(log_mu - log_alpha, 0.0))
        lead = np.maximum(1 - behind, 0.0)
        return np.asarray(np.log1p(K * lead / behind))

    low = float(log_alpha.min()) - 2 * program.tau / K - 40
    high = float(log_alpha.max())
    for _ in range(80):
        middle = (low + high) / 2
        spent = float(program.sizes @ margins(middle))
        low, high = (middle, high) if spent > program.tau else (low, middle)
    a = margins((low + high) / 2)
    root = np.sqrt(program.sizes)
    M = np.diag(a) - (root * a)[:, None] * root[None, :] / K
    return (np.where(program.copies > 0, a, 0.0), M), float(np.exp((low + high) / 2))
