"""Gather what neural collapse is about at the head; then compare, judge, advise."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lawscope.arrays import FloatArray, IntArray
from lawscope.capture.head import find_head
from lawscope.capture.session import Session
from lawscope.capture.taps import Tap
from lawscope.data.batches import Batch
from lawscope.data.row_hash import hash_samples
from lawscope.errors import LawscopeError, LawscopeWarning, NotApplicableError
from lawscope.laws.base import LawObserver
from lawscope.laws.classes import ClassLabels, check_held, class_names_of
from lawscope.laws.collapse import metrics
from lawscope.laws.collapse.result import Collapse, HeadFacts, Predicted
from lawscope.laws.collapse.verdict import advise_collapse, judge_collapse
from lawscope.laws.population import estimate_population
from lawscope.statistics.class_scatter import ClassFuzziness, ClassScatter
from lawscope.statistics.distributed import all_merge, gathered, merges_ranks
from lawscope.statistics.folds import GroupIndex
from lawscope.statistics.memory import Load, Strategy
from lawscope.statistics.nearest_mean import Decisions, NearestMean
from lawscope.theory.layer_peeled.groups import find_minority
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import Peeled

if TYPE_CHECKING:
    from lawscope.laws.collapse.law import CollapseSettings

FOLDS = 8


class CollapseObserver(LawObserver[Collapse]):
    """Class means and scatter of the features that enter the head, then decisions.

    Features are held when they fit the budget; otherwise the data goes through twice.
    """

    def __init__(self, session: Session, settings: CollapseSettings) -> None:
        self.session, self.settings = session, settings
        self.distributed = merges_ranks(settings.distributed)
        self.begun = time.perf_counter()
        self.classes = ClassLabels(session, "collapse", settings.class_names, self.distributed)
        self.head = find_head(session, settings.head)
        self._check_order()
        self.index = GroupIndex(FOLDS if settings.uncertainty and not settings.whole else 1)
        self.scatter = ClassScatter(self._choose_strategy(), index=self.index)
        self.decisions: NearestMean | None = None
        self.groups: Tensor | None = None
        self.samples, self.done = 0, False

    def taps(self) -> Sequence[Tap]:
        return [] if self.done else [self.head.tap]

    def passes(self) -> int:
        """Return one where features are held."""
        return 1 if self.scatter.strategy == "held" else 2

    def begin_batch(self, batch: Batch) -> None:
        y = self.classes.read(batch)
        outside = y[(y < 0) | (y >= len(self.head.weight))]
        if len(outside):
            raise NotApplicableError(
                f"Label {int(outside[0])} has no row in the head '{self.head.name}', which has "
                f"{len(self.head.weight)}: labels index the rows of the head, so renumber them "
                "from 0 as in training."
            )
        self.groups = self.index.assign(y, hash_samples(batch) if self.index.folds > 1 else None)
        self.samples += batch.size if self.decisions is None else 0

    def see(self, tap: Tap, rows: Tensor) -> None:
        assert self.groups is not None
        self.scatter.update_rows(rows, self.groups)
        if self.decisions is None:
            check_held(self.scatter.held_bytes, int(self.settings.memory))
        else:
            self.decisions.update(rows, self.groups // self.index.folds)

    def end_pass(self) -> None:
        """Decide by the means of the first pass, on held features or in a second pass."""
        if self.distributed:
            self._merge_ranks()
        if self.decisions is None:
            if not self.scatter.finite:
                raise LawscopeError(
                    f"The features that enter the head '{self.head.name}' contain NaN or infinite "
                    "values; look at the weights and inputs before measuring."
                )
            self.scatter.next_pass()
            rows = torch.tensor(self.index.classes, device="cpu")
            means = self.scatter.class_means()
            self.decisions = NearestMean(means, self.head.weight, self.head.bias, rows)
            if self.scatter.strategy == "two-pass":
                return
            self.decisions.update(*self.scatter.held())
        self.done = True

    def result(self, control: Collapse | None = None) -> Collapse:
        """Put the numbers beside the prediction, judge and advise."""
        from scipy.stats import binomtest

        assert self.decisions is not None
        head, (rows, width) = self.head, self.head.weight.shape
        part, order = self.scatter.compute(), np.argsort(self.index.classes)
        means = self.scatter.class_means().cpu().numpy()[order]
        found = self.decisions.compute()
        found = Decisions(**{name: column[order] for name, column in vars(found).items()})
        variances = found.spreads / found.counts
        weights = head.weight.numpy()[part.classes]
        counts = self._training_counts(part)
        minority = find_minority(counts)
        if self.settings.counts is None and not metrics.differ_surely(counts):
            minority = np.arange(len(counts))
        squares = np.square(weights).sum(axis=1), found.squares / found.counts
        energies = metrics.Energies(*(float(each.mean()) for each in squares))
        nc1 = metrics.NC1(part.value, part.value / len(means), metrics.cdnv(means, variances))
        nc2 = metrics.NC2(metrics.shape_of(metrics.centred(means)), metrics.shape_of(weights))
        nc3, missed = metrics.self_duality(weights, means), int(found.disagreeing.sum())
        nc4 = missed / self.samples
        wilson = binomtest(missed, self.samples).proportion_ci(method="wilson")
        interval = {"nc4": (float(wilson.low), float(wilson.high))}
        prediction, no_prediction, doubts = predict(counts, energies)
        predicted = None if prediction is None else predicted_numbers(prediction, minority)
        angles = metrics.cosines(weights)
        verdict, reason = judge_collapse(nc1, angles, nc3, nc4, interval, predicted)
        bias = None if head.bias is None else head.bias.numpy()[part.classes]
        result = Collapse(
            nc1=nc1,
            nc2=nc2,
            nc3=nc3,
            nc4=nc4,
            minority=minority,
            minority_cosine=metrics.minority_cosine(weights, means, minority),
            energies=energies,
            centred_energies=metrics.centred_energies(weights, means, variances),
            bias_share=0.0 if bias is None else metrics.bias_share(bias, weights, means),
            interval=interval,
            population=estimate_population([part]) if self.index.folds > 1 else None,
            prediction=prediction,
            no_prediction=no_prediction,
            predicted=predicted,
            head=HeadFacts(
                *(head.name, head.kind, rows, width, bias is not None),
                *(head.scale, head.after, head.positions),
            ),
            classes=part.classes,
            counts=part.counts,
            training_counts=counts,
            class_names=class_names_of(self.classes.names, part.classes),
            accuracy=float(found.correct.sum() / self.samples),
            class_accuracy=found.correct / found.counts,
            nearest_accuracy=float(found.nearest_correct.sum() / self.samples),
            classifier_cosines=angles,
            mean_cosines=metrics.cosines(metrics.centred(means)),
            verdict=verdict,
            reason=reason,
            settings=self._describe(),
            warnings=(*doubts, *self._warn_about(part)),
            control=control,
        )
        return dataclasses.replace(result, advice=advise_collapse(result))

    def _check_order(self) -> None:
        """Refuse text of which it is not known to which rows of the head it belongs."""
        names, rows = self.session.source.label_names, len(self.head.weight)
        if names and len(self.classes.names or ()) != rows:
            raise NotApplicableError(
                f"The labels are text of {len(names)} classes, and the head '{self.head.name}' has "
                f"{rows} rows, so that it is not known which is whose; give class_names= in the "
                "order of the rows."
            )

    def _merge_ranks(self) -> None:
        self.scatter = all_merge(self.scatter)
        self.index.adopt(self.scatter.classes)
        self.scatter.index = self.index
        if self.decisions is None:
            self.samples = sum(gathered(self.samples))
        else:
            self.decisions = all_merge(self.decisions)

    def _choose_strategy(self) -> Strategy:
        source, station = self.session.source, self.head.tap.station
        if source.read_once:
            return "held"
        # Ranks must agree whatever their shards look like.
        if self.distributed or source.samples is None:
            return "two-pass"
        rows, width = self.head.weight.shape
        load = Load(station.name, width, station.dtype.itemsize)
        held = load.held_bytes(rows * self.index.folds, source.samples)
        return "held" if held <= int(self.settings.memory) else "two-pass"

    def _training_counts(self, part: ClassFuzziness) -> FloatArray:
        """Return the counts given, for the classes that the data shows; else those of the data."""
        given = self.settings.counts
        if given is None:
            return part.counts.astype(np.float64)
        assert isinstance(given, np.ndarray)
        if len(given) == len(self.head.weight):
            return np.asarray(given[part.classes])
        if len(given) == len(part.classes):
            return given
        raise LawscopeError(
            f"counts has {len(given)} numbers; give one per row of the head "
            f"({len(self.head.weight)}) or one per class of the data ({len(part.classes)})."
        )

    def _warn_about(self, part: ClassFuzziness) -> tuple[str, ...]:
        sentences = []
        unseen = len(self.head.weight) - len(part.classes)
        if unseen:
            sentences.append(
                f"{unseen} of {len(self.head.weight)} rows of the head '{self.head.name}' belong "
                f"to classes the data never shows; they are left out, K is {len(part.classes)}."
            )
        if np.isnan(part.value):
            sentences.append(
                f"All class means that enter the head '{self.head.name}' coincide (a dead layer?): "
                "NC1 has no meaning there."
            )
        return tuple(sentences)

    def _describe(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "passes": 1 if self.scatter.strategy == "held" else 2,
            "mode": self.session.mode,
            "strategy": self.scatter.strategy,
            "folds": self.index.folds,
            "memory_bytes": self.settings.memory,
            "counts": "data" if self.settings.counts is None else "given",
            "seconds": round(time.perf_counter() - self.begun, 3),
        }


def predict(counts: FloatArray, energies: metrics.Energies) -> tuple[Peeled | None, str, list[str]]:
    """Return the Layer-Peeled Model's prediction, or None and why, and what the solver warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LawscopeWarning)
        try:
            return peel(counts, *energies), "", [f"Prediction: {w.message}" for w in caught]
        except LawscopeError as error:
            return None, str(error), []


def predicted_numbers(prediction: Peeled, minority: IntArray) -> Predicted:
    """Return NC2, NC3 and the minority cosines at the optimum, as measured on a network."""
    weights, features = prediction.weights(), prediction.features()
    return Predicted(
        metrics.NC2(metrics.shape_of(metrics.centred(features)), metrics.shape_of(weights)),
        metrics.self_duality(weights, features),
        metrics.minority_cosine(weights, features, minority),
        prediction.cosines,
    )
