"""How deep is deep enough for a dataset: the answer and how sure it is."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import MISSING, between, count, fixed, number, percent
from lawscope.laws.separation.law import separation
from lawscope.lazy import Axes, pd
from lawscope.progress import Advance, announce, progress
from lawscope.result import Result
from lawscope.section import Curve, Section, Table
from lawscope.training.loop import evaluate
from lawscope.training.recipe import Recipe
from lawscope.training.stack import train_stack
from lawscope.whole_number import is_whole, whole_number
from lawscope.zoo.images.arrays import Dataset, Images, Labels, as_inputs
from lawscope.zoo.images.catalogue import find_data
from lawscope.zoo.images.folder import resize
from lawscope.zoo.images.sampling import balanced
from lawscope.zoo.networks.feedforward import feedforward

Optimum = Literal["found", "deeper may be better", "shallower may do", "cannot be told"]
MOST_LAYERS = 1000
DEPTHS = (2, 4, 6, 8, 10, 12, 16, 20)
FITTED = 0.99
LEVEL = 0.95
SURE = 1.645  # standard deviations: one-sided 95 %
HELD_BACK = 0.2  # of each class, where the data has no test split
Samples = tuple[Tensor, Tensor]

RULE = (
    "The advised depth is the shallowest whose accuracy on held-out samples is not surely below "
    "that of the most accurate depth. The spread over seeds is pooled over depths; a depth is "
    "ruled out by a one-sided t test at 95 % shared out over all comparisons. Depths that may have "
    "the lowest mean of log D at the last hidden layer are found by the same test. There is no "
    "advice when held-out accuracy is not surely above the share of the largest class."
)


@dataclass(frozen=True, eq=False, repr=False)
class DepthAdvice(Result):
    """Final separation and held-out accuracy of networks of several depths, and the depth to use.

    Attributes:
        name: the data.
        depths: layers, classifier included, in rising order.
        values: D of the training samples at the last hidden layer, shape (depths, seeds).
        pearson: r of each network's line, the same shape.
        accuracy: share of training samples classified rightly, the same shape.
        held_out: share of held-out samples classified rightly, the same shape.
        best: the depth with the lowest mean log D.
        candidates: the depths that may have the lowest D, by :data:`RULE`; ``best`` is among them.
        most_accurate: the depth with the highest mean held-out accuracy.
        accurate: the depths that may be the most accurate, by :data:`RULE`.
        interval: 95 % interval of the geometric mean of D at each depth, shape (depths, 2).
        held_out_interval: 95 % interval over seeds of held-out accuracy, the same shape.
        verdict: where the advised depth lies among those tried.
        advice: what to do, and whether D says the same.
        settings: how the networks were trained and what was held out.
    """

    schema: ClassVar[str] = "lawscope.depth_advice/2"
    derived: ClassVar[tuple[str, ...]] = ("enough",)
    name: str
    depths: tuple[int, ...]
    values: FloatArray
    pearson: FloatArray
    accuracy: FloatArray
    held_out: FloatArray
    best: int
    candidates: tuple[int, ...]
    most_accurate: int
    accurate: tuple[int, ...]
    interval: FloatArray
    held_out_interval: FloatArray
    verdict: Optimum
    advice: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def enough(self) -> int:
        """The shallowest depth whose held-out accuracy is not surely below the best."""
        return min(self.accurate)

    def table(self) -> pd.DataFrame:
        """Return one row per depth: D, r, accuracies, intervals, and whether it may be best."""
        return pd.DataFrame(
            {
                "depth": self.depths,
                "D": np.exp(np.log(self.values).mean(axis=1)),
                "low": self.interval[:, 0],
                "high": self.interval[:, 1],
                "r": self.pearson.mean(axis=1),
                "accuracy": self.accuracy.mean(axis=1),
                "held_out": self.held_out.mean(axis=1),
                "held_out_low": self.held_out_interval[:, 0],
                "held_out_high": self.held_out_interval[:, 1],
                "candidate": [depth in self.candidates for depth in self.depths],
                "accurate": [depth in self.accurate for depth in self.depths],
            }
        )

    def section(self) -> Section:
        """Return D and held-out accuracy over depths with their intervals, and the answer."""
        D, share = np.exp(np.log(self.values).mean(axis=1)), self.held_out.mean(axis=1)
        names = {"enough": self.enough, "most accurate": self.most_accurate, "lowest D": self.best}
        rows = [
            [
                str(depth),
                number(D[i]),
                between(self.interval[i].tolist()),
                fixed(self.pearson[i].mean(), 3),
                percent(self.accuracy[i].mean()),
                percent(share[i]),
                between(self.held_out_interval[i].tolist(), percent),
                ", ".join(name for name, named in names.items() if named == depth),
            ]
            for i, depth in enumerate(self.depths)
        ]
        titles = ["layers", "D", "95 %", "r", "training", "held out", "95 %", ""]
        settings, layers = self.settings, list(map(str, self.depths))
        fuzziness, right = "D at the last hidden layer", "held-out accuracy"
        unfit = ", ".join(map(str, settings.get("not_fitted", ())))
        findings = [f"Not every network of {unfit} layers fits its samples; train longer."]
        facts = {
            "seeds": "seeds",
            "samples": "training samples",
            "held_out": "held-out samples",
            "epochs": "epochs",
        }
        return Section(
            title=f"Depth for {self.name}",
            verdict=self.verdict,
            headline=self.advice,
            facts=[f"{settings.get(key, MISSING)} {words}" for key, words in facts.items()],
            charts=[
                Curve(f"{fuzziness} by depth", "D", fuzziness, "layers", layers, D, self.interval),
                Curve(
                    "Held-out accuracy by depth",
                    right,
                    right,
                    "layers",
                    layers,
                    share,
                    self.held_out_interval,
                    log=False,
                ),
            ],
            tables=[Table("Depths", titles, rows, main=True)],
            findings=findings if unfit else [],
            rule=RULE,
            papers=("separation",),
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw D over depths, and held-out accuracy under it.

        Args:
            ax: where to draw D alone; a new figure with both without it.

        Returns:
            The axes of D.
        """
        if ax is not None:
            return super().plot(ax)
        import matplotlib.pyplot as plt

        from lawscope.report.charts.figures import draw

        _, axes = plt.subplots(2, 1, figsize=(5.0, 6.0), layout="constrained")
        for each, chart in zip(axes, self.section().charts, strict=True):
            draw(chart, each)
        first: Axes = axes[0]
        return first

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
    """Apply :data:`RULE` to every network.

    Args:
        name: of the data.
        depths: in rising order.
        numbers: D, r, training and held-out accuracy, shape (4, depths, seeds).
        settings: with ``held_out``, the number of such samples, and ``chance``, the share of the
            largest class among them.
    """
    from scipy.stats import t

    values, pearson, accuracy, held_out = numbers
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
    found = []
    for each in (np.log(values), -held_out):  # of both the lowest is the best
        best, rows, error = find_candidates(each)
        width = float(t.ppf((1 + LEVEL) / 2, each.size - len(each))) * error
        ends = each.mean(axis=1)[:, None] + np.array([-width, width])
        found.append((depths[best], tuple(depths[row] for row in rows), ends))
    (best, candidates, log_ends), (most_accurate, accurate, lost_ends) = found
    shares = dict(zip(depths, held_out.mean(axis=1).tolist(), strict=True))
    verdict, advice = _advise(depths, shares, most_accurate, min(accurate), settings)
    if verdict != "cannot be told":
        lowest = float(np.exp(np.log(values[depths.index(best)]).mean()))
        advice += f" {_compare(min(accurate), best, candidates, lowest)}"
    return DepthAdvice(
        name=name,
        depths=depths,
        values=values,
        pearson=pearson,
        accuracy=accuracy,
        held_out=held_out,
        best=best,
        candidates=candidates,
        most_accurate=most_accurate,
        accurate=accurate,
        interval=np.exp(log_ends),
        held_out_interval=np.clip(-lost_ends[:, ::-1], 0.0, 1.0),
        verdict=verdict,
        advice=advice,
        settings=settings,
    )


