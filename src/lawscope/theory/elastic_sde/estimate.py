"""Estimates of A = ∫α and B = ∫β from class means, for any number of classes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from lawscope.arrays import BoolArray, FloatArray
from lawscope.errors import LawscopeError
from lawscope.theory.elastic_sde.model import as_array, own_logits

Kind = Literal["I", "L"]
Pooling = Literal["norm", "elements"]
LOST = 0.01  # error of a logarithm from which rounding voids it


class Modes(NamedTuple):
    """Two modes of a linear system, each grown by a factor that tells A and B.

    Attributes:
        one: log growth since the start of U (L) or of the mean of all classes (I), (trials, T).
        other: of v (L) or of the deviations from that mean (I), (trials, T).
        lost: where the first, or the second, is below the rounding of the means, (2, trials, T).
    """

    one: FloatArray
    other: FloatArray
    lost: BoolArray


def measure_modes(
    means: FloatArray, model: Kind, rounding: float, pooling: Pooling = "norm"
) -> Modes:
    """Return the log growth of both modes since the first time.

    L: A′ = log|U/U₀|, B′ = log(‖v‖/‖v₀‖) with u_k = d_k·X^k, U = Σu_k, v = u − U/K: constants that
    are added to all logits drop out. I: log(‖X̄‖/‖X̄₀‖) and log of the norm of all X^k − X̄; pooling
    by elements takes the mean of the logarithms of elements instead, as Zhang et al. (2021) do.

    Args:
        means: shape (trials, T, K, p).
        model: "I" or "L".
        rounding: relative precision of the means.
        pooling: of the I-model.
    """
    if model == "L":
        u = own_logits(means)
        U = u.sum(axis=-1, keepdims=True)
        parts = U, u - U / means.shape[2]
    else:
        centre = means.mean(axis=2, keepdims=True)
        parts = (
            centre.reshape(*means.shape[:2], -1),
            (means - centre).reshape(*means.shape[:2], -1),
        )
    scale = np.linalg.norm(means, axis=(2, 3))
    logs, lost = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for part in parts:
            sizes = np.linalg.norm(part, axis=-1)
            level = np.log(sizes)
            if model == "I" and pooling == "elements":
                level = np.log(np.abs(part)).mean(axis=-1)
            lost.append((rounding * scale >= LOST * sizes) | ~np.isfinite(level))
            logs.append(level - level[:, :1])
    return Modes(logs[0], logs[1], np.stack(lost))


def solve_strengths(modes: Modes, K: int, model: Kind) -> tuple[FloatArray, FloatArray]:
    """Return A and B, from log growths that are linear in both.

    L: A′ = (A − B)/K, B′ = (A + B/(K−1))/K. I: (A + (K−1)B)/K and (A − B)/K.
    """
    if model == "L":
        A = modes.one + (K - 1) * modes.other
        return A, (K - 1) * (modes.other - modes.one)
    return modes.one + (K - 1) * modes.other, modes.one - modes.other


def find_sign_change(U: FloatArray) -> int:
    """Return the first index from which U keeps its sign in every trial; T if it ends at zero."""
    same = np.sign(U) == np.sign(U[:, -1:])
    same &= U[:, -1:] != 0
    wrong = np.flatnonzero(~same.all(axis=0))
    return int(wrong[-1]) + 1 if len(wrong) else 0


def relative_difference(genuine: Any, imitated: Any) -> FloatArray:
    """Return RD_k = ‖X^k − Y^k‖ / ((‖X^k‖ + ‖Y^k‖)/2), 0 for 0/0, over the last axis.

    Args:
        genuine: class means, shape (…, K, p), or an ``ElasticTrajectory``.
        imitated: class means of the same shape.

    Raises:
        LawscopeError: shapes differ, or entries are not finite.

    Example:
        >>> relative_difference([[3.0, 4.0]], [[3.0, 0.0]]).tolist()
        [1.0]
    """
    X = as_array("genuine", getattr(genuine, "means", genuine), None)
    if X.ndim < 2:
        raise LawscopeError("genuine must be class means, classes × features.")
    Y = as_array("imitated", getattr(imitated, "means", imitated), X.shape)
    size = (np.linalg.norm(X, axis=-1) + np.linalg.norm(Y, axis=-1)) / 2
    apart = np.linalg.norm(X - Y, axis=-1)
    return np.asarray(np.divide(apart, size, out=np.zeros_like(apart), where=size > 0))


class TailIndex(NamedTuple):
    """r of a strength that falls as t^−r, NaN where it is void.

    Attributes:
        paper: 1 − the mean of log|A(t)|/log t over the last 1000 steps, at most half of all (Zhang
            et al. 2021); it moves with the unit of time and the size of A.
        paper_interval: 95 % over trials.
        slope: 1 − the slope of log|A| in log t over the second half of the times; free of scale,
            and at most 1 in the limit, since A then stops growing.
        slope_interval: 95 % over trials.
    """

    paper: float
    paper_interval: tuple[float, float]
    slope: float
    slope_interval: tuple[float, float]


LAST_STEPS = 1000.0  # that the paper averages over


def estimate_tail(A: FloatArray, steps: FloatArray) -> TailIndex:
    """Return the tail index of the strength whose integral is A, shape (trials, T)."""
    half = (steps >= (steps[0] + steps[-1]) / 2) & (steps > 0)
    late = (steps > steps[-1] - LAST_STEPS) & half & (steps > 1)
    paper = slope = np.full(len(A), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.abs(A))
        if late.any() and _keeps_sign(A[:, late]):
            paper = 1 - (logs[:, late] / np.log(steps[late])).mean(axis=1)
        if half.sum() > 1 and _keeps_sign(A[:, half]):
            x = np.log(steps[half]) - np.log(steps[half]).mean()
            slope = 1 - logs[:, half] @ x / (x @ x)
    return TailIndex(
        float(paper.mean()),
        as_pair(mean_interval(paper)),
        float(slope.mean()),
        as_pair(mean_interval(slope)),
    )


def _keeps_sign(values: FloatArray) -> bool:
    return bool((values > 0).all() or (values < 0).all())


def as_pair(ends: FloatArray) -> tuple[float, float]:
    """Return two ends as numbers."""
    return float(ends[0]), float(ends[1])


def mean_interval(values: FloatArray) -> FloatArray:
    """Return 95 % ends of the mean over trials (the first axis), NaN for one trial, shape (…, 2).

    Resampling trials gives a mean the standard error s/√R, up to the factor √((R−1)/R) that is put
    back here; trials are few, so Student's quantile of R − 1 degrees replaces the normal one.
    """
    from scipy.stats import t

    trials = len(values)
    if trials < 2:
        return np.full((*values.shape[1:], 2), np.nan)
    reach = t.ppf(0.975, trials - 1) * values.std(axis=0, ddof=1) / np.sqrt(trials)
    centre = values.mean(axis=0)
    return np.stack([centre - reach, centre + reach], axis=-1)
