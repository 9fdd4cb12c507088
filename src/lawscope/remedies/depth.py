"""How deep is deep enough for a dataset: the answer and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.formatting import MISSING, fixed, number, percent
from lawscope.laws.separation.law import separation
from lawscope.progress import Advance, progress
from lawscope.result import Result
from lawscope.section import Curve, Section, Table
from lawscope.training.recipe import Recipe
from lawscope.training.stack import train_stack
from lawscope.whole_number import is_whole, whole_number
from lawscope.zoo.images.arrays import Dataset, as_inputs
from lawscope.zoo.images.catalogue import find_data
from lawscope.zoo.images.folder import resize
from lawscope.zoo.images.sampling import balanced
from lawscope.zoo.networks.feedforward import feedforward

if TYPE_CHECKING:
    import pandas as pd

Optimum = Literal["interior", "deeper may be better", "shallower may do", "cannot be told"]
DEPTHS = (2, 4, 6, 8, 10, 12, 16, 20)
FITTED = 0.99
LEVEL = 0.95

RULE = (
    "The best depth has the lowest mean of log D at the last hidden layer. The spread over seeds "
    "is pooled over depths; a depth stays a candidate while the best is not surely lower, by a "
    "one-sided t test at 95 % shared out over all comparisons. The optimum is interior when "
    "neither the shallowest nor the deepest network is a candidate."
)


@dataclass(frozen=True, eq=False, repr=False)
class DepthAdvice(Result):
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

    schema: ClassVar[str] = "lawscope.depth_advice/1"
    derived: ClassVar[tuple[str, ...]] = ("enough",)
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
        """Return one row per depth: geometric mean of D with interval, r, accuracy, candidate."""
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

    def section(self) -> Section:
        """Return D over depths with its interval, and the answer."""
        table, rows = self.table(), []
        for depth, D, low, high, r, accuracy, candidate in table.itertuples(index=False):
            numbers = [number(D), f"{number(low)} to {number(high)}", fixed(r, 3)]
            said = "best" if depth == self.best else "may be best" * candidate
            rows.append([str(depth), *numbers, percent(accuracy), said])
        settings, quantity = self.settings, "D at the last hidden layer"
        curve = list(map(str, self.depths)), table["D"].to_numpy(), self.interval
        unfit = ", ".join(map(str, settings.get("not_fitted", ())))
        findings = [f"Not every network of {unfit} layers fits its samples; train longer."]
        return Section(
            title=f"Depth for {self.name}",
            verdict=self.verdict,
            headline=self.advice,
            facts=[f"{settings.get(key, MISSING)} {key}" for key in ("seeds", "samples", "epochs")],
            charts=[Curve(f"{quantity} by depth", "D", quantity, "layers", *curve)],
            tables=[Table("Depths", ["layers", "D", "95 %", "r", "accuracy", ""], rows)],
            findings=findings if unfit else [],
            rule=RULE,
            papers=("separation",),
        )

    def __str__(self) -> str:
        return self.advice


def find_candidates(log_values: FloatArray) -> tuple[int, list[int], float]:
    """Return the row of (M, S) with the lowest mean, those that may have it, and a mean's error.

    Multiple comparisons with the best: row i stays while m_i − m_best ≤ t·s·√(2/S), where s² is the
    variance within rows pooled over all M of them, and t the quantile at 1 − 0.05/(M − 1) of
    Student's t with M(S − 1) degrees of freedom (Bonferroni).
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
    name: str, depths: tuple[int, ...], numbers: FloatArray, settings: dict[str, Any]
) -> DepthAdvice:
    """Apply :data:`RULE` to D, r and accuracy of every network, shape (3, depths, seeds)."""
    from scipy.stats import t

    values, pearson, accuracy = numbers
    for depth, row in zip(depths, values, strict=True):
        if (row == 0).any():
            raise LawscopeError(
                f"With {depth} layers D = 0 at the last hidden layer, since all samples of a class "
                "have the same features; use data that differ within classes, or fewer epochs."
            )
        if not np.isfinite(row).all():
            raise LawscopeError(
                f"With {depth} layers D at the last hidden layer is not a number, since the class "
                "means coincide; try a smaller lr, a larger width, or leave this depth out."
            )
    logs = np.log(values)
    best, rows, error = find_candidates(logs)
    width = float(t.ppf((1 + LEVEL) / 2, logs.size - len(logs))) * error
    means = logs.mean(axis=1)
    candidates = tuple(depths[row] for row in rows)
    verdict, then = _judge(depths, candidates)
    said = f"{depths[best]} layers separate this data best (D = {np.exp(means[best]):.3g} at the"
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
        advice=f"{said} last hidden layer), {then}.",
        settings=settings,
    )


def _judge(depths: tuple[int, ...], candidates: tuple[int, ...]) -> tuple[Optimum, str]:
    """Return the verdict, and how sure the best depth is and what follows."""
    among = f"with 95 % confidence the best is one of {', '.join(map(str, candidates))}"
    end = "the {} is among them"
    if len(candidates) == 1:
        among, end = "surely so among the depths tried", "it is the {}"
    # By whether the shallowest and the deepest network are candidates.
    outcomes: dict[tuple[bool, bool], tuple[Optimum, str]] = {
        (False, False): ("interior", f"{min(candidates)} layers are enough"),
        (False, True): ("deeper may be better", f"{end.format('deepest')}, so try deeper ones"),
        (True, False): (
            "shallower may do",
            f"{end.format('shallowest')}, so depth is not what this data needs",
        ),
        (True, True): ("cannot be told", "add seeds or samples to tell them apart"),
    }
    verdict, then = outcomes[depths[0] in candidates, depths[-1] in candidates]
    return verdict, f"{among}; {then}"


