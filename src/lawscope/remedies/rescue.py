"""A story with numbers: rare classes merge, oversampling at the model's rate brings them back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lawscope.arrays import FloatArray, IntArray
from lawscope.errors import LawscopeError
from lawscope.formatting import count, fixed, number, percent
from lawscope.laws.collapse.law import collapse
from lawscope.laws.collapse.result import Collapse
from lawscope.lazy import pd
from lawscope.progress import progress
from lawscope.remedies.oversampling import oversampling_weights
from lawscope.result import Result
from lawscope.section import Bars, HeatMap, Section, Table
from lawscope.training.loop import evaluate
from lawscope.training.recipe import Recipe
from lawscope.training.stack import train_stack
from lawscope.whole_number import whole_number
from lawscope.zoo.images.arrays import as_inputs
from lawscope.zoo.images.catalogue import EMBEDDED, load
from lawscope.zoo.images.sampling import balanced
from lawscope.zoo.networks.feedforward import feedforward

SHARED = 0.9  # classifiers at least this close are one
AS_IT_IS, AT_THE_RATE, EQUAL = "as it is", "at the model's rate", "equal shares"
Samples = tuple[Tensor, Tensor]


class Attempt(NamedTuple):
    """Networks trained with one sampling of the rare classes, one number per seed."""

    name: str
    rate: float  # how often a rare class is drawn
    rare: tuple[float, ...]  # share of held-out samples of rare classes that are right
    overall: tuple[float, ...]  # the same of all held-out samples
    cosine: tuple[float, ...]  # mean between classifiers of two rare classes


@dataclass(frozen=True, eq=False, repr=False)
class Rescue(Result):
    """Rare classes before and after oversampling.

    Attributes:
        class_names: of all classes.
        counts: training samples per class, shape (K,).
        rare: the rare classes.
        merged: for each seed, the classes that share a classifier with another one before.
        least_rate: of the Layer-Peeled Model at the measured energies.
        attempts: the networks as they are, then oversampled; with one entry where neither the
            networks nor the model ask for it.
        cosines: between the classifiers of the first seed's network, one matrix per attempt.
        settings: how the networks were trained and what was held out.
    """

    schema: ClassVar[str] = "lawscope.rescue/1"
    class_names: tuple[str, ...]
    counts: IntArray
    rare: IntArray
    merged: tuple[tuple[int, ...], ...]
    least_rate: float
    attempts: tuple[Attempt, ...]
    cosines: FloatArray
    settings: dict[str, Any] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """Return one row per attempt and seed."""
        rows = [
            (each.name, each.rate, seed, *numbers)
            for each in self.attempts
            for seed, numbers in enumerate(zip(*each[2:], strict=True))
        ]
        columns = ["sampling", "rate", "seed", "rare", "overall", "cosine"]
        return pd.DataFrame(rows, columns=columns)

    def section(self) -> Section:
        """Return accuracy for every sampling, seed by seed, and the classifiers' cosines."""
        rows = [
            [
                each.name,
                number(each.rate),
                _with_mean(each.rare),
                _with_mean(each.overall),
                fixed(fmean(each.cosine), 2),
            ]
            for each in self.attempts
        ]
        titles = ["sampling", "rate", "rare classes (seeds)", "all classes (seeds)", "cosine"]
        names, shares = [a.name for a in self.attempts], [fmean(a.rare) for a in self.attempts]
        bars = Bars(
            f"Held-out accuracy of the {len(self.rare)} rare classes, mean over seeds",
            names,
            np.array(shares),
            list(map(percent, shares)),
        )
        labels = list(self.class_names)
        maps = [
            HeatMap(f"Cosine between classifiers, {name}", labels, labels, cosines, -1, 1, "cosine")
            for name, cosines in zip(names, self.cosines, strict=True)
        ]
        return Section(
            title="Rare classes, before and after",
            headline=str(self),
            facts=[f"{count(value)} {key}" for key, value in self.settings["facts"].items()],
            charts=[bars, *maps],
            tables=[Table("Held-out accuracy: mean (each seed)", titles, rows, main=True)],
            papers=("layer_peeled",),
            settings=[(key, str(value)) for key, value in self.settings["training"].items()],
        )

    def __str__(self) -> str:
        before, *after = self.attempts
        start, whole = fmean(before.rare), fmean(before.overall)
        if not after:
            return (
                "no classes share a classifier and the model expects none to: the rare classes "
                f"are {percent(start)} right as they are, and nothing was oversampled"
            )
        first = after[0]
        return (
            f"sampling the rare classes {number(first.rate)} times as often took their held-out "
            f"accuracy from {percent(start)} to {percent(fmean(first.rare))} and that of all "
            f"classes from {percent(whole)} to {percent(fmean(first.overall))}, in the mean over "
            f"{len(first.rare)} seeds"
        )


