"""Watching a network for the law of data separation: statistics in, result out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lawscope.capture.pooling import Pooling
from lawscope.capture.select import GRANULARITIES, select
from lawscope.capture.session import Session
from lawscope.capture.stations import Station
from lawscope.errors import LawscopeError
from lawscope.laws.advice import advise
from lawscope.laws.line import LineFit, fit_line, log_or_nan
from lawscope.laws.registry import law
from lawscope.laws.separation_result import Separation
from lawscope.laws.uncertainty import Replicates, Uncertainty
from lawscope.laws.verdict import MIN_STATIONS, judge
from lawscope.statistics.between import Weighting
from lawscope.statistics.bootstrap import BOOTSTRAPS, bootstrap
from lawscope.statistics.class_scatter import ClassFuzziness, ClassScatter
from lawscope.statistics.distributed import all_merge
from lawscope.statistics.features import as_labels
from lawscope.statistics.group_index import GroupIndex
from lawscope.statistics.memory import DEFAULT_MEMORY, Load, Plan, Strategy, parse_memory, plan

FloatArray = NDArray[np.float64]
FOLDS = 8


@law("separation")
class SeparationObserver:
    """Gathers class scatter at every station while the data goes through.

    Args are those of :func:`separation`, plus the opened session.
    """

    def __init__(
        self,
        session: Session,
        *,
        stations: str | Sequence[str] = "layers",
        uncertainty: Uncertainty | None = "jackknife",
        memory: str | int = DEFAULT_MEMORY,
        weighting: Weighting = "count",
        strategy: Strategy | None = None,
        folds: int = FOLDS,
        class_names: Sequence[str] | None = None,
        distributed: bool = False,
    ) -> None:
        _check_settings(uncertainty, folds, weighting)
        self.session, self.selector, self.uncertainty = session, stations, uncertainty
        self.class_names, self.distributed, self.weighting = class_names, distributed, weighting
        self.begun = time.perf_counter()
        self.candidates = _candidates(session, stations)
        # One tensor may bear several names (a block's output is its last layer's): measured once.
        self.measured: dict[int, Station] = {}
        for chosen in self.candidates.values():
            for station in chosen:
                self.measured.setdefault(station.operation, station)
        classes = self._expected_classes()
        folds = folds if uncertainty == "jackknife" else 1
        self.index = GroupIndex(folds)
        self.memory = parse_memory(memory)
        self.plan = self._plan(strategy, classes * folds)
        self.parts: dict[int, ClassFuzziness] = {}
        self.resamples: dict[int, FloatArray] = {}
        self.rows: Tensor | None = None
        self.widths: dict[int, int] = {}
        self.round = 0
        self._start_round()

    def wanted(self) -> Sequence[Station]:
        """Stations of the round under way."""
        return [s for s in self.measured.values() if s.operation in self.scatter]

    def begin_batch(self, labels: Tensor | None, size: int) -> None:
        """Deal the samples of a batch out to classes and folds."""
        if labels is None:
            raise LawscopeError(
                "The loader yields no labels; separation needs batches (x, y) or dicts with "
                "'labels'."
            )
        self.rows = self.index.assign(as_labels(labels, size))

    def see(self, station: Station, features: Tensor) -> None:
        """Update the station's statistic."""
        assert self.rows is not None
        scatter = self.scatter[station.operation]
        before = self.widths.setdefault(station.operation, features.shape[1])
        if before != features.shape[1]:
            raise LawscopeError(
                f"Station '{station.name}' gives {features.shape[1]} features in this batch and "
                f"gave {before} before; feed inputs of one size, or choose a pooling that reduces "
                "them to one."
            )
        scatter.update_rows(features, self.rows)
        if self.session.source.read_once and scatter.strategy == "held":
            self._watch_budget()

    def end_pass(self) -> None:
        """Go on to the second pass, the next round, or finish."""
        if not self.scatter:
            return
        second = any(s.in_second_pass for s in self.scatter.values())
        if self.distributed:
            self._merge_ranks()
        if not second:
            self._check_finite()
        if not second and any(s.strategy == "two-pass" for s in self.scatter.values()):
            for scatter in self.scatter.values():
                scatter.next_pass()
            return
        for operation, scatter in self.scatter.items():
            self.parts[operation] = scatter.compute()
            if self.uncertainty == "bootstrap":
                self.resamples[operation] = bootstrap(*scatter.held(), self.weighting)
        self.round += 1
        self._start_round()

    def result(self) -> Separation:
        """Fit, judge and advise once all passes are done."""
        fits = {name: self._fit(chosen) for name, chosen in self.candidates.items()}
        granularity = self._granularity(fits)
        chosen = self.candidates[granularity]
        parts = [self.parts[s.operation] for s in chosen]
        values = np.array([p.value for p in parts])
        curve, replicates, fit = log_or_nan(values), self._replicates(chosen), fits[granularity]
        interval = None
        if replicates is not None:
            low, high = replicates.interval(lambda c: c, curve)
            interval = np.exp(np.stack([low, high], axis=1))
        verdict, reason = judge(fit, curve, replicates)
        names = tuple(s.name for s in chosen)
        classes, counts = parts[0].classes, parts[0].counts
        return Separation(
            stations=names,
            values=values,
            interval=interval,
            classwise=np.stack([p.classwise for p in parts]),
            classes=classes,
            counts=counts,
            class_names=class_names_of(self.class_names, classes),
            dims=tuple(p.dim for p in parts),
            ranks=tuple(p.rank for p in parts),
            fit=fit,
            verdict=verdict,
            reason=reason,
            advice=advise(
                verdict=verdict,
                granularity=granularity,
                stations=names,
                curve=curve,
                fit=fit,
                replicates=replicates,
                granularities=fits,
                counts=counts,
            ),
            granularity=granularity,
            granularities=fits,
            settings=self._settings(chosen, int(counts.sum())),
            warnings=_warnings(names, parts) + self._left_out(granularity),
            replicates=replicates,
        )

    def _expected_classes(self) -> int:
        """A guess before the data is seen: labels of the first batch, width of the output."""
        known = self.session.source.classes
        if known is not None:
            return max(2, known)
        first, logits = self.session.example.labels, self.session.output_shape
        seen = 0 if first is None else len(first.unique())
        width = logits[1] if len(logits) == 2 else 0
        # A backbone's output is wider than there are classes; a thousand is a classifier's most.
        return max(2, seen, width if width <= 1000 else 0)

    def _plan(self, strategy: Strategy | None, groups: int) -> Plan:
        if self.distributed and strategy is None and not self.session.source.read_once:
            # Ranks must agree whatever their shards look like.
            strategy = "two-pass"
        if self.uncertainty == "bootstrap":
            if strategy not in (None, "held"):
                raise LawscopeError(
                    f"uncertainty='bootstrap' resamples held features, strategy={strategy!r} "
                    "does not hold them; use uncertainty='jackknife'."
                )
            strategy = "held"
        return plan(
            [
                Load(s.name, _dim(s, self.session.pooling), s.dtype.itemsize)
                for s in self.measured.values()
            ],
            groups=groups,
            samples=self.session.source.samples,
            memory=self.memory,
            forced=strategy,
            certain=self.session.source.classes is not None,
            one_round=self.distributed,
            read_once=self.session.source.read_once,
        )

    def _start_round(self) -> None:
        self.scatter: dict[int, ClassScatter] = {}
        if self.round == len(self.plan.rounds):
            return
        self.index.restart()
        operations = list(self.measured)
        for i in self.plan.rounds[self.round]:
            self.scatter[operations[i]] = ClassScatter(
                self.plan.strategies[i],
                weighting=self.weighting,
                index=self.index,
                expected=self.session.source.samples,
            )

    def _watch_budget(self) -> None:
        held = sum(s.held_bytes for s in self.scatter.values())
        if held > self.memory:
            raise LawscopeError(
                "The data can be read only once, and its features have outgrown "
                f"memory={self.memory / 1e6:.0f}MB; raise memory=, or pass a list or a DataLoader "
                "that can be read twice."
            )

    def _check_finite(self) -> None:
        for operation, scatter in sorted(self.scatter.items()):
            if not scatter.finite:
                raise LawscopeError(
                    f"Station '{self.measured[operation].name}' is the first with NaN or infinite "
                    "activations; look at its weights and inputs (an overflow in half precision, "
                    "a diverged training) before measuring."
                )

    def _merge_ranks(self) -> None:
        self.scatter = {operation: all_merge(s) for operation, s in self.scatter.items()}
        merged = next(iter(self.scatter.values()))
        self.index.adopt(merged.classes)
        for scatter in self.scatter.values():
            scatter.index = self.index

    def _replicates(self, chosen: Sequence[Station]) -> Replicates | None:
        if self.uncertainty is None:
            return None
        rows = [
            self.parts[s.operation].deleted
            if self.uncertainty == "jackknife"
            else self.resamples[s.operation]
            for s in chosen
        ]
        curves = log_or_nan(np.stack(rows, axis=1))
        return Replicates(curves, self.uncertainty) if len(curves) > 1 else None

    def _fit(self, chosen: Sequence[Station]) -> LineFit:
        values = np.array([self.parts[s.operation].value for s in chosen])
        return fit_line(values, self._replicates(chosen))

    def _granularity(self, fits: dict[str, LineFit]) -> str:
        """What was asked for, or under "auto" the one with the straightest fall."""
        if self.selector != "auto":
            return self.selector if self.selector in GRANULARITIES else "chosen"
        return min(fits, key=lambda name: np.nan_to_num(fits[name].pearson, nan=1.0))

    def _left_out(self, granularity: str) -> tuple[str, ...]:
        """Layers that could not be measured, which must not go unsaid."""
        names = self.session.stations.skipped
        if granularity != "layers" or not names:
            return ()
        some = ", ".join(f"'{n}'" for n in names[:4]) + (" …" if len(names) > 4 else "")
        return (
            f"{len(names)} layer(s) are left out because their activations have no row per sample "
            f"({some}).",
        )

    def _settings(self, chosen: Sequence[Station], samples: int) -> dict[str, Any]:
        strategies = dict(zip(self.measured, self.plan.strategies, strict=True))
        pooling = self.session.pooling
        return {
            "samples": samples,
            "passes": self.session.passes,
            "mode": self.session.mode,
            "strategy": [strategies[s.operation] for s in chosen],
            "pooling": [
                (pooling if isinstance(pooling, str) else getattr(pooling, "__name__", "custom"))
                if s.sequence
                else "flatten"
                for s in chosen
            ],
            "selector": self.selector if isinstance(self.selector, str) else list(self.selector),
            "uncertainty": self.uncertainty,
            "replicates": self.index.folds
            if self.uncertainty == "jackknife"
            else (BOOTSTRAPS if self.uncertainty else 0),
            "weighting": self.weighting,
            "memory_bytes": self.memory,
            "seconds": round(time.perf_counter() - self.begun, 3),
        }