def advise_depth(
    data: str | Path | Dataset | Sequence[Any],
    *,
    depths: Sequence[int] = DEPTHS,
    seeds: int = 3,
    per_class: int = 100,
    size: tuple[int, int] | None = None,
    width: int = 100,
    lr: float = 1e-3,
    epochs: int = 300,
    data_dir: str | Path | None = None,
    show: bool | None = None,
) -> DepthAdvice:
    """Find how deep a network this data asks for, by data separation (He & Su 2023, fig. 3).

    Feed-forward networks of several depths are trained as stacks, a stack per depth with a network
    per seed; the best depth is the one with the lowest D at the last hidden layer. Beyond it, depth
    only makes the optimisation harder.

    Args:
        data: a name, an ``.npz`` file, a folder of images by class, a pair ``(x, y)``, a Dataset.
        depths: layers to try, classifier included.
        seeds: networks per depth; the uncertainty comes from their spread.
        per_class: training samples of a class, fewer where a class has fewer.
        size: height and width to resize images to; the papers use (10, 10).
        width: of the hidden layers.
        lr: first learning rate of Adam.
        epochs: passes over the samples.
        data_dir: where datasets lie.
        show: a progress bar, by default where a terminal is there.

    Returns:
        The best depth, the depths that may be best, a table, a plot and a sentence.

    Raises:
        LawscopeError: a setting out of range, data that cannot be used, a training that diverged
            or ended with a D that has no logarithm.

    Example:
        >>> y = np.arange(40) % 4
        >>> x = np.random.default_rng(0).normal(size=(40, 6)) + 4 * np.eye(4, 6)[y]
        >>> advice = advise_depth((x, y), depths=(2, 3), seeds=2, width=8, epochs=2)
        >>> advice.values.shape, advice.best in (2, 3)
        ((2, 2), True)
    """
    tried = _check_depths(depths)
    seeds = whole_number("seeds", seeds, 2, "shows no spread")
    per_class = whole_number("per_class", per_class, 2, "has no spread within a class")
    width = whole_number("width", width, 2, "leaves no room to separate classes")
    epochs = whole_number("epochs", epochs, 1, "would not train the networks")
    rate: Any = lr
    if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 < float(rate) < math.inf:
        raise LawscopeError(f"lr={rate!r} does not train; give a number above 0, such as 0.001.")
    dataset = find_data(data, data_dir=data_dir, size=size)
    x, y = _draw_samples(dataset, per_class, size)
    recipes = [Recipe(lr=float(rate), epochs=epochs, seed=seed) for seed in range(seeds)]
    numbers = np.empty((3, len(tried), seeds))
    with progress("training", sum(tried) * epochs, show, unit="epochs") as advance:
        for row, depth in enumerate(tried):
            numbers[:, row] = _train_and_measure(depth, width, x, y, recipes, advance)
    settings = {
        "samples": len(y),
        "classes": len(y.unique()),
        "inputs": x.shape[1],
        "width": width,
        "optimizer": recipes[0].optimizer,
        "lr": float(rate),
        "epochs": epochs,
        "seeds": seeds,
        "not_fitted": [d for d, a in zip(tried, numbers[2], strict=True) if a.min() < FITTED],
    }
    return weigh(dataset.name, tried, numbers, settings)


def _check_depths(depths: object) -> tuple[int, ...]:
    """Return the depths in rising order, each once."""
    given = list(depths) if isinstance(depths, Iterable) and not isinstance(depths, str) else []
    tried = sorted({int(depth) for depth in given if is_whole(depth)})
    if len(tried) < 2 or tried[0] < 2 or not all(map(is_whole, given)):
        raise LawscopeError(
            f"depths={given or depths!r}: give two or more different whole numbers, each from 2, "
            "such as (2, 4, 8)."
        )
    return tuple(tried)


def _draw_samples(
    dataset: Dataset, per_class: int, size: tuple[int, int] | None
) -> tuple[Tensor, Tensor]:
    counts = [min(int(n), per_class) for n in np.bincount(dataset.y_train)]
    if sum(count > 1 for count in counts) < 2:
        raise LawscopeError(f"{dataset.name} needs two classes of two samples or more.")
    x, y = balanced(dataset.x_train, dataset.y_train, counts, seed=0)
    if all((x[y == label] == x[y == label][:1]).all() for label in np.unique(y)):
        raise LawscopeError(
            f"All samples of a class are the same in {dataset.name}, so D = 0 at every layer; use "
            "data that differ within classes."
        )
    if size is not None and x.dtype == np.uint8 and x.shape[1:3] != size:
        x = resize(x, size)
    return as_inputs(x), torch.from_numpy(y)


def _train_and_measure(
    depth: int, width: int, x: Tensor, y: Tensor, recipes: list[Recipe], advance: Advance
) -> np.ndarray:
    """Return final D, r and training accuracy of one stack, shape (3, seeds)."""
    models, many, classes = [], len(recipes), int(y.max()) + 1
    with torch.random.fork_rng(devices=[]):
        for recipe in recipes:
            torch.manual_seed(recipe.seed)
            models.append(feedforward(depth, inputs=x.shape[1], width=width, classes=classes))
    ends = train_stack(models, [x] * many, [y] * many, recipes, lambda _: advance(depth))
    if any(math.isnan(end.loss) for end in ends):
        raise LawscopeError(
            f"The training of {depth} layers diverged at lr {recipes[0].lr:g}; try a smaller one."
        )
    measured = [separation(model, (x, y), uncertainty=None) for model in models]
    values = [m.values[-1] for m in measured]
    return np.array([values, [m.fit.pearson for m in measured], [end.accuracy for end in ends]])
