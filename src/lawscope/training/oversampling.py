"""Sampling rates that keep minority classes apart, and the sampler that applies them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lawscope.axes import given_or_new
from lawscope.errors import LawscopeError
from lawscope.theory.layer_peeled.groups import check_counts, check_number
from lawscope.theory.layer_peeled.oversampling import collapse_floor
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import Peeled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from torch.utils.data import WeightedRandomSampler

FloatArray = NDArray[np.float64]
MARGIN = 0.005


@dataclass(frozen=True, eq=False)
class OversamplingPlan:
    """How much more often each class is to be sampled.

    In the model a sample drawn twice as often and a sample whose loss weighs twice are the same,
    so ``rates`` are class weights too.

    Attributes:
        counts: samples per class, shape (K,).
        rates: per class, 1 for those large enough, shape (K,).
        before: the prediction for the counts as they are.
        after: the prediction at the rates.
        margin: how far above the threshold the rates are.
    """

    counts: FloatArray
    rates: FloatArray
    before: Peeled
    after: Peeled
    margin: float

    @property
    def needed(self) -> bool:
        """Whether any class has to be sampled more often."""
        return bool((self.rates > 1).any())

    @property
    def balancing(self) -> FloatArray:
        """The rates n_max/n_k that make all classes equal: the most that oversampling can do."""
        return np.asarray(self.counts.max() / self.counts)

    def sample_weights(self, labels: Any) -> FloatArray:
        """The rate of each sample's class, shape (n,); labels index ``counts``."""
        y = np.asarray(labels)
        if y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
            raise LawscopeError("labels must be a list of integers, one per sample.")
        if y.min() < 0 or y.max() >= len(self.rates):
            wrong = y.min() if y.min() < 0 else y.max()
            raise LawscopeError(
                f"Label {wrong} has no count: labels index the {len(self.rates)} counts from 0."
            )
        return np.asarray(self.rates[y])

    def sampler(self, labels: Any, samples: int | None = None) -> WeightedRandomSampler:
        """A sampler for ``DataLoader(sampler=…)``.

        Args:
            labels: of the data set, in its order.
            samples: drawn per epoch; by default as many as make a sample of the large classes
                come once in the mean.
        """
        from torch.utils.data import WeightedRandomSampler

        weights = self.sample_weights(labels)
        drawn = math.ceil(weights.sum()) if samples is None else samples
        return WeightedRandomSampler(weights.tolist(), drawn, replacement=True)

    def table(self) -> pd.DataFrame:
        """One row per class."""
        import pandas as pd

        return pd.DataFrame(
            {
                "samples": self.counts,
                "rate": self.rates,
                "samples drawn": self.counts * self.rates,
                "balancing rate": self.balancing,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the sizes as they are and as they are drawn, the largest first."""
        ax = given_or_new(ax)
        order, index = np.argsort(-self.counts, kind="stable"), np.arange(len(self.counts))
        ax.bar(index, (self.counts * self.rates)[order], alpha=0.4, label="drawn")
        ax.bar(index, self.counts[order], label="samples")
        ax.set_yscale("log")
        ax.set_xlabel("class, largest first")
        ax.set_ylabel("samples")
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values."""
        return {
            "counts": self.counts.tolist(),
            "rates": self.rates.tolist(),
            "balancing": self.balancing.tolist(),
            "margin": self.margin,
            "before": _phases(self.before),
            "after": _phases(self.after),
        }

    def __str__(self) -> str:
        if not self.needed:
            return "no class collapses at these energies; no oversampling is needed"
        return (
            f"{int((self.rates > 1).sum())} of {len(self.rates)} classes are to be sampled more "
            f"often, up to {self.rates.max():.3g} times"
        )


def oversampling_weights(
    counts: ArrayLike,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    margin: float = MARGIN,
) -> OversamplingPlan:
    """The smallest rates at which the Layer-Peeled Model predicts no collapsed class.

    Every class below a common floor is sampled up to it; see
    :func:`~lawscope.theory.layer_peeled.oversampling.collapse_floor`. Just above the floor the
    classifiers differ, but still by little: raise ``margin`` for more, up to ``plan.balancing``.

    Args:
        counts: samples per class, in the order of the labels.
        weight_energy: E_W; ``ls.collapse(model, loader).energies`` reads both off a network.
        feature_energy: E_H.
        margin: how far above the threshold to go, 0.005 for half a percent.

    Returns:
        The plan, with ``.rates``, ``.sampler(labels)`` and the prediction before and after.

    Raises:
        LawscopeError: counts, energies or the margin make no sense.

    Example:
        >>> plan = oversampling_weights([1000] * 5 + [10] * 5)
        >>> plan.rates.round(2).tolist()[4:6], plan.after.groups[-1].phase
        ([1.0, 8.24], 'separated')
    """
    given = check_counts(counts)
    margin = check_number("margin", margin)
    if not (math.isfinite(margin) and margin >= 0):
        raise LawscopeError(f"margin is {margin:g}; it must be zero or more, e.g. 0.005.")
    before = peel(given, weight_energy, feature_energy)
    floor = collapse_floor(given, weight_energy, feature_energy)
    # Where nothing collapses nothing is lifted; beyond the largest class there is nothing to gain.
    bar = min(floor * (1 + margin), given.max()) if floor > given.min() else given.min()
    lifted = np.maximum(given, bar)
    after = peel(lifted, weight_energy, feature_energy)
    return OversamplingPlan(given, lifted / given, before, after, margin)


def _phases(peeled: Peeled) -> list[dict[str, Any]]:
    return [{"count": g.count, "classes": g.classes, "phase": g.phase} for g in peeled.groups]
