"""Watching the head of a network for neural collapse: statistics in, result out."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lawscope.capture.head import Head, find_head
from lawscope.capture.session import Session
from lawscope.capture.stations import Station
from lawscope.errors import LawscopeError, NotApplicableError
from lawscope.laws.class_names import class_names_of
from lawscope.laws.collapse_advice import advise_collapse
from lawscope.laws.collapse_metrics import (
    NC1,
    NC2,
    Energies,
    bias_share,
    cdnv,
    centred,
    centred_energies,
    cosines,
    minority_cosine,
    self_duality,
    shape_of,
    wilson,
)
from lawscope.laws.collapse_prediction import predict, predicted_numbers
from lawscope.laws.collapse_result import Collapse
from lawscope.laws.collapse_verdict import judge_collapse
from lawscope.laws.line import log_or_nan
from lawscope.laws.registry import law
from lawscope.laws.separation_observer import FOLDS
from lawscope.laws.uncertainty import Replicates, Uncertainty
from lawscope.statistics.class_decisions import ClassDecisions, Decisions
from lawscope.statistics.class_scatter import ClassFuzziness, ClassScatter
from lawscope.statistics.distributed import all_merge, gathered
from lawscope.statistics.features import as_labels
from lawscope.statistics.group_index import GroupIndex
from lawscope.statistics.memory import DEFAULT_MEMORY, Load, Strategy, parse_memory
from lawscope.theory.layer_peeled.groups import check_counts, minority_of

FloatArray = NDArray[np.float64]


@law("collapse")
class CollapseObserver:
    """Gathers class means and scatter of the features that enter the head, then decisions.

    Features are held when they fit the budget; otherwise the data goes through twice. Args are
    those of :func:`collapse`, plus the opened session.
    """

    def __init__(
        self,
        session: Session,
        *,
        head: str | None = None,
        counts: ArrayLike | None = None,
        uncertainty: Uncertainty | None = "jackknife",
        memory: str | int = DEFAULT_MEMORY,
        class_names: Sequence[str] | None = None,
        distributed: bool = False,
    ) -> None:
        self.session, self.class_names, self.distributed = session, class_names, distributed
        self.given = None if counts is None else check_counts(counts)
        self.begun = time.perf_counter()
        self.head = find_head(session, head)
        self.index = GroupIndex(FOLDS if uncertainty else 1)
        self.memory = parse_memory(memory)
        self.scatter = ClassScatter(self._strategy(), index=self.index)
        self.decisions: ClassDecisions | None = None
        self.rows: Tensor | None = None
        self.samples = 0
        self.done = False

    def wanted(self) -> Sequence[Station]:
        """The entrance of the head, until all is known."""
        return [] if self.done else [self.head.station]

    def begin_batch(self, labels: Tensor | None, size: int) -> None:
        """Deal the samples of a batch out to classes and folds."""
        if self.done:
            return
        if labels is None:
            raise LawscopeError(
                "The loader yields no labels; collapse needs batches (x, y) or dicts with 'labels'."
            )
        y = as_labels(labels, size)
        outside = y[(y < 0) | (y >= len(self.head.weight))]
        if len(outside):
            raise NotApplicableError(
                f"Label {int(outside[0])} has no row in the head '{self.head.name}', which has "
                f"{len(self.head.weight)}: labels index the rows of the head, so renumber them "
                "from 0 as in training."
            )
        self.rows = self.index.assign(y)
        self.samples += size if self.decisions is None else 0

    def see(self, station: Station, features: Tensor) -> None:
        """Update the statistics."""
        assert self.rows is not None
        self.scatter.update_rows(features, self.rows)
        if self.decisions is not None:
            self.decisions.update(features, self.rows // self.index.folds)
        elif self.scatter.held_bytes > self.memory:
            raise LawscopeError(
                "The data can be read only once, and its features have outgrown "
                f"memory={self.memory / 1e6:.0f}MB; raise memory=, or pass a list or a DataLoader "
                "that can be read twice."
            )

    def end_pass(self) -> None:
        """Decide by the means of the first pass, on held features or in a second pass."""
        if self.done:
            return
        if self.distributed:
            self._merge_ranks()
        if self.decisions is None:
            self._check()
            self.scatter.next_pass()
            rows = torch.tensor(self.index.classes, device="cpu")
            self.decisions = ClassDecisions(
                self.scatter.class_means(), self.head.weight, self.head.bias, rows
            )
            if self.scatter.strategy == "two-pass":
                return
            self.decisions.update(*self.scatter.held())
        self.done = True

    def result(self) -> Collapse:
        """Put the numbers beside the prediction, judge and advise."""
        assert self.decisions is not None
        part, order = self.scatter.compute(), np.argsort(self.index.classes)
        means = self.scatter.class_means().cpu().numpy()[order]
        found = _sorted(self.decisions.compute(), order)
        weights = self.head.weight.numpy()[part.classes]
        counts = self._training_counts(part)
        minority = minority_of(counts)
        energies = Energies(
            float(np.square(weights).sum(axis=1).mean()),
            float((found.squares / found.counts).mean()),
        )
        nc1 = NC1(part.value, part.value / len(means), cdnv(means, found.spreads / found.counts))
        nc2 = NC2(shape_of(centred(means)), shape_of(weights))
        nc3, missed = self_duality(weights, means), int(found.disagreeing.sum())
        interval = {"nc4": wilson(missed, self.samples), **_interval(part)}
        prediction, no_prediction, told = predict(counts, energies)
        predicted = None if prediction is None else predicted_numbers(prediction, minority)
        angles = cosines(weights)
        verdict, reason = judge_collapse(
            nc1, angles, nc3, missed / self.samples, interval, predicted
        )
        names = class_names_of(self.class_names, part.classes)
        result = Collapse(
            nc1=nc1,
            nc2=nc2,
            nc3=nc3,
            nc4=missed / self.samples,
            minority=minority,
            minority_cosine=minority_cosine(weights, means, minority),
            energies=energies,
            centred_energies=centred_energies(weights, means, found.spreads / found.counts),
            bias_share=self._bias_share(weights, means, part),
            interval=interval,
            prediction=prediction,
            no_prediction=no_prediction,
            predicted=predicted,
            head=_bare(self.head),
            classes=part.classes,
            counts=part.counts,
            training_counts=counts,
            class_names=names,
            accuracy=float(found.correct.sum() / self.samples),
            class_accuracy=found.correct / found.counts,
            nearest_accuracy=float(found.nearest_correct.sum() / self.samples),
            classifier_cosines=angles,
            mean_cosines=cosines(centred(means)),
            verdict=verdict,
            reason=reason,
            advice=(),
            settings=self._settings(),
            warnings=(*told, *self._warnings(part)),
        )
        return dataclasses.replace(result, advice=advise_collapse(result))

    def _merge_ranks(self) -> None:
        self.scatter = all_merge(self.scatter)
        self.index.adopt(self.scatter.classes)
        self.scatter.index = self.index
        if self.decisions is None:
            self.samples = sum(gathered(self.samples))
        else:
            self.decisions = all_merge(self.decisions)

    def _strategy(self) -> Strategy:
        source, width = self.session.source, self.head.weight.shape[1]
        load = Load(self.head.station.name, width, self.head.station.dtype.itemsize)
        groups = len(self.head.weight) * self.index.folds
        if source.read_once:
            return "held"
        if self.distributed:  # ranks must agree whatever their shards look like
            return "two-pass"
        fits = source.samples is not None and load.held_bytes(groups, source.samples) <= self.memory
        return "held" if fits else "two-pass"

    def _check(self) -> None:
        """Is there anything to measure?"""
        classes = self.index.classes
        if len(classes) < 2:
            raise LawscopeError(
                f"All {self.samples} samples have the label {classes[0]}: collapse needs at least "
                "two classes. Pass data with two or more labels."
            )
        if self.samples <= len(classes):
            raise LawscopeError(
                f"{self.samples} samples in {len(classes)} classes: no class has two, so there is "
                "no spread within classes to measure. Pass more samples per class."
            )
        if not self.scatter.finite:
            raise LawscopeError(
                f"The features that enter the head '{self.head.name}' contain NaN or infinite "
                "values; look at the weights and inputs before measuring."
            )

    def _training_counts(self, part: ClassFuzziness) -> FloatArray:
        """The counts given, for the classes that the data shows; those of the data otherwise."""
        if self.given is None:
            return part.counts.astype(np.float64)
        if len(self.given) == len(self.head.weight):
            return np.asarray(self.given[part.classes])
        if len(self.given) == len(part.classes):
            return self.given
        raise LawscopeError(
            f"counts has {len(self.given)} numbers; give one per row of the head "
            f"({len(self.head.weight)}) or one per class of the data ({len(part.classes)})."
        )

    def _warnings(self, part: ClassFuzziness) -> tuple[str, ...]:
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

    def _bias_share(self, weights: FloatArray, means: FloatArray, part: ClassFuzziness) -> float:
        if self.head.bias is None:
            return 0.0
        return bias_share(self.head.bias.numpy()[part.classes], weights, means)

    def _settings(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "passes": 1 if self.scatter.strategy == "held" else 2,
            "mode": self.session.mode,
            "strategy": self.scatter.strategy,
            "folds": self.index.folds,
            "memory_bytes": self.memory,
            "counts": "data" if self.given is None else "given",
            "seconds": round(time.perf_counter() - self.begun, 3),
        }


def _sorted(found: Decisions, order: NDArray[np.int64]) -> Decisions:
    return Decisions(**{name: column[order] for name, column in vars(found).items()})


def _interval(part: ClassFuzziness) -> dict[str, tuple[float, float]]:
    """95 % interval of D on the log scale, where every replicate has a logarithm."""
    curve, curves = log_or_nan(np.array([part.value])), log_or_nan(part.deleted[:, None])
    if len(curves) < 2 or not (np.isfinite(curve).all() and np.isfinite(curves).all()):
        return {}
    low, high = Replicates(curves, "jackknife").interval(lambda c: c, curve)
    return {"D": (float(np.exp(low[0])), float(np.exp(high[0])))}


def _bare(head: Head) -> Head:
    """Without the function that reads its features: results are copied between processes."""
    return dataclasses.replace(head, station=dataclasses.replace(head.station, reduce=None))
