"""What a linear regression leaves unexplained: the formula of He & Su 2024 on plain arrays."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.precision import without_autocast
from lawscope.statistics.features import as_features
from lawscope.statistics.moments import CONSTANT, find_rank_tolerance

# Rows per feature below which the residual is biased low and its line is noise.
ENOUGH = 50
# Condition number beyond which digits are lost.
STEEP = 1e6


def prediction_residual(features: Any, target: Any) -> float:
    """Return the prediction residual PR = Σ(y − ŷ)²/Σ(y − ȳ)² = 1 − R² (He & Su 2024).

    ŷ is the least-squares prediction of y from the features with an intercept, in sample: the
    projection of the centred y onto the centred columns, by a QR decomposition in float64.
    Features with a singular value below 1e-12 (float64) or 1e-6 (float32 and less) of the largest,
    after centring and scaling to unit columns, count as dependent and do not change the result.

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
    given, y = as_features(features), as_features(target, "targets").reshape(-1)
    x, y = given.to(torch.float64), y.to(given.device, torch.float64)
    n, d = x.shape
    if len(y) != n:
        raise LawscopeError(f"There are {n} rows of features and {len(y)} targets.")
    if n <= d:
        raise LawscopeError(
            f"{n} rows for {d} features: a regression would fit them exactly and say nothing; pass "
            f"more than {d}, better {ENOUGH * d}."
        )
    with torch.no_grad(), without_autocast():
        mean, y_mean = x.mean(dim=0), y.mean()
        x, y = x - mean, y - y_mean
        size, spread = x.norm(dim=0), float(y @ y)
        if not (bool((size * size).isfinite().all()) and math.isfinite(spread)):
            raise LawscopeError(
                "The features or targets contain values that are NaN, infinite or too large to be "
                "squared; clean or scale them."
            )
        # Columns that never change but for the rounding of their mean drop out.
        scale = torch.where(size > n**0.5 * CONSTANT * mean.abs(), 1 / size, 0.0)
        q, r = torch.linalg.qr(x * scale)
        left, singular, _ = torch.linalg.svd(r)
        rank = int((singular > find_rank_tolerance(given.dtype) * singular[0]).sum())
        basis = q @ left[:, :rank]
        rest = y - basis @ (basis.T @ y)
        # Once more, for the digits that the first projection lost.
        rest = rest - basis @ (basis.T @ rest)
    condition = float(singular[0] / singular[rank - 1]) if rank else math.nan
    if n < ENOUGH * d:
        warnings.warn(
            f"{n} rows for {d} features are {n / d:.3g} per feature: in-sample residuals are about "
            f"{rank / n:.0%} too low and their line is noise below {ENOUGH}; pass "
            f"{ENOUGH * d - n} more.",
            LawscopeWarning,
            stacklevel=2,
        )
    if condition > STEEP:
        warnings.warn(
            f"The features have condition number {condition:.2g}: residuals are good to fewer than "
            "7 digits.",
            LawscopeWarning,
            stacklevel=2,
        )
    constant = spread <= n * (CONSTANT * float(y_mean)) ** 2
    return math.nan if constant else float(rest @ rest) / spread