def rescue_rare_classes(
    *,
    common: int = 500,
    few: int = 5,
    rare_classes: int = 5,
    depth: int = 4,
    lr: float = 0.1,
    weight_decay: float = 2e-2,
    epochs: int = 100,
    seeds: int = 3,
    tell: Callable[[str], None] = lambda sentence: None,
    show: bool | None = None,
) -> Rescue:
    """Train on imbalanced embedded data, measure collapse, oversample as it says, train again.

    Args:
        common: training images of a common class, at most 500.
        few: training images of a rare class.
        rare_classes: how many of the ten classes are rare, the last ones.
        depth: layers, classifier included.
        lr: first learning rate, of SGD with momentum.
        weight_decay: strong decay keeps the energies small, so that rare classes merge.
        epochs: passes over the training data.
        seeds: of images, weights and batches; one network each.
        tell: is given every step in a sentence.
        show: a progress bar, by default where a terminal is there.

    Returns:
        Held-out accuracy before and after.

    Raises:
        LawscopeError: a setting out of range, or a training that diverged.
    """
    data = load(EMBEDDED)
    classes, seeds = len(data.class_names), whole_number("seeds", seeds, 1, "trains nothing")
    if not (1 <= few < common <= 500 and 2 <= rare_classes < classes):
        raise LawscopeError(
            f"{rare_classes} rare classes of {few} samples beside {common} are not an imbalance to "
            f"show; take 2 to {classes - 1} rare classes and 1 ≤ few < common ≤ 500."
        )
    rare = np.arange(classes - rare_classes, classes)
    counts = np.full(classes, common)
    counts[rare] = few
    held = as_inputs(data.x_test), torch.from_numpy(data.y_test)
    draws = [balanced(data.x_train, data.y_train, counts.tolist(), seed) for seed in range(seeds)]
    sets = [(as_inputs(x), torch.from_numpy(y)) for x, y in draws]
    recipe = Recipe("momentum", lr, epochs, weight_decay=weight_decay)

    def attempt(name: str, rate: float) -> tuple[Attempt, list[Collapse]]:
        """Train and measure one network per seed, the rare classes drawn ``rate`` times."""
        often = "on the data" if rate == 1 else f"with rare images drawn {number(rate)} times,"
        tell(f"Training {seeds} networks {often} {name}.")
        drawn = [_oversample(samples, rare, rate) for samples in sets]
        models = _train(drawn, depth, classes, recipe, show)
        found = [collapse(m, [each], counts=counts) for m, each in zip(models, sets, strict=True)]
        of_rare = torch.isin(held[1], torch.from_numpy(rare))
        parts = (held[0][of_rare], held[1][of_rare]), held
        right, overall = (tuple(evaluate(m, *part).accuracy for m in models) for part in parts)
        cosine = tuple(_mean_cosine(each.classifier_cosines[np.ix_(rare, rare)]) for each in found)
        tell(f"  Held out: rare classes {_with_mean(right)}, all classes {_with_mean(overall)}.")
        return Attempt(name, rate, right, overall, cosine), found

    names = data.class_names
    tell(
        f"Fashion-MNIST 10×10: {common} training images each of {_join(names[: rare[0]])}, but "
        f"{few} each of {_join(names[rare[0] :])}; {count(len(held[1]))} held-out images."
    )
    before, found = attempt(AS_IT_IS, 1.0)
    merged = tuple(_merged(each.classifier_cosines) for each in found)
    for seed, group in enumerate(merged):
        said = _join([names[k] for k in group]) if group else "no classes"
        tell(f"  Seed {seed}: {said} share a classifier (cosine {before.cosine[seed]:.2f}).")
    attempts, measured = [before], [found]
    # A mean that all features share separates nothing, so its energy is left out.
    E_W, E_H = np.mean([each.centred_energies for each in found], axis=0)
    plan = oversampling_weights(counts, E_W, E_H)
    rate = float(plan.rates.max())
    energies = f"E_W = {E_W:.3g} and E_H = {E_H:.3g}, without the mean that all features share"
    tell(f"  Energies: {energies}.")
    if plan.needed:
        bar = f"merges classes below {few * rate:.3g} samples"
        tell(f"  The Layer-Peeled Model {bar}: sample the rare ones {rate:.3g} times as often.")
    else:
        tell("  The Layer-Peeled Model keeps these classes apart without oversampling.")
    ways = {AT_THE_RATE: rate} if plan.needed else {}
    if plan.needed or any(merged):
        ways[EQUAL] = common / few
    for name, often in ways.items():
        done, after = attempt(name, often)
        attempts.append(done)
        measured.append(after)
    facts = {"training samples": int(counts.sum()), "held-out samples": len(held[1])}
    trained = {
        "network": f"{depth} layers",
        "optimizer": f"{recipe.optimizer}, lr {lr:g}, weight decay {weight_decay:g}",
        "epochs": epochs,
        "seeds": seeds,
    }
    return Rescue(
        class_names=tuple(names),
        counts=counts,
        rare=rare,
        merged=merged,
        least_rate=rate,
        attempts=tuple(attempts),
        cosines=np.stack([each[0].classifier_cosines for each in measured]),
        settings={"facts": facts, "training": trained, "energies": [float(E_W), float(E_H)]},
    )