def _advise(
    depths: tuple[int, ...],
    shares: dict[int, float],
    most_accurate: int,
    enough: int,
    settings: dict[str, Any],
) -> tuple[Optimum, str]:
    """Return where the advised depth lies, and what to do by held-out accuracy."""
    samples, chance = settings["held_out"], settings["chance"]
    data = f"the {count(samples)} held-out samples"
    # All networks are tested on the same samples, so these do not average out over seeds.
    if shares[most_accurate] <= chance + SURE * math.sqrt(chance * (1 - chance) / samples):
        return "cannot be told", (
            f"Train longer or check the labels: on {data} no depth is surely better than always "
            f"choosing the largest class ({percent(chance)})."
        )
    right = f"{percent(shares[enough])} of {data} right"
    if enough == depths[-1]:
        return "deeper may be better", (
            f"Try more than {enough} layers, the most tried: they get {right}, surely more than "
            "any shallower network."
        )
    first = enough == depths[0]
    use = f"Use {enough} layers{', the fewest tried' * first}: they get {right}"
    if enough == most_accurate:
        use = f"{use}, and no other depth gets more."
    else:
        most = f"{most_accurate} layers, the most accurate ({percent(shares[most_accurate])})"
        use = f"{use}, not surely fewer than {most}."
    return "shallower may do" if first else "found", use


