"""Sampling rates that keep minority classes apart, and the sampler that applies them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray, refuse_masked
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import number
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Lines, Section
from lawscope.theory.layer_peeled.groups import check_counts, check_number
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import Peeled
from lawscope.theory.layer_peeled.thresholds import collapse_floor

if TYPE_CHECKING:
    from torch.utils.data import WeightedRandomSampler

MARGIN = 0.005


@dataclass(frozen=True, eq=False, repr=False)
class OversamplingPlan(Result):
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

    schema: ClassVar[str] = "lawscope.oversampling_plan/1"
    derived: ClassVar[tuple[str, ...]] = ("balancing",)
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
        """Return the rate of each sample's class, shape (n,); labels index ``counts``."""
        refuse_masked(labels)
        try:
            y = np.asarray(labels)
        except (TypeError, ValueError, RuntimeError):  # ragged, sparse, with a gradient
            y = np.zeros(0)
        if y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
            raise LawscopeError("labels must be a list of integers, one per sample.")
        outside = y[(y < 0) | (y >= len(self.rates))]
        if len(outside):
            said = f"Label {outside[0]} has no count: labels index the {len(self.rates)} counts"
            raise LawscopeError(f"{said} from 0.")
        return np.asarray(self.rates[y])

    def sampler(self, labels: Any, samples: int | None = None) -> WeightedRandomSampler:
        """Return a sampler for ``DataLoader(sampler=…)``.

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
        """Return one row per class."""
        return pd.DataFrame(
            {
                "samples": self.counts,
                "rate": self.rates,
                "samples drawn": self.counts * self.rates,
                "balancing rate": self.balancing,
            }
        )

    def section(self) -> Section:
        """Return the sizes as they are and as they are drawn, the largest first."""
        order = np.argsort(-self.counts, kind="stable")
        sizes = np.stack([self.counts, self.counts * self.rates])[:, order]
        rank = np.arange(1, len(order) + 1, dtype=np.float64)
        title, names, across = "Samples per class", ["samples", "drawn"], "class, largest first"
        chart = Lines(title, names, sizes, rank, across, "samples", log=True)
        papers = ("layer_peeled",)
        return Section("Oversampling", headline=str(self), charts=[chart], papers=papers)

    def __str__(self) -> str:
        if not self.needed:
            return "no class collapses at these energies; no oversampling is needed"
        few = int((self.rates > 1).sum())
        said = f"{few} of {len(self.rates)} classes {'is' if few == 1 else 'are'} to be sampled"
        return f"{said} more often, up to {number(self.rates.max())} times"


@checked
def oversampling_weights(
    counts: ArrayLike,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    margin: float = MARGIN,
) -> OversamplingPlan:
    """Find the smallest rates at which the Layer-Peeled Model predicts no collapse.

    Every class below a common floor is sampled up to it; see
    :func:`~lawscope.theory.layer_peeled.thresholds.collapse_floor`. Just above the floor the
    classifiers differ, but still by little: raise ``margin`` for more, up to ``plan.balancing``.

    Args:
        counts: samples per class, in the order of the labels.
        weight_energy: E_W; ``ls.collapse(model, loader).centred_energies`` reads both off a
            network, without the mean that all features share and that separates nothing.
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