def _train(
    sets: list[Samples], depth: int, classes: int, recipe: Recipe, show: bool | None
) -> list[nn.Module]:
    """Return one network per training set, seeded by its place."""
    models: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        for seed, (x, _) in enumerate(sets):
            torch.manual_seed(seed)
            models.append(feedforward(depth, inputs=x.shape[1], classes=classes))
    recipes = [replace(recipe, seed=seed) for seed in range(len(sets))]
    xs, ys = map(list, zip(*sets, strict=True))
    with progress("training", recipe.epochs, show, unit="epoch") as advance:
        ends = train_stack(models, xs, ys, recipes, lambda _: advance(1))
    if any(math.isnan(end.loss) for end in ends):
        raise LawscopeError(f"The training diverged at lr {recipe.lr:g}; try a smaller one.")
    return models


def _oversample(samples: Samples, rare: IntArray, rate: float) -> Samples:
    """Return the samples with those of rare classes repeated in turn, ``rate`` times in all."""
    x, y = samples
    rows = [torch.arange(len(y))]
    for label in rare.tolist():
        of_class = np.flatnonzero(y.numpy() == label)
        drawn = np.resize(of_class, math.ceil(rate * len(of_class)))
        rows.append(torch.from_numpy(drawn[len(of_class) :]))
    order = torch.cat(rows)
    return x[order], y[order]


def _merged(cosines: FloatArray) -> tuple[int, ...]:
    """Return the classes whose classifier is that of another class too."""
    others = np.nan_to_num(cosines, nan=-1.0) - 2 * np.eye(len(cosines))
    return tuple(np.flatnonzero(others.max(axis=1) >= SHARED).tolist())


def _mean_cosine(cosines: FloatArray) -> float:
    return float(cosines[~np.eye(len(cosines), dtype=bool)].mean())


def _with_mean(shares: tuple[float, ...]) -> str:
    each = ", ".join(f"{100 * share:.1f}" for share in shares)
    return f"{100 * fmean(shares):.1f} % ({each})"


def _join(names: Any) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
