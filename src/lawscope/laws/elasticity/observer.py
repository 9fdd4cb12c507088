"""Gather probes while the data goes through; then take steps on them, compare, judge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from lawscope.capture.functional import NOT_FINITE
from lawscope.capture.outputs import find_logits
from lawscope.capture.session import Session
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError, NotApplicableError
from lawscope.formatting import many, name_some, percent
from lawscope.laws.base import LawObserver
from lawscope.laws.classes import ClassLabels, class_names_of
from lawscope.laws.elasticity.measure import Measured, measure_probes
from lawscope.laws.elasticity.result import Elasticity
from lawscope.laws.elasticity.verdict import judge_elasticity
from lawscope.laws.learned import AnswerCount
from lawscope.laws.probes import Probes
from lawscope.progress import progress
from lawscope.statistics.distributed import gathered, merges_ranks

if TYPE_CHECKING:
    from lawscope.laws.elasticity.law import ElasticitySettings

LEAST_PROBES, MOST_PROBES = 4, 8  # of a class, by default
GRADIENTS = (
    10**9
)  # numbers in the gradients of the logits of all probes, beyond which there are fewer
CURVED = 0.05  # share of the effect of a short step that is not linear: rounding, or a kink


class ElasticityObserver(LawObserver[Elasticity]):
    """Keeps probes in one pass over the data; steps are taken on copies of the weights."""

    def __init__(self, session: Session, settings: ElasticitySettings) -> None:
        self.session, self.settings = session, settings
        self.distributed = merges_ranks(settings.distributed)
        self.begun = time.perf_counter()
        self.labels = ClassLabels(session, "elasticity", settings.class_names, self.distributed)
        self.probes = Probes(settings.probes or MOST_PROBES, settings.classes)
        self.answers = AnswerCount()
        self.seen: Tensor | None = None
        self.done = False

    def wants_pass(self) -> bool:
        return not self.done

    def begin_batch(self, batch: Batch) -> None:
        self.seen = self.labels.read(batch)
        assert batch.labels is not None
        if batch.labels.dim() == 1 and not batch.labels.is_floating_point():
            batch = replace(batch, labels=self.seen)  # in the order of the logits, where it is text
        self.probes.update(batch, self.seen)

    def see_output(self, output: Any) -> None:
        assert self.seen is not None
        logits = find_logits(output)
        if logits is not None and not logits.isfinite().all():
            raise LawscopeError(NOT_FINITE)
        self.answers.update(output, self.seen)

    def end_pass(self) -> None:
        self.answers.finish(self.distributed)
        if self.distributed:
            self.probes, *others = gathered(self.probes)
            for other in others:
                self.probes.merge(other)
        self.done = True

    def result(self, control: Elasticity | None = None) -> Elasticity:
        """Take the steps, compare pairs of the same and of other classes, judge."""
        session, settings = self.session, self.settings
        assert session.loss is not None
        found, few = self._choose()
        samples = [session.fit(sample) for those in found.values() for sample in those]
        positions = np.repeat(np.arange(len(found)), [len(those) for those in found.values()])
        with progress("steps", len(samples), session.show, unit="probe") as advance:
            measured = measure_probes(
                session.model,
                samples,
                positions,
                session.loss,
                labels=list(found),
                rate=settings.rate,
                memory=int(settings.memory),
                advance=advance,
            )
        classes = np.array(sorted(self.probes.counts))
        counts = np.array([self.probes.counts[label] for label in classes.tolist()])
        probed = np.searchsorted(classes, np.array(list(found))[measured.classes])
        verdict, reason = judge_elasticity(measured.relative, measured.excess)
        return Elasticity(
            relative=measured.relative,
            signed=measured.signed,
            kernel=measured.kernel,
            linear=measured.linear,
            excess=measured.excess,
            classwise=measured.classwise,
            classes=classes,
            counts=counts,
            class_names=class_names_of(self.labels.names, classes),
            probed=probed,
            probes=measured.probes,
            accuracy=self.answers.accuracy(classes, counts),
            nonlinearity=measured.nonlinearity,
            one_by_one=measured.one_by_one,
            verdict=verdict,
            reason=reason,
            settings=self._describe(max(map(len, found.values()))),
            warnings=self._warn_about(measured, few),
            control=control,
        )

    def _choose(self) -> tuple[dict[int, Sequence[Batch]], list[int]]:
        """Return the probes of classes with two samples or more, and the other classes."""
        found = self.probes.found()
        few = [label for label, those in found.items() if len(those) < 2]
        enough = {label: those for label, those in found.items() if label not in few}
        shape, seen = self.session.output_shape, len(self.probes.counts)
        width = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        if len(enough) < 2:
            raise NotApplicableError(
                f"The data shows {many(seen, 'class')}, {len(enough)} of them with two different "
                "samples or more; elasticity compares pairs of the same and of other classes, so "
                "give two samples of two classes at least."
            )
        if width < seen and (width, seen) != (1, 2):
            raise NotApplicableError(
                f"The network returns {many(width, 'number')} per sample and the data has "
                f"{many(seen, 'class')}; elasticity needs a logit per class."
            )
        most = self.settings.probes or self._fit_probes(len(enough))
        return {label: those[:most] for label, those in enough.items()}, few

    def _fit_probes(self, classes: int) -> int:
        """Return how many probes of a class the size of the network allows."""
        weights = sum(p.numel() for p in self.session.model.parameters() if p.requires_grad)
        fitting = GRADIENTS // max(1, classes**2 * weights)
        return min(MOST_PROBES, max(LEAST_PROBES, fitting))

    def _warn_about(self, measured: Measured, few: Sequence[int]) -> tuple[str, ...]:
        sentences = []
        if few:
            names = name_some([str(label) for label in few], 4)
            sentences.append(f"Left out, for want of two different samples: class {names}.")
        if measured.still:
            sentences.append(
                f"Left out: {many(measured.still, 'probe')} at which the loss has no gradient."
            )
        if self.settings.rate is None and measured.nonlinearity > CURVED:
            sentences.append(
                f"The effect of a short step is not what the gradients say, by "
                f"{percent(measured.nonlinearity)}: the network seems to compute in single "
                "precision inside, or not to be differentiable; take a longer step (rate=)."
            )
        return tuple(sentences)

    def _describe(self, probes: int) -> dict[str, Any]:
        settings = self.settings
        return {
            "samples": sum(self.probes.counts.values()),
            "mode": "eval",
            "precision": "float64",
            "probes": probes,
            "most_classes": settings.classes,
            "rate": settings.rate or "the limit of short steps",
            "memory_bytes": settings.memory,
            "seconds": round(time.perf_counter() - self.begun, 3),
        }
