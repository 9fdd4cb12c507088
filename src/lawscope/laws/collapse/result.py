"""What a measurement of neural collapse says: numbers, prediction, verdict, advice, picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from lawscope.arrays import FloatArray, IntArray
from lawscope.formatting import fixed, number, percent
from lawscope.laws.base import LawResult
from lawscope.laws.collapse.metrics import NC1, NC2, Energies, MinorityCosine
from lawscope.laws.learned import has_learned
from lawscope.laws.population import Population
from lawscope.lazy import pd
from lawscope.section import Section
from lawscope.theory.layer_peeled.peeled import Peeled

SHAPE = {
    "equinorm": "std/mean of norms, K−1",
    "angle_std": "std of pairwise cosines",
    "angle_error": "mean |cos + 1/(K−1)|",
}


class Predicted(NamedTuple):
    """The same numbers at the optimum of the Layer-Peeled Model, where NC1 is zero."""

    nc2: NC2
    nc3: float
    minority_cosine: MinorityCosine
    cosines: FloatArray  # between its classifiers, shape (K, K)


class HeadFacts(NamedTuple):
    """Where the classifier was found, without its weights."""

    name: str  # module path, and the function where the module is more than it
    kind: str  # "linear", "1×1 convolution", "cosine", "tied" or "product"
    rows: int  # number of classes it has rows for
    features: int  # that enter it
    bias: bool  # whether it has one
    scale: float  # what the network multiplies the product by
    after: str  # "log-softmax" or "softmax" when the network returns that, else empty
    positions: str  # how positions are reduced to one, or empty


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Collapse(LawResult):
    """Neural collapse at the head of a network, beside what the Layer-Peeled Model predicts.

    K counts the classes of the data; h̄_k is the mean feature of a class, h̄ the mean of these.

    Attributes:
        nc1: ``D`` = Tr(SSw SSb⁺), ``papyan`` = D/K, ``cdnv``.
        nc2: ``means`` and ``classifiers``, each with ``equinorm`` (std/mean of the norms),
            ``angle_std`` (of the pairwise cosines) and ``angle_error`` (mean |cos + 1/(K−1)|).
        nc3: ‖W/‖W‖_F − M/‖M‖_F‖², M the centred class means.
        nc4: share of samples where the classifier, bias included, and the nearest class mean
            disagree.
        minority: positions in ``classes`` of the minority: the smallest size in
            ``training_counts`` or, if one class alone has it, all below the mean; of classes of
            which the largest is at least 1.5 times as large. All classes where there are none, or
            where sizes differ by no more than samples drawn at random do (χ² at 1 %).
        minority_cosine: mean cosine between minority ``classifiers`` and centred ``means``.
        energies: (E_W, E_H) as in the constraint of the Layer-Peeled Model.
        centred_energies: the same after the mean row and the mean feature h̄ are taken off.
        bias_share: ‖Pb‖²/(‖Pb‖² + (1/K)Σ‖PWh̄_k‖²), P centring over the classes: what the bias
            contributes to the logits of the class means. NC2, NC3 and the prediction are
            about W alone.
        interval: 95 % interval of ``"nc4"`` (Wilson, the class means taken as given). What depends
            on weights alone is exact.
        population: D̂ of the population with its interval, or None.
        prediction: the Layer-Peeled Model at ``energies`` and ``training_counts``, or None.
        no_prediction: why there is none, else empty.
        predicted: the numbers above at its optimum, or None.
        head: where the classifier was found.
        classes: labels of the data, sorted; each is the row of the head it belongs to.
        counts: samples per class in the data measured, shape (K,).
        training_counts: sizes the prediction is made for; ``counts`` unless others were given.
        class_names: names for ``classes``.
        accuracy: of the classifier on the data, among all rows of the head.
        class_accuracy: the same per class, shape (K,).
        nearest_accuracy: of the nearest class mean.
        classifier_cosines: shape (K, K).
        mean_cosines: of the centred class means, shape (K, K).
    """

    schema: ClassVar[str] = "lawscope.collapse/2"
    nc1: NC1
    nc2: NC2
    nc3: float
    nc4: float
    minority: IntArray
    minority_cosine: MinorityCosine
    energies: Energies
    centred_energies: Energies
    bias_share: float
    interval: dict[str, tuple[float, float]]
    population: Population | None
    prediction: Peeled | None
    no_prediction: str
    predicted: Predicted | None
    head: HeadFacts
    classes: IntArray
    counts: IntArray
    training_counts: FloatArray
    class_names: tuple[str, ...]
    accuracy: float
    class_accuracy: FloatArray
    nearest_accuracy: float
    classifier_cosines: FloatArray
    mean_cosines: FloatArray
    control: Collapse | None = None

    def table(self) -> pd.DataFrame:
        """Return one row per number: its convention, the value, an interval, the prediction."""
        return pd.DataFrame(number_rows(self), columns=Row._fields)

    def by_class(self) -> pd.DataFrame:
        """Return one row per class: samples, accuracy, nearest other classifier, phase."""
        others = self.classifier_cosines - 3 * np.eye(len(self.classes))
        nearest = np.nan_to_num(others, nan=-2.0).argmax(axis=1)
        return pd.DataFrame(
            {
                "class": list(self.class_names),
                "samples": self.counts,
                "training samples": self.training_counts,
                "accuracy": self.class_accuracy,
                "nearest classifier": [self.class_names[j] for j in nearest],
                "cosine": others[np.arange(len(nearest)), nearest],
                "predicted phase": self.phases,
            }
        )

    @property
    def learned(self) -> bool:
        """Whether the network is known to have learned its data."""
        untrained = math.nan if self.control is None else self.control.accuracy
        return has_learned(self.accuracy, self.counts, untrained) is True

    @property
    def phases(self) -> list[str]:
        """Predicted phase of each class; empty strings without a prediction."""
        if self.prediction is None:
            return [""] * len(self.classes)
        by_count = {g.count: g.phase for g in self.prediction.groups}
        return [by_count[n] for n in self.prediction.counts]

    @property
    def cosine_name(self) -> str:
        """What ``minority_cosine`` is: without a minority a mean over all classes."""
        everybody = len(self.minority) == len(self.classes)
        return "mean cosine" if everybody else "minority cosine"

    def section(self) -> Section:
        from lawscope.laws.collapse.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        return (
            f"neural collapse at '{self.head.name}': {self.verdict}; "
            f"NC1 {number(self.nc1.papyan)}, NC2 {number(self.nc2.means.angle_error)}, "
            f"NC3 {number(self.nc3)}, NC4 {percent(self.nc4)}; "
            f"{self.cosine_name} {fixed(self.minority_cosine.classifiers, 3)}"
        )


class Row(NamedTuple):
    """One number; NaN where there is no interval or no prediction."""

    metric: str
    convention: str
    value: float
    low: float = math.nan
    high: float = math.nan
    predicted: float = math.nan


def number_rows(result: Collapse) -> list[Row]:
    """Return every number with its convention, interval and prediction."""
    expected = result.predicted
    zero = nc3 = classifiers = means = math.nan
    if expected is not None:
        zero, nc3, (classifiers, means) = 0.0, expected.nc3, expected.minority_cosine
    rows = [
        Row("NC1 D", "Tr(SSw SSb⁺), classes by n_k/n", result.nc1.D, predicted=zero),
        Row("NC1 Papyan", "D/K", result.nc1.papyan, predicted=zero),
        Row("NC1 CDNV", "mean (v_j+v_k)/(2|h_j−h_k|²)", result.nc1.cdnv, predicted=zero),
    ]
    if (found := result.population) is not None:
        low, high = found.interval[0].tolist()
        value = float(found.values[0])
        rows.append(Row("NC1 D̂", "D in the population", value, low, high, zero))
    for i, name in enumerate(NC2._fields):
        predicted = (math.nan,) * 3 if expected is None else expected.nc2[i]
        for field, value, there in zip(SHAPE, result.nc2[i], predicted, strict=True):
            rows.append(Row(f"NC2 {name} {field}", SHAPE[field], value, predicted=there))
    cosine, pairs, name = result.minority_cosine, "mean over pairs", result.cosine_name
    nc4 = "share where argmax(Wh+b) ≠ nearest mean"
    return [
        *rows,
        Row("NC3", "|W/|W| − M/|M||², M centred means", result.nc3, predicted=nc3),
        Row("NC4", nc4, result.nc4, *result.interval["nc4"]),
        Row(f"{name} of classifiers", pairs, cosine.classifiers, predicted=classifiers),
        Row(f"{name} of means", f"{pairs}, centred", cosine.means, predicted=means),
        Row("E_W", "mean |w_k|²", result.energies.weight),
        Row("E_H", "mean over classes of mean |h|²", result.energies.feature),
        Row("accuracy", "argmax over all rows of the head", result.accuracy),
    ]