def _compare(enough: int, best: int, candidates: tuple[int, ...], lowest: float) -> str:
    """Say whether D of the training samples asks for the depth that held-out accuracy asks for."""
    if enough < candidates[0]:
        return (
            f"D still falls beyond {enough} layers, to {number(lowest)} at {best}; held-out "
            "accuracy does not surely rise."
        )
    if enough > candidates[-1]:
        return (
            f"D does not: it is lowest at {best} layers ({number(lowest)}), but held-out accuracy "
            f"surely rises up to {enough}."
        )
    if enough == best:
        return f"D agrees: it is lowest there ({number(lowest)})."
    return f"D agrees: it is not surely lower anywhere ({number(lowest)} at {best} layers)."


@checked
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
    """Find how deep a network this data asks for, by held-out accuracy and by data separation.

    Feed-forward networks of several depths are trained as stacks, a stack per depth with a network
    per seed. The advised depth is the shallowest whose held-out accuracy is not surely below the
    best; beside it stands the depth with the lowest D at the last hidden layer (He & Su 2023,
    fig. 3). Held out is the test split of the data or, where it has none, a fifth of each class.

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
        The advised depth (``.enough``), D and accuracy of every network, a table and a plot.

    Raises:
        LawscopeError: a setting out of range, data that cannot be used, a training that diverged
            or ended with a D that has no logarithm.

    Example:
        >>> y = np.arange(40) % 4
        >>> x = np.random.default_rng(0).normal(size=(40, 6)) + 4 * np.eye(4, 6)[y]
        >>> advice = advise_depth((x, y), depths=(2, 3), seeds=2, width=8, epochs=2)
        >>> advice.held_out.shape, advice.enough in (2, 3), advice.settings["held_out"]
        ((2, 2), True, 8)
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
    trained, held, source = _draw_samples(dataset, per_class, size)
    recipes = [Recipe(lr=float(rate), epochs=epochs, seed=seed) for seed in range(seeds)]
    if show is not False and sys.stderr.isatty():
        seconds = _time_epoch(tried[-1], width, trained, held, recipes) * sum(tried) * epochs
        announce(f"training {len(tried) * seeds} networks, about {seconds / 60:.1g} minutes")
    numbers = np.empty((4, len(tried), seeds))
    with progress("training", sum(tried) * epochs, show, unit="epochs") as advance:
        for row, depth in enumerate(tried):
            numbers[:, row] = _train_and_measure(depth, width, trained, held, recipes, advance)
    (x, y), tested = trained, held[1]
    settings = {
        "samples": len(y),
        "held_out": len(tested),
        "held_out_from": source,
        "chance": float(tested.bincount().max() / len(tested)),
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
    bounds = len(tried) > 1 and tried[0] > 1 and tried[-1] <= MOST_LAYERS
    if not bounds or not all(map(is_whole, given)):
        raise LawscopeError(
            f"depths={given or depths!r}: give two or more different whole numbers, each from 2 to "
            f"{MOST_LAYERS}, such as (2, 4, 8)."
        )
    return tuple(tried)


def _draw_samples(
    dataset: Dataset, per_class: int, size: tuple[int, int] | None
) -> tuple[Samples, Samples, str]:
    """Return the samples to train on, those held out, and where the latter come from."""
    x, y = dataset.x_train, dataset.y_train
    available = np.bincount(y)
    held, source = 0 * available, "the test split"
    if not len(dataset.y_test):
        held, source = np.rint(HELD_BACK * available).astype(int), "a fifth of each class"
    counts = np.minimum(available - held, per_class)
    if (counts > 1).sum() < 2:
        raise LawscopeError(f"{dataset.name} needs two classes of two samples or more.")
    if not held.any() and not len(dataset.y_test):
        raise LawscopeError(
            f"{dataset.name} has no test split and too few samples to hold back a fifth of each "
            "class; give three or more per class."
        )
    rows, drawn = balanced(np.arange(len(y)), y, counts.tolist(), seed=0)
    if all((x[rows][drawn == k] == x[rows][drawn == k][:1]).all() for k in np.unique(drawn)):
        raise LawscopeError(
            f"All samples of a class are the same in {dataset.name}, so D = 0 at every layer; use "
            "data that differ within classes."
        )
    x_held, y_held = dataset.x_test, dataset.y_test
    if held.any():
        # Draws are nested: of the larger one, what was not drawn before.
        more, _ = balanced(np.arange(len(y)), y, (counts + held).tolist(), seed=0)
        kept = np.setdiff1d(more, rows)
        x_held, y_held = x[kept], y[kept]
    return _as_tensors(x[rows], drawn, size), _as_tensors(x_held, y_held, size), source


def _as_tensors(x: Images, y: Labels, size: tuple[int, int] | None) -> Samples:
    if size is not None and x.dtype == np.uint8 and x.shape[1:3] != size:
        x = resize(x, size)
    return as_inputs(x), torch.from_numpy(y)


def _time_epoch(
    depth: int, width: int, trained: Samples, held: Samples, recipes: list[Recipe]
) -> float:
    """Return the seconds that a layer takes per epoch; the first epoch does not count."""
    few, ends = [replace(recipe, epochs=3) for recipe in recipes], list[float]()
    _train_and_measure(depth, width, trained, held, few, lambda _: ends.append(perf_counter()))
    return (ends[-1] - ends[0]) / (2 * depth)


def _train_and_measure(
    depth: int,
    width: int,
    trained: Samples,
    held: Samples,
    recipes: list[Recipe],
    advance: Advance,
) -> np.ndarray:
    """Return final D, r, training and held-out accuracy of one stack, shape (4, seeds)."""
    (x, y), models, many = trained, [], len(recipes)
    classes = int(max(y.max(), held[1].max())) + 1
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
    return np.array(
        [
            [m.values[-1] for m in measured],
            [m.fit.pearson for m in measured],
            [end.accuracy for end in ends],
            [evaluate(model, *held).accuracy for model in models],
        ]
    )
