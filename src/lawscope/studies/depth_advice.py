"""How deep is deep enough for a dataset: the answer and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lawscope.axes import given_or_new
from lawscope.errors import LawscopeError
from lawscope.laws.separation_result import finite

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
Optimum = Literal["interior", "deeper may be better", "shallower may do", "cannot be told"]
LEVEL = 0.95

RULE = (
    "The best depth has the lowest mean of log D at the last hidden layer. The spread over seeds "
    "is pooled over depths; a depth stays a candidate while the best is not surely lower, by a "
    "one-sided t test at 95 % shared out over all comparisons. The optimum is interior when "
    "neither the shallowest nor the deepest network is a candidate."
)


@dataclass(frozen=True, eq=False)
class DepthAdvice:
    """Final separation of networks of several depths, and the depth that separates best.

    Attributes:
        name: the data.
        depths: layers, classifier included, in rising order.
        values: D at the last hidden layer, shape (depths, seeds).
        pearson: r of each network's line, the same shape.
        accuracy: share of training samples classified rightly, the same shape.
        best: the depth with the lowest mean log D.
        candidates: the depths that may be best, by :data:`RULE`; the best one is among them.
        interval: 95 % interval of the geometric mean of D at each depth, shape (depths, 2).
        verdict: where the optimum lies.
        advice: the answer in a sentence.
        settings: how the networks were trained.
    """

    name: str
    depths: tuple[int, ...]
    values: FloatArray
    pearson: FloatArray
    accuracy: FloatArray
    best: int
    candidates: tuple[int, ...]
    interval: FloatArray
    verdict: Optimum
    advice: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def enough(self) -> int:
        """The shallowest network that is not surely worse than the best."""
        return min(self.candidates)

    def table(self) -> pd.DataFrame:
        """One row per depth: geometric mean of D, its interval, r, accuracy, candidate or not."""
        import pandas as pd

        return pd.DataFrame(
            {
                "depth": self.depths,
                "D": np.exp(np.log(self.values).mean(axis=1)),
                "low": self.interval[:, 0],
                "high": self.interval[:, 1],
                "r": self.pearson.mean(axis=1),
                "accuracy": self.accuracy.mean(axis=1),
                "candidate": [depth in self.candidates for depth in self.depths],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """D at the last hidden layer against depth on a log scale; candidates are filled."""
        ax = given_or_new(ax)
        rows = self.table()
        for depth, seeds in zip(self.depths, self.values, strict=True):
            ax.plot([depth] * len(seeds), seeds, ".", color="grey", alpha=0.5)
        ax.errorbar(
            rows["depth"],
            rows["D"],
            yerr=[rows["D"] - rows["low"], rows["high"] - rows["D"]],
            fmt="o-",
            markerfacecolor="white",
            capsize=2,
            label="mean over seeds, 95 %",
        )
        chosen = rows[rows["candidate"]]
        ax.plot(chosen["depth"], chosen["D"], "o", color="C0", label="may be best")
        ax.set_yscale("log")
        ax.set_xlabel("layers")
        ax.set_ylabel("D at the last hidden layer")
        ax.set_title(self.name)
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values."""
        document: dict[str, Any] = finite(
            {
                "name": self.name,
                "depths": list(self.depths),
                "values": self.values.tolist(),
                "interval": self.interval.tolist(),
                "pearson": self.pearson.tolist(),
                "accuracy": self.accuracy.tolist(),
                "best": self.best,
                "enough": self.enough,
                "candidates": list(self.candidates),
                "verdict": self.verdict,
                "advice": self.advice,
                "settings": dict(self.settings),
            }
        )
        return document

    def __str__(self) -> str:
        return self.advice