def _check_settings(uncertainty: Any, folds: int, weighting: Any) -> None:
    if uncertainty not in ("jackknife", "bootstrap", None):
        raise LawscopeError(
            f"uncertainty={uncertainty!r} is not known; choose 'jackknife', 'bootstrap' or None."
        )
    if folds < 2:
        raise LawscopeError(f"folds={folds} is too few for a jackknife; use at least 2.")
    if weighting not in ("count", "class"):
        raise LawscopeError(f"weighting={weighting!r} is not known; choose 'count' or 'class'.")


def _candidates(session: Session, selector: str | Sequence[str]) -> dict[str, tuple[Station, ...]]:
    """Every granularity to fit: the one asked for, and the others that cost nothing more."""
    chosen: dict[str, tuple[Station, ...]] = {}
    if selector != "auto":
        name = selector if selector in GRANULARITIES else "chosen"
        chosen[str(name)] = select(session.stations, selector, session.module_names)
        if name == "chosen":
            return chosen
    for name in GRANULARITIES:
        members = session.stations.granularity(name)
        known = [{s.operation for s in others} for others in chosen.values()]
        if len(members) >= MIN_STATIONS and {s.operation for s in members} not in known:
            chosen.setdefault(name, members)
    if not chosen:
        chosen["layers"] = select(session.stations, "layers", session.module_names)
    return chosen


