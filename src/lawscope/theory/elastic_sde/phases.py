"""When samples of the model are separable: over time and over label noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import between, fixed, number
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Chart, HeatMap, Lines, Section, Table
from lawscope.theory.elastic_sde.model import ElasticSDE, as_array
from lawscope.theory.elastic_sde.separability import ROUNDING, count_separable
from lawscope.whole_number import whole_number


@dataclass(frozen=True, eq=False, repr=False)
class ElasticPhases(Result):
    """How probable separation is at every time, for every share of wrong labels.

    Attributes:
        times: shape (S,).
        label_noise: shares of wrong labels, shape (Q,).
        probability: that every two classes are linearly separable, shape (Q, S).
        interval: 95 % ends of it, shape (Q, S, 2).
        pairs: share of separable pairs of classes, shape (Q, S).
        spread: distance of samples from their class mean over that of class means from theirs, root
            mean squares, shape (Q, S).
        classes: K.
        settings: of the model and of the draws.
    """

    schema: ClassVar[str] = "lawscope.elastic_phases/1"
    times: FloatArray
    label_noise: FloatArray
    probability: FloatArray
    interval: FloatArray
    pairs: FloatArray
    spread: FloatArray
    classes: int
    settings: dict[str, Any] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """Return one row per label noise and time."""
        shape = self.probability.shape
        columns = {
            "label_noise": np.broadcast_to(self.label_noise[:, None], shape),
            "time": np.broadcast_to(self.times, shape),
            "probability": self.probability,
            "low": self.interval[..., 0],
            "high": self.interval[..., 1],
            "pairs": self.pairs,
            "spread": self.spread,
        }
        return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()})

    def section(self) -> Section:
        """Return the phase diagram, or a line for one share of wrong labels."""
        shares, times = (
            [number(each) for each in row.tolist()] for row in (self.label_noise, self.times)
        )
        title = "Probability that all classes are separable"
        chart: Chart = HeatMap(title, shares, times, self.probability, 0.0, 1.0, "probability")
        if len(shares) == 1:
            names, axis = ["all classes", "a pair of classes"], "time t"
            both = np.concatenate([self.probability, self.pairs])
            chart = Lines(title, names, both, self.times, axis, "probability", log_x=True)
        rows = [
            [
                number(q),
                number(t),
                fixed(p, 2),
                between((low, high), _two),
                fixed(pairs, 2),
                number(s, zero=ROUNDING),
            ]
            for q, t, p, low, high, pairs, s in self.table().to_numpy(dtype=float).tolist()
        ]
        columns = ["label noise", "t", "separable", "95 %", "pairs", "spread"]
        return Section(
            title="Separation under the LE-SDE",
            headline=str(self),
            charts=[chart],
            tables=[Table("Separability", columns, rows, words=0, main=True)],
            findings=self._findings(),
            settings=[(name, str(value)) for name, value in self.settings.items()],
            papers=("elastic",),
            about=[
                "Separable: between every two classes lies a hyperplane, found by a linear "
                "program, in draws of n samples per class.",
                "Spread: distance of samples from their class mean over that of the class means "
                "from theirs.",
            ],
        )

    def _findings(self) -> list[str]:
        limit = 1 - 1 / self.classes
        if self.label_noise.max() < limit:
            return []
        return [
            f"From a label noise of (K−1)/K = {fixed(limit, 3)} on labels say nothing or the "
            "opposite: α − β acts with the factor 1 − qK/(K−1)."
        ]

    def __str__(self) -> str:
        last = self.probability[:, -1]
        ends = f"{last.min():.2f} to {last.max():.2f}" if len(last) > 1 else f"{last[0]:.2f}"
        when = f"at t = {number(float(self.times[-1]))}"
        return f"{when} all classes are separable with probability {ends}"


def _two(share: float) -> str:
    return fixed(share, 2)


@checked
def elastic_phases(
    sde: ElasticSDE,
    times: Sequence[float],
    label_noise: Sequence[float] = (0.0,),
    n: int = 50,
    repeats: int = 50,
    rng: Any = 0,
) -> ElasticPhases:
    """Return how probable separation is over time, for every share of wrong labels.

    Args:
        sde: the model; its own label noise is replaced.
        times: when to look.
        label_noise: shares of wrong labels.
        n: samples per class.
        repeats: draws of n samples.
        rng: a seed or a numpy generator.

    Example:
        >>> sde = ElasticSDE(lambda t: 1 / np.sqrt(1 + t), 0.0, K=3, model="I", noise=4.0)
        >>> elastic_phases(sde, [10.0, 1000.0], n=10, repeats=5).probability.tolist()
        [[0.0, 1.0]]
    """
    if not isinstance(sde, ElasticSDE):
        raise LawscopeError(f"sde is a {type(sde).__name__}; give an ElasticSDE.")
    moments, shares = (
        np.atleast_1d(as_array(name, given, None)).ravel()
        for name, given in (("times", times), ("label_noise", label_noise))
    )
    if not len(moments) or not len(shares):
        raise LawscopeError("times and label_noise need at least one entry each.")
    size = whole_number("n", n, 1, "is too few")
    draws = whole_number("repeats", repeats, 1, "is too few")
    found, spreads = [], []
    for share in shares.tolist():
        model = sde.replace(label_noise=share)
        samples = model.sample(moments, size * draws, rng, model.centred_start)
        means = model.mean(moments, model.centred_start)
        within = np.sqrt(((samples - means[:, None]) ** 2).sum(axis=-1).mean(axis=(1, 2)))
        away = means - means.mean(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):  # class means may be one
            spreads.append(within / np.sqrt((away**2).sum(axis=-1).mean(axis=1)))
        split = samples.reshape(len(moments), draws, size, sde.K, sde.p)
        found.append([count_separable(each) for each in split])
    rows = np.array(found)
    settings = {"model": sde.model, "drift": sde.drift, "n": size, "repeats": draws}
    return ElasticPhases(
        moments,
        shares,
        rows[..., 0],
        rows[..., 1:3],
        rows[..., 3],
        np.array(spreads),
        sde.K,
        settings,
    )