def candidates_of(log_values: FloatArray) -> tuple[int, list[int], float]:
    """Rows that may have the lowest mean, and the standard error of one mean.

    Multiple comparisons with the best: row i stays while m_i − m_best ≤ t·s·√(2/S), where s² is the
    variance within rows pooled over all M of them, S the number of columns, and t the quantile at
    1 − 0.05/(M − 1) of Student's t with M(S − 1) degrees of freedom (Bonferroni).

    Args:
        log_values: shape (M, S), S ≥ 2.

    Returns:
        Index of the row with the lowest mean, all candidates, the standard error s/√S.

    Example:
        >>> logs = np.array([[5.0, 5.1], [1.0, 1.1], [1.2, 1.0], [4.0, 4.1]])
        >>> best, rows, _ = candidates_of(logs)
        >>> best, rows
        (1, [1, 2])
    """
    from scipy.stats import t

    rows, columns = log_values.shape
    means = log_values.mean(axis=1)
    error = float(np.sqrt(log_values.var(axis=1, ddof=1).mean() / columns))
    quantile = float(t.ppf(1 - (1 - LEVEL) / max(rows - 1, 1), rows * (columns - 1)))
    best = int(means.argmin())
    near = means - means[best] <= quantile * error * np.sqrt(2)
    return best, np.flatnonzero(near).tolist(), error


def weigh(
    name: str,
    depths: tuple[int, ...],
    values: FloatArray,
    pearson: FloatArray,
    accuracy: FloatArray,
    settings: dict[str, Any],
) -> DepthAdvice:
    """Apply :data:`RULE`; arguments as the attributes of :class:`DepthAdvice`.

    Raises:
        LawscopeError: a D has no logarithm.
    """
    from scipy.stats import t

    logs = _logs(depths, values)
    best, rows, error = candidates_of(logs)
    width = float(t.ppf((1 + LEVEL) / 2, logs.size - len(logs))) * error
    means = logs.mean(axis=1)
    candidates = tuple(depths[row] for row in rows)
    verdict = _verdict(candidates, depths)
    return DepthAdvice(
        name=name,
        depths=depths,
        values=values,
        pearson=pearson,
        accuracy=accuracy,
        best=depths[best],
        candidates=candidates,
        interval=np.exp(np.stack([means - width, means + width], axis=1)),
        verdict=verdict,
        advice=_advice(verdict, depths[best], candidates, float(np.exp(means[best]))),
        settings=settings,
    )


def _logs(depths: tuple[int, ...], values: FloatArray) -> FloatArray:
    """The logarithm of every D; a depth with a D that has none cannot be compared."""
    for depth, row in zip(depths, values, strict=True):
        if (row == 0).any():
            raise LawscopeError(
                f"With {depth} layers D = 0 at the last hidden layer, since all samples of a class "
                "have the same features; use data that differ within classes, or fewer epochs."
            )
        if not np.isfinite(row).all():
            raise LawscopeError(
                f"With {depth} layers D at the last hidden layer is no number, since the class "
                "means coincide; try a smaller lr, a larger width, or leave this depth out."
            )
    return np.asarray(np.log(values), dtype=np.float64)


def _verdict(candidates: tuple[int, ...], depths: tuple[int, ...]) -> Optimum:
    shallow, deep = depths[0] in candidates, depths[-1] in candidates
    if shallow and deep:
        return "cannot be told"
    if deep:
        return "deeper may be better"
    return "shallower may do" if shallow else "interior"


def _advice(verdict: Optimum, best: int, candidates: tuple[int, ...], value: float) -> str:
    said = f"{best} layers separate this data best (D = {value:.3g} at the last hidden layer)"
    among = (
        "surely so among the depths tried"
        if len(candidates) == 1
        else f"with 95 % confidence the best is one of {', '.join(map(str, candidates))}"
    )
    then = {
        "interior": f"{min(candidates)} layers are enough",
        "deeper may be better": "the deepest is among them, so try deeper ones",
        "shallower may do": "the shallowest is among them, so depth is not what this data needs",
        "cannot be told": "add seeds or samples to tell them apart",
    }[verdict]
    if len(candidates) == 1 and verdict == "deeper may be better":
        then = "it is the deepest, so try deeper ones"
    if len(candidates) == 1 and verdict == "shallower may do":
        then = "it is the shallowest, so depth is not what this data needs"
    return f"{said}, {among}; {then}."
