"""What a linear regression leaves unexplained, on plain arrays."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.statistics.features import as_features
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.statistics.rows_by_fold import RowLabels

ENOUGH = 50  # rows per feature below which the residual is biased low and its line is noise
STEEP = 1e6  # condition number beyond which digits are lost


def prediction_residual(features: Any, target: Any) -> float:
    """The prediction residual PR = Σ(y − ŷ)²/Σ(y − ȳ)² = 1 − R² (000, part III).

    ŷ is the least-squares prediction of y from the features with an intercept, in sample. Features
    with a singular value below 1e-12 (float64) or 1e-6 (float32 and less) of the largest, after
    centring and scaling to unit columns, count as dependent and do not change the result.

    Args:
        features: shape (n, d), a tensor or array.
        target: shape (n,), numbers; the vocabulary index of the next token in the paper.

    Returns:
        PR between 0 (predicted exactly) and 1 (not at all); NaN for a constant target.

    Raises:
        LawscopeError: n ≤ d, shapes that do not fit, or values that are not finite.

    Example:
        >>> x = torch.arange(200.0)[:, None]
        >>> prediction_residual(x, 3 * x[:, 0] + 1) < 1e-12
        True
    """
    x, y = as_features(features), as_features(target, "targets").reshape(-1, 1)
    if len(y) != len(x):
        raise LawscopeError(f"There are {len(x)} rows of features and {len(y)} targets.")
    n, d = x.shape
    statistic = PredictionMoments(d, dtype=x.dtype, device=x.device)
    one_fold = torch.zeros(n, dtype=torch.int64, device="cpu")
    statistic.update(x, RowLabels(y.cpu(), one_fold))
    result = statistic.compute()
    for sentence in cautions(n, d, result.rank, result.condition):
        warnings.warn(sentence, LawscopeWarning, stacklevel=2)
    return float(result.pr[0])


def cautions(n: int, dim: int, rank: int, condition: float) -> list[str]:
    """What a regression of n rows on d features deserves to be doubted for."""
    sentences = []
    if n < ENOUGH * dim:
        sentences.append(
            f"{n} rows for {dim} features are {n / dim:.3g} per feature: in-sample "
            f"residuals are about {rank / n:.0%} too low and their line is noise below "
            f"{ENOUGH}; pass {ENOUGH * dim - n} more."
        )
    if condition > STEEP:
        sentences.append(
            f"The features have condition number {condition:.2g}: residuals are good to "
            "fewer than 7 digits."
        )
    return sentences
