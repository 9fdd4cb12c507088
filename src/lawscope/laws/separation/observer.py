"""Gather class scatter at every station while the data goes through; then fit, judge, advise."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from lawscope.capture.pooling import count_features
from lawscope.capture.session import Session
from lawscope.capture.stations import GRANULARITIES, Station, select
from lawscope.capture.taps import Tap
from lawscope.data.batches import Batch
from lawscope.data.row_hash import hash_samples
from lawscope.errors import LawscopeError
from lawscope.formatting import many, name_some
from lawscope.laws.base import LawObserver
from lawscope.laws.classes import ClassLabels, check_held, class_names_of
from lawscope.laws.learned import AnswerCount
from lawscope.laws.line import fit_line, log_or_nan
from lawscope.laws.population import as_population, estimate_population
from lawscope.laws.separation.result import Separation
from lawscope.laws.separation.verdict import MIN_STATIONS, advise, judge, judge_population
from lawscope.statistics.class_scatter import ClassFuzziness, ClassScatter
from lawscope.statistics.distributed import all_merge, merges_ranks
from lawscope.statistics.folds import GroupIndex
from lawscope.statistics.memory import Load, Plan, Strategy, plan

if TYPE_CHECKING:
    from lawscope.laws.separation.law import SeparationSettings

FOLDS, FEW_FOLDS, MOST_GROUPS = 8, 4, 400


class SeparationObserver(LawObserver[Separation]):
    """Class scatter at every station, in as many passes and rounds as the memory asks for."""

    def __init__(self, session: Session, settings: SeparationSettings) -> None:
        self.session, self.settings = session, settings
        self.distributed = merges_ranks(settings.distributed)
        self.begun = time.perf_counter()
        self.classes = ClassLabels(session, "separation", settings.class_names, self.distributed)
        self.candidates = _find_candidates(session, settings.stations)
        # One tensor may bear several names (a block's output is its last layer's): measured once.
        self.measured: dict[int, Station] = {}
        for station in itertools.chain(*self.candidates.values()):
            self.measured.setdefault(station.operation, station)
        # Not by the first batch: folds would then change with the order of the samples.
        known = session.source.classes
        classes = self._count_scores() if known is None else known
        self.few_classes = classes * FOLDS <= MOST_GROUPS
        folds, self.plan = self._plan_folds(self._expect_classes())
        self.index = GroupIndex(folds)
        self.parts: dict[int, ClassFuzziness] = {}
        self.widths: dict[int, int] = {}
        self.groups: Tensor | None = None
        self.labels: Tensor | None = None
        self.answers = AnswerCount()
        self.round = 0
        self._start_round()

    def taps(self) -> Sequence[Tap]:
        # Those of the round under way.
        return [Tap(self.measured[o], pooling=self.settings.pooling) for o in self.scatter]

    def passes(self) -> int:
        """Return the rounds, each twice where one of its stations needs it."""
        twice = [strategy == "two-pass" for strategy in self.plan.strategies]
        return sum(1 + any(twice[i] for i in members) for members in self.plan.rounds)

    def begin_batch(self, batch: Batch) -> None:
        self.labels = self.classes.read(batch)
        hashes = hash_samples(batch) if self.index.folds > 1 else None
        self.groups = self.index.assign(self.labels, hashes)

    def see(self, tap: Tap, rows: Tensor) -> None:
        assert self.groups is not None
        station, scatter = tap.station, self.scatter[tap.station.operation]
        before = self.widths.setdefault(station.operation, rows.shape[1])
        if before != rows.shape[1]:
            raise LawscopeError(
                f"Station '{station.name}' gives {rows.shape[1]} features in this batch and "
                f"gave {before} before; feed inputs of one size, or choose a pooling that reduces "
                "them to one."
            )
        scatter.update_rows(rows, self.groups)
        if self.session.source.read_once and scatter.strategy == "held":
            held = sum(s.held_bytes for s in self.scatter.values())
            check_held(held, int(self.settings.memory))

    def see_output(self, output: Any) -> None:
        assert self.labels is not None
        if not self.answers.done:
            self.answers.update(output, self.labels)

    def end_pass(self) -> None:
        """Go on to the second pass, the next round, or finish."""
        if not self.scatter:
            return
        self.answers.finish(self.distributed)
        second = any(s.in_second_pass for s in self.scatter.values())
        if self.distributed:
            self._merge_ranks()
        if not second:
            for operation, scatter in sorted(self.scatter.items()):
                if not scatter.finite:
                    raise LawscopeError(
                        f"Station '{self.measured[operation].name}' is the first with NaN or "
                        "infinite activations; look at its weights and inputs (an overflow in half "
                        "precision, a diverged training) before measuring."
                    )
            # Wrong names are an error now, not at the end.
            class_names_of(self.classes.names, np.sort(self.index.classes))
        if not second and any(s.strategy == "two-pass" for s in self.scatter.values()):
            for scatter in self.scatter.values():
                scatter.next_pass()
            return
        for operation, scatter in self.scatter.items():
            self.parts[operation] = scatter.compute()
        self.round += 1
        self._start_round()

    def result(self, control: Separation | None = None) -> Separation:
        """Fit, judge and advise once all passes are done."""
        curves = {
            name: np.array([self.parts[s.operation].value for s in chosen])
            for name, chosen in self.candidates.items()
        }
        fits = {n: fit_line(c) for n, c in curves.items()}
        granularity = next(iter(fits))  # what was asked for comes first
        chosen, fit = self.candidates[granularity], fits[granularity]
        parts = [self.parts[s.operation] for s in chosen]
        values = curves[granularity]
        verdict, reason = judge(fit, log_or_nan(values))
        classes, counts = parts[0].classes, parts[0].counts
        population = None
        if self.settings.whole:
            population = as_population(values, fit, verdict, f"The data is all there is: {reason}")
        elif self.settings.uncertainty is not None:
            population = estimate_population(parts)
            if population is not None:
                population = judge_population(population, values, int(counts.min()))
        result = Separation(
            stations=tuple(s.name for s in chosen),
            layers=tuple(s.layer for s in chosen),
            values=values,
            classwise=np.stack([p.classwise for p in parts]),
            classes=classes,
            counts=counts,
            class_names=class_names_of(self.classes.names, classes),
            dims=tuple(p.dim for p in parts),
            ranks=tuple(p.rank for p in parts),
            fit=fit,
            verdict=verdict,
            reason=reason,
            granularity=granularity,
            granularities=fits,
            settings=self._describe(chosen, int(counts.sum())),
            warnings=self._warn_about(granularity, chosen, parts),
            population=population,
            accuracy=self.answers.accuracy(classes, counts),
            control=control,
        )
        return dataclasses.replace(result, advice=advise(result))

    def _expect_classes(self) -> int:
        """Guess from the labels of the first batch and the width of the output."""
        if (known := self.session.source.classes) is not None:
            return max(2, known)
        first = self.classes.first
        seen = 0 if first is None else len(first.unique())
        return max(2, seen, self._count_scores())

    def _count_scores(self) -> int:
        """Return the width of the output, 0 where it cannot be one score per class."""
        logits = self.session.output_shape
        width = logits[1] if len(logits) == 2 else 0
        # A backbone's output is wider than there are classes; a thousand is a classifier's most.
        return width if width <= 1000 else 0

    def _plan_folds(self, classes: int) -> tuple[int, Plan]:
        """Return how many folds there are and the plan with them.

        Directions cost as much as K·F samples do, so that many classes have fewer folds.
        """
        if not self.settings.uncertainty or self.settings.whole:
            return 1, self._plan_passes(classes)
        if self.settings.folds is not None:
            return self.settings.folds, self._plan_passes(classes * self.settings.folds)
        if self.few_classes:
            with suppress(LawscopeError):  # whether fewer folds fit is seen below
                planned = self._plan_passes(classes * FOLDS)
                if len(planned.rounds) == 1:
                    return FOLDS, planned
        return FEW_FOLDS, self._plan_passes(classes * FEW_FOLDS)

    def _plan_passes(self, groups: int) -> Plan:
        source = self.session.source
        strategy: Strategy | None = self.settings.strategy
        if self.distributed and strategy is None and not source.read_once:
            # Ranks must agree whatever their shards look like.
            strategy = "two-pass"
        loads = []
        for s in self.measured.values():
            pooling = s.choose_pooling(self.settings.pooling)
            features = count_features(pooling, s.shape, s.sequence)
            loads.append(Load(s.name, features, s.dtype.itemsize))
        return plan(
            loads,
            groups=groups,
            samples=source.samples,
            memory=int(self.settings.memory),
            forced=strategy,
            certain=source.classes is not None,
            one_round=self.distributed,
            read_once=source.read_once,
        )

    def _start_round(self) -> None:
        self.scatter: dict[int, ClassScatter] = {}
        if self.round == len(self.plan.rounds):
            return
        operations, weighting = list(self.measured), self.settings.weighting
        for i in self.plan.rounds[self.round]:
            scatter = ClassScatter(self.plan.strategies[i], weighting=weighting, index=self.index)
            self.scatter[operations[i]] = scatter

    def _merge_ranks(self) -> None:
        self.scatter = {operation: all_merge(s) for operation, s in self.scatter.items()}
        self.index.adopt(next(iter(self.scatter.values())).classes)
        for scatter in self.scatter.values():
            scatter.index = self.index

    def _warn_about(
        self, granularity: str, chosen: Sequence[Station], parts: Sequence[ClassFuzziness]
    ) -> tuple[str, ...]:
        sentences = []
        single = parts[0].classes[parts[0].counts == 1]
        if len(single):
            some = ", ".join(map(str, single[:5])) + " …" * (len(single) > 5)
            sentences.append(
                f"A class of a single sample counts in SSb without a spread of its own ({some}): "
                "add samples or leave it out."
            )
        sentences += [_doubt(s.name, part) for s, part in zip(chosen, parts, strict=True)]
        if self.settings.folds is None and self.index.folds == FEW_FOLDS and self.few_classes:
            sentences.append(
                f"Intervals come from {FEW_FOLDS} folds, and are wider for it: {FOLDS} do not fit "
                "the memory; raise memory=, or pass folds=8 to read the data more often."
            )
        skipped = self.session.stations.skipped if granularity == "layers" else ()
        if skipped:
            sentences.append(
                f"Left out: {many(len(skipped), 'layer')} whose activations have no row per sample "
                f"({name_some(skipped, 4)})."
            )
        sentences += self.session.stations.remarks
        unmasked = [s.name for s in chosen if s.operation in self.session.unmasked]
        if unmasked:
            sentences.append(
                f"Padding is pooled with the text at {many(len(unmasked), 'station')} with other "
                f"token positions than the attention mask ({name_some(unmasked, 4)}); pass a "
                "function as pooling= that leaves it out."
            )
        return tuple(filter(None, sentences))

    def _describe(self, chosen: Sequence[Station], samples: int) -> dict[str, Any]:
        own = self.settings
        strategies = dict(zip(self.measured, self.plan.strategies, strict=True))
        unmasked = self.session.unmasked
        poolings = [s.choose_pooling(own.pooling) for s in chosen]
        return {
            "samples": samples,
            "passes": self.session.passes,
            "mode": self.session.mode,
            "strategy": [strategies[s.operation] for s in chosen],
            "pooling": [
                getattr(pooling, "__name__", str(pooling))
                + " (unmasked)" * (s.operation in unmasked)
                for s, pooling in zip(chosen, poolings, strict=True)
            ],
            "selector": own.stations,
            "uncertainty": own.uncertainty,
            "replicates": self.index.folds if own.uncertainty else 0,
            "weighting": own.weighting,
            "memory_bytes": own.memory,
            "distributed": self.distributed,
            "seconds": round(time.perf_counter() - self.begun, 3),
        }


def _find_candidates(
    session: Session, selector: str | Sequence[str]
) -> dict[str, tuple[Station, ...]]:
    """Return every granularity to fit: the one asked for, then others that cost nothing more."""
    if selector == "auto":
        selector = "blocks" if session.stations.residual else "layers"
    name = str(selector) if selector in GRANULARITIES else "chosen"
    chosen = {name: select(session.stations, selector, session.module_names)}
    measured = {s.operation for s in chosen[name]}
    for other in GRANULARITIES if name != "chosen" else ():
        members = session.stations.granularity(other)
        if len(members) >= MIN_STATIONS and {s.operation for s in members} < measured:
            chosen.setdefault(other, members)
    return chosen


def _doubt(name: str, part: ClassFuzziness) -> str:
    """Return what is doubtful about one station, or nothing."""
    at, full = f"At station '{name}'", min(len(part.classes) - 1, part.dim)
    if np.isnan(part.value):
        return (
            f"{at} all class means coincide (a dead layer?): D has no meaning there, and the line "
            "cannot be fitted."
        )
    if part.value == 0:
        return (
            f"{at} every sample sits exactly on its class mean: D is 0 and has no logarithm, so "
            "the line cannot be fitted."
        )
    if part.rank < full:
        return (
            f"{at} the class means span {part.rank} of {full} directions: some classes share a "
            "mean or lie on a line."
        )
    return ""
