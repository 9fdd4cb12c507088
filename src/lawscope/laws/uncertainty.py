"""Intervals from replicates: delete-a-group jackknife and bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lawscope.arrays import FloatArray

Uncertainty = Literal["jackknife", "bootstrap"]
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Replicates:
    """A measured curve measured again on parts or resamples of the data.

    ``curves`` has one row of log D per replicate, shape (R, L): under "jackknife" row f leaves out
    fold f, under "bootstrap" it is a resample.
    """

    curves: FloatArray
    kind: Uncertainty

    def interval(
        self, statistic: Callable[[FloatArray], FloatArray], curve: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the 95 % interval of ``statistic(curve)``, corrected for bias to first order.

        Jackknife: pseudo-values p_f = F·θ − (F−1)·θ₍₋f₎ have mean θ minus its estimated bias and
        standard error sd(p)/√F; the interval is mean ± t₍F−1₎ · standard error. D is biased low
        when classes are small (noise in the class means inflates SSb), so the interval need not
        be centred on the measured value. Bootstrap: the reverse percentile interval 2θ − q, which
        corrects the same bias. Both ends have the shape of the statistic, and NaN where it has.
        """
        value = statistic(curve)
        again = np.stack([statistic(row) for row in self.curves])
        if self.kind == "jackknife":
            centre, error = jackknife(value, again)
            from scipy.stats import t

            width = float(t.ppf((1 + LEVEL) / 2, len(again) - 1)) * error
            return centre - width, centre + width
        low, high = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return 2 * value - high, 2 * value - low

    def of_values(self, curve: FloatArray) -> FloatArray:
        """Return the 95 % interval of the values whose logarithms are ``curve``, shape (L, 2)."""
        return np.exp(np.stack(self.interval(lambda c: c, curve), axis=1))


def jackknife(value: FloatArray, deleted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard error of the pseudo-values, shape (S,); ``deleted`` is (F, S)."""
    folds = len(deleted)
    pseudo = folds * value - (folds - 1) * deleted
    return pseudo.mean(axis=0), pseudo.std(axis=0, ddof=1) / np.sqrt(folds)
