"""Intervals from replicates: delete-a-group jackknife and bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Uncertainty = Literal["jackknife", "bootstrap"]
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Replicates:
    """A measured curve measured again on parts or resamples of the data.

    Attributes:
        curves: one row per replicate, shape (R, L): log D per station.
        kind: ``"jackknife"``, row f leaves out fold f; ``"bootstrap"``, row b is a resample.
    """

    curves: FloatArray
    kind: Uncertainty

    def interval(
        self, statistic: Callable[[FloatArray], FloatArray], curve: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """95 % interval of ``statistic(curve)``, corrected for bias to first order.

        Jackknife: pseudo-values p_f = F·θ − (F−1)·θ₍₋f₎ have mean θ minus its estimated bias and
        standard error sd(p)/√F; the interval is mean ± t₍F−1₎ · standard error. D is biased low
        when classes are small (noise in the class means inflates SSb), so the interval need not
        be centred on the measured value.

        Bootstrap: the reverse percentile interval 2θ − q, which corrects the same bias.

        Args:
            statistic: maps a curve, shape (L,), to numbers, shape (S,).
            curve: the curve measured on all data.

        Returns:
            Lower and upper ends, each of shape (S,). NaN where a replicate is NaN.
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


def jackknife(value: FloatArray, deleted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bias-corrected value and standard error from values with one fold left out each.

    Args:
        value: the statistic on all data, shape (S,).
        deleted: the statistic without fold f, shape (F, S).

    Returns:
        Mean of the pseudo-values and its standard error, each (S,).

    Example:
        For a mean over equal folds the pseudo-values are the fold means themselves.

        >>> folds = np.array([1.0, 2.0, 6.0])
        >>> deleted = (folds.sum() - folds)[:, None] / 2
        >>> centre, error = jackknife(np.array([3.0]), deleted)
        >>> bool(np.allclose(centre, 3.0)), bool(np.allclose(error, folds.std(ddof=1) / 3**0.5))
        (True, True)
    """
    folds = len(deleted)
    pseudo = folds * value - (folds - 1) * deleted
    return pseudo.mean(axis=0), pseudo.std(axis=0, ddof=1) / np.sqrt(folds)
