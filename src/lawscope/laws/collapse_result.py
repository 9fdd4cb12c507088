"""What a measurement of neural collapse says: numbers, prediction, verdict, advice, picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lawscope.axes import SQUARE, given_or_new
from lawscope.capture.head import Head
from lawscope.laws.collapse_metrics import NC1, NC2, Energies, MinorityCosine
from lawscope.laws.separation_result import Verdict, finite
from lawscope.theory.layer_peeled.peeled import Peeled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
WRITTEN_CLASSES = 30  # more classes than this, and to_dict leaves the cosine matrices out


class Predicted(NamedTuple):
    """The same numbers at the optimum of the Layer-Peeled Model, where NC1 is zero.

    Attributes:
        nc2: of its features and classifiers.
        nc3: its self-duality.
        minority_cosine: of the classes in ``Collapse.minority``.
        cosines: between its classifiers, shape (K, K).
    """

    nc2: NC2
    nc3: float
    minority_cosine: MinorityCosine
    cosines: FloatArray


@dataclass(frozen=True, eq=False)
class Collapse:
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
            ``training_counts`` or, if one class alone has it, all below the mean.
        minority_cosine: mean cosine between minority ``classifiers`` and centred ``means``; over
            all classes when all are equally large.
        energies: (E_W, E_H) as in the constraint of the Layer-Peeled Model.
        centred_energies: the same after the mean row and the mean feature h̄ are taken off.
        bias_share: ‖Pb‖²/(‖Pb‖² + (1/K)Σ‖PWh̄_k‖²), P centring over the classes: what the bias
            contributes to the logits of the class means. NC2, NC3 and the prediction know no bias.
        interval: 95 % intervals of ``"D"`` (jackknife) and ``"nc4"`` (Wilson, the class means
            taken as given). What depends on weights alone is exact.
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
        verdict: by the rule in ``lawscope.laws.collapse_verdict``.
        reason: the sentence behind it.
        advice: plain sentences, the most important first.
        settings: how it was measured.
        warnings: what deserves a look.
    """

    nc1: NC1
    nc2: NC2
    nc3: float
    nc4: float
    minority: NDArray[np.int64]
    minority_cosine: MinorityCosine
    energies: Energies
    centred_energies: Energies
    bias_share: float
    interval: dict[str, tuple[float, float]]
    prediction: Peeled | None
    no_prediction: str
    predicted: Predicted | None
    head: Head
    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    training_counts: FloatArray
    class_names: tuple[str, ...]
    accuracy: float
    class_accuracy: FloatArray
    nearest_accuracy: float
    classifier_cosines: FloatArray
    mean_cosines: FloatArray
    verdict: Verdict
    reason: str
    advice: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """One row per number: its convention, the value, an interval, the prediction."""
        from lawscope.laws.collapse_table import number_table

        return number_table(self)

    def by_class(self) -> pd.DataFrame:
        """One row per class: samples, accuracy, predicted phase, the classifier nearest to it."""
        from lawscope.laws.collapse_table import class_table

        return class_table(self)

    @property
    def phases(self) -> list[str]:
        """Predicted phase of each class; empty strings without a prediction."""
        if self.prediction is None:
            return [""] * len(self.classes)
        by_count = {g.count: g.phase for g in self.prediction.groups}
        return [by_count[n] for n in self.prediction.counts]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the cosine of every pair of classifiers, the largest classes first."""
        ax = given_or_new(ax, SQUARE)
        order = np.argsort(-self.training_counts, kind="stable")
        image = ax.imshow(
            self.classifier_cosines[np.ix_(order, order)], vmin=-1, vmax=1, cmap="RdBu_r"
        )
        ax.figure.colorbar(image, ax=ax, label="cosine between classifiers")
        ax.set_xlabel("class, largest first")
        ax.set_ylabel("class, largest first")
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values; what is not a finite number becomes None."""
        matrices = len(self.classes) <= WRITTEN_CLASSES
        document: dict[str, Any] = finite(
            {
                "law": "collapse",
                "nc1": self.nc1._asdict(),
                "nc2": _nc2(self.nc2),
                "nc3": self.nc3,
                "nc4": self.nc4,
                "interval": {k: list(v) for k, v in self.interval.items()},
                "minority": self.minority.tolist(),
                "minority_cosine": self.minority_cosine._asdict(),
                "energies": self.energies._asdict(),
                "centred_energies": self.centred_energies._asdict(),
                "bias_share": self.bias_share,
                "prediction": self._prediction(),
                "no_prediction": self.no_prediction,
                "head": self.head.to_dict(),
                "classes": self.classes.tolist(),
                "class_names": list(self.class_names),
                "counts": self.counts.tolist(),
                "training_counts": self.training_counts.tolist(),
                "accuracy": self.accuracy,
                "class_accuracy": self.class_accuracy.tolist(),
                "nearest_accuracy": self.nearest_accuracy,
                "classifier_cosines": self.classifier_cosines.tolist() if matrices else None,
                "mean_cosines": self.mean_cosines.tolist() if matrices else None,
                "verdict": self.verdict,
                "reason": self.reason,
                "advice": list(self.advice),
                "settings": dict(self.settings),
                "warnings": list(self.warnings),
            }
        )
        return document

    def __str__(self) -> str:
        return (
            f"neural collapse at '{self.head.name}': {self.verdict}; NC1 {self.nc1.papyan:.3g}, "
            f"NC2 {self.nc2.means.angle_error:.3g}, NC3 {self.nc3:.3g}, NC4 {self.nc4:.2%}; "
            f"minority cosine {self.minority_cosine.classifiers:.3f}"
        )

    def _prediction(self) -> dict[str, Any] | None:
        """What costs nothing more: thresholds are searched for only where advice needs them."""
        if self.prediction is None or self.predicted is None:
            return None
        return {
            "loss": self.prediction.loss,
            "gap": self.prediction.gap,
            "phases": self.phases,
            "nc2": _nc2(self.predicted.nc2),
            "nc3": self.predicted.nc3,
            "minority_cosine": self.predicted.minority_cosine._asdict(),
            "cosines": self.predicted.cosines.tolist()
            if len(self.classes) <= WRITTEN_CLASSES
            else None,
        }


def _nc2(nc2: NC2) -> dict[str, Any]:
    return {name: shape._asdict() for name, shape in nc2._asdict().items()}
