"""Intervals from replicates, by a delete-a-group jackknife."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lawscope.arrays import FloatArray

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Replicates:
    """A measured curve measured again without each fold of the data."""

    curves: FloatArray  # log D without fold f in row f, shape (F, L)

    def interval(
        self, statistic: Callable[[FloatArray], FloatArray], curve: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the 95 % interval of ``statistic(curve)``, corrected for bias to first order.

        Pseudo-values p_f = F·θ − (F−1)·θ₍₋f₎ have mean θ minus its estimated bias and standard
        error sd(p)/√F; the interval is mean ± t₍F−1₎ · standard error. D is biased low when classes
        are small (noise in the class means inflates SSb), so the interval need not be centred on
        the measured value. Both ends have the shape of the statistic, and NaN where it has.
        """
        from scipy.stats import t

        again = np.stack([statistic(row) for row in self.curves])
        centre, error = jackknife(statistic(curve), again)
        width = float(t.ppf((1 + LEVEL) / 2, len(again) - 1)) * error
        return centre - width, centre + width

    def of_values(self, curve: FloatArray) -> FloatArray:
        """Return the 95 % interval of the values whose logarithms are ``curve``, shape (L, 2)."""
        return np.exp(np.stack(self.interval(lambda c: c, curve), axis=1))


def jackknife(value: FloatArray, deleted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard error of the pseudo-values, shape (S,); ``deleted`` is (F, S)."""
    folds = len(deleted)
    pseudo = folds * value - (folds - 1) * deleted
    return pseudo.mean(axis=0), pseudo.std(axis=0, ddof=1) / np.sqrt(folds)
