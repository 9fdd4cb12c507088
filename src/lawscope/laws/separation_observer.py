"""Watching a network for the law of data separation: statistics in, result out."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lawscope.capture.pooling import Pooling
from lawscope.capture.select import GRANULARITIES, select
from lawscope.capture.session import Session
from lawscope.capture.stations import Station
from lawscope.errors import LawscopeError
from lawscope.laws.class_names import check_class_names, class_names_of
from lawscope.laws.registry import law
from lawscope.laws.separation_result import Separation
from lawscope.laws.separation_summary import summarise
from lawscope.laws.uncertainty import Uncertainty
from lawscope.laws.verdict import MIN_STATIONS
from lawscope.statistics.between import Weighting
from lawscope.statistics.bootstrap import bootstrap
from lawscope.statistics.class_scatter import ClassFuzziness, ClassScatter
from lawscope.statistics.distributed import all_merge
from lawscope.statistics.feature_block import BLOCK_BYTES
from lawscope.statistics.features import as_labels
from lawscope.statistics.group_index import GroupIndex
from lawscope.statistics.memory import DEFAULT_MEMORY, Load, Plan, Strategy, parse_memory, plan

FloatArray = NDArray[np.float64]
FOLDS = 8
WAITING_SHARE = 8  # an eighth of the memory is for rows that wait for more of them


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
        _check_settings(stations, uncertainty, folds, weighting)
        check_class_names(class_names, session)
        stations = stations if isinstance(stations, str) else list(stations)
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
            class_names_of(self.class_names, np.sort(self.index.classes))  # now, not at the end
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
        return summarise(self)

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
        waiting = self.memory // WAITING_SHARE // len(self.plan.rounds[self.round])
        for i in self.plan.rounds[self.round]:
            self.scatter[operations[i]] = ClassScatter(
                self.plan.strategies[i],
                weighting=self.weighting,
                index=self.index,
                expected=self.session.source.samples,
                waiting=min(waiting, BLOCK_BYTES),
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


def _check_settings(stations: Any, uncertainty: Any, folds: Any, weighting: Any) -> None:
    if not isinstance(stations, Collection) or not all(isinstance(s, str) for s in stations):
        raise LawscopeError(
            f"stations={stations!r} is not known; choose 'layers', 'blocks', 'auto', a glob or a "
            "list of names."
        )
    if uncertainty not in ("jackknife", "bootstrap", None):
        raise LawscopeError(
            f"uncertainty={uncertainty!r} is not known; choose 'jackknife', 'bootstrap' or None."
        )
    if not isinstance(folds, Integral):
        raise LawscopeError(f"folds={folds!r} is not a whole number; use one of at least 2.")
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