def _dim(station: Station, pooling: Pooling) -> int:
    """Number of features after pooling; an upper bound where a function pools."""
    if station.sequence and pooling in ("mean", "first", "last"):
        return station.shape[-1]
    return int(np.prod(station.shape))


def class_names_of(given: Sequence[str] | None, classes: NDArray[np.int64]) -> tuple[str, ...]:
    """Names of the classes seen: those given, in order or by label, or the labels as text."""
    if given is None:
        return tuple(str(c) for c in classes)
    if len(given) == len(classes):
        return tuple(given)
    # Names for more classes than were seen: labels index into them.
    if classes.min() >= 0 and classes.max() < len(given):
        return tuple(given[c] for c in classes)
    raise LawscopeError(f"There are {len(given)} class names for {len(classes)} classes.")


def _warnings(names: Sequence[str], parts: Sequence[ClassFuzziness]) -> tuple[str, ...]:
    """What deserves a look, as sentences."""
    sentences = []
    single = parts[0].classes[parts[0].counts == 1]
    if len(single):
        some = ", ".join(map(str, single[:5])) + (" …" if len(single) > 5 else "")
        sentences.append(
            f"{len(single)} class(es) have a single sample ({some}): they count in SSb but have "
            "no spread of their own; add samples or leave them out."
        )
    for name, part in zip(names, parts, strict=True):
        full = min(len(part.classes) - 1, part.dim)
        if np.isnan(part.value):
            sentences.append(
                f"At station '{name}' all class means coincide (a dead layer?): D has no meaning "
                "there, and the line cannot be fitted."
            )
        elif part.value == 0:
            sentences.append(
                f"At station '{name}' every sample sits exactly on its class mean: D is 0 and has "
                "no logarithm, so the line cannot be fitted."
            )
        elif part.rank < full:
            sentences.append(
                f"At station '{name}' the class means span {part.rank} of {full} directions: some "
                "classes share a mean or lie on a line."
            )
    return tuple(sentences)
