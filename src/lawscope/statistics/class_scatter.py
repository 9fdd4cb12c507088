"""Class means and within-class scatter, streamed: the statistic behind separation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.checks import checked
from lawscope.data.row_hash import hash_rows
from lawscope.errors import LawscopeError
from lawscope.statistics.base import Statistic, guarded
from lawscope.statistics.features import as_features, as_labels
from lawscope.statistics.folds import GroupIndex
from lawscope.statistics.fuzziness import LARGEST, Weighting, check_weighting
from lawscope.statistics.group_sums import GroupMeans, GroupScatter
from lawscope.statistics.memory import STRATEGIES, Strategy
from lawscope.statistics.row_buffer import RowBuffer
from lawscope.statistics.span import (
    WIDE,
    Coordinates,
    Directions,
    GroupDirections,
    Span,
    SpanSquares,
    all_finite,
    average_folds,
    find_coordinates,
    find_coordinates_by_gram,
    find_length,
    multiply_means,
    multiply_with_means,
)

BUFFER_NUMBERS = 2**17


@dataclass(frozen=True, eq=False)
class ClassFuzziness:
    """Fuzziness of one set of features."""

    value: float  # D = Tr(SSw SSb⁺); NaN when all class means coincide, where D has no meaning
    classwise: NDArray[np.float64]  # D^k = Tr(SSw^k SSb⁺), SSw^k over n_k; Σ π_k D^k = D
    classes: NDArray[np.int64]  # labels, sorted, shape (K,)
    counts: NDArray[np.int64]  # samples per class
    dim: int  # number of features
    rank: int  # of SSb
    deleted: NDArray[np.float64]  # D without each fold in turn, shape (≤ F,); empty without folds
    ratios: NDArray[np.float64]  # all samples over those left out, shape (≤ F,)
    growth: NDArray[np.float64]  # of the noise in class means without each fold, shape (≤ F,)
    # Of all samples, then without each fold, shape (1 + ≤ F,):
    unbiased: NDArray[np.float64]  # D with SSw^k over n_k − 1
    contrasts: NDArray[np.float64]  # the weakest class contrast


class ClassScatter(Statistic):
    """Streaming statistic for D = Tr(SSw SSb⁺) (He & Su 2023, eq. 1).

    The same value comes out of every strategy, every split into batches and every merge order:

    - ``"held"``: one pass; features are kept as they are.
    - ``"scatter"``: one pass; a d×d scatter per group, for few features and many samples.
    - ``"two-pass"``: class means first, then :meth:`next_pass`, then the same batches again;
      memory K·F·d.

    Sums are in float64, but beyond :data:`~lawscope.statistics.span.WIDE` features those over the
    samples are in the precision of the features, which leaves six digits of float32.

    Args:
        strategy: see above.
        folds: F > 1 also gives D without each of F class-stratified folds, for a jackknife.
        weighting: "count" as in the paper, or "class" for equal class weights.
        index: groups shared with other statistics over the same samples.

    Example:
        >>> stat = ClassScatter()
        >>> stat.update(torch.tensor([[0.0], [2.0]]), torch.tensor([0, 0]))
        >>> stat.update(torch.tensor([[10.0], [12.0]]), torch.tensor([1, 1]))
        >>> round(stat.compute().value, 6)
        0.04
    """

    @checked
    def __init__(
        self,
        strategy: Strategy = "held",
        folds: int = 1,
        weighting: Weighting = "count",
        index: GroupIndex | None = None,
    ) -> None:
        if strategy not in STRATEGIES:
            raise LawscopeError(f"strategy={strategy!r} is not one of {', '.join(STRATEGIES)}.")
        check_weighting(weighting)
        self.strategy, self.weighting = strategy, weighting
        self.index = GroupIndex(folds)
        self.reset()
        self.index = index or self.index

    def _start(self) -> None:
        self.index = GroupIndex(self.index.folds)
        self.dim: int | None = None
        self.held_bytes = 0
        self._held: list[tuple[Tensor, Tensor]] = []
        self._held_finite = True
        self._buffer = RowBuffer(BUFFER_NUMBERS)
        self._sums: GroupMeans | GroupScatter
        self._sums = GroupScatter() if self.strategy == "scatter" else GroupMeans()
        self._second: SpanSquares | None = None
        self._means: Tensor | None = None

    @property
    def wide(self) -> bool:
        """Whether there are too many features for a table of directions in float64."""
        return self.strategy != "scatter" and self.dim is not None and self.dim > WIDE

    @property
    def settings(self) -> dict[str, str | int | float | bool]:
        folds = self.index.folds
        return {"strategy": self.strategy, "folds": folds, "weighting": self.weighting}

    @property
    def classes(self) -> list[int]:
        """Labels in the order in which they were met."""
        return self.index.classes

    @property
    def in_second_pass(self) -> bool:
        return self._second is not None

    @property
    @guarded
    def finite(self) -> bool:
        """Whether everything seen in the first pass was a finite number."""
        self._flush()
        return self._held_finite and self._sums.finite

    @guarded
    def update(self, features: Any, labels: Any) -> None:
        """Add a batch: ``features`` (B, ...) flattened to (B, d), integer ``labels`` (B,)."""
        x = as_features(features)
        y = as_labels(labels, len(x))
        self._check_width(x)
        self.update_rows(x, self.index.assign(y, hash_rows(x) if self.index.folds > 1 else None))

    @guarded
    def update_rows(self, features: Tensor, groups: Tensor) -> None:
        """Add a batch whose samples the shared index has assigned to groups already."""
        if self._second is not None and self.index.groups > len(self._second.counts):
            raise LawscopeError(_OTHER_DATA)
        self._check_width(features)
        if self.strategy == "held":
            # A copy, because the network may overwrite its activations.
            self._held.append((features.clone(), groups))
            self.held_bytes += features.nbytes
            if self.wide:
                # Its sums are taken from what is held, at the end.
                self._held_finite = self._held_finite and all_finite(features)
                return
        self._add(self._buffer.append(features, groups))

    @guarded
    def next_pass(self) -> None:
        """Fix the class means of the first pass; the same batches are to come again."""
        if self.strategy == "two-pass" and self._second is None:
            span = self._span()
            wide = isinstance(span.directions, GroupDirections)
            self._means = None if wide else self._class_means()
            self._second = SpanSquares(span)
            # The span has taken over what it needs.
            self._sums = GroupMeans()

    @guarded
    def class_means(self) -> Tensor:
        """Return the means of the classes in the order of :attr:`classes`, (K, d), float64."""
        return self._class_means() if self._means is None else self._means

    @guarded
    def compute(self) -> ClassFuzziness:
        if self._second is None and not self.finite:
            raise LawscopeError("The features contain NaN or infinite values; clean them first.")
        span, sums = self._span_and_squares()
        if self._second is not None and not bool(sums.isfinite().all()):
            raise LawscopeError(
                "The second pass gives no finite spread: a feature is NaN or infinite there, or "
                "all are below 1e-300."
            )
        squares = sums.cpu().view(*span.kept.shape[1:], span.columns)
        counts = span.kept.sum(dim=2).to(squares)
        within = torch.where(span.kept.permute(1, 2, 0) > 0, squares, 0.0).sum(dim=1).T
        classwise = within / counts.clamp(min=1)
        values = classwise @ span.weights
        unbiased = within / (counts - 1).clamp(min=1) @ span.weights
        # Below this D is the rounding of float64 sums: every sample sits on its class mean.
        values[values < 1 / LARGEST] = 0
        # Without a class of two samples there is no spread, and D would be 0 for want of data.
        samples, present = counts.sum(dim=1), (counts > 0).sum(dim=1)
        values[(samples <= present) | (values > LARGEST)] = torch.nan
        if span.coincide:
            values[:] = torch.nan
        # A fold takes more of one class than of another. Noise that is small against the distances
        # of the means adds up as the mean of 1/n_k, large noise as 1 over the mean of n_k: take the
        # middle of both.
        noise = (span.weights / counts.clamp(min=1)).sum(dim=1) / samples
        order = np.argsort(np.array(self.classes))
        return ClassFuzziness(
            value=float(values[0]),
            classwise=classwise[0].numpy()[order],
            classes=np.array(self.classes, dtype=np.int64)[order],
            counts=span.kept[0].sum(dim=1).numpy()[order],
            dim=self.dim or 0,
            rank=span.rank,
            deleted=values[1:].numpy(),
            ratios=(samples[:1] / (samples[0] - samples[1:])).numpy(),
            growth=(noise[1:] / noise[0]).sqrt().numpy(),
            unbiased=torch.where(values.isnan(), torch.nan, unbiased).numpy(),
            contrasts=span.contrasts.cpu().numpy(),
        )

    @guarded
    def held(self) -> tuple[Tensor, Tensor]:
        """Return all held features (n, d) and the class position of each."""
        features, groups = zip(*self._held, strict=True)
        return torch.cat(features), torch.cat(groups) // self.index.folds

    def _merge(self, other: ClassScatter) -> None:
        # Two-pass statistics are merged after the first pass and, once both have gone through
        # next_pass() with the same means, again after the second.
        if (self._second is None) != (other._second is None):
            raise LawscopeError("One of the statistics is in its second pass, the other is not.")
        if self.dim is not None and other.dim is not None and self.dim != other.dim:
            raise LawscopeError(f"{self.dim} features here and {other.dim} there do not merge.")
        self._flush()
        other._flush()
        if self._second is not None and other._second is not None:
            self._second.squares += other._second.squares.to(self._second.squares)
            self._second.counts += other._second.counts
            return
        self.index.adopt(dict.fromkeys([*self.classes, *other.classes]))
        self.dim = other.dim if self.dim is None else self.dim
        position, folds = self.index.position, self.index.folds
        to = [position[label] * folds + j for label in other.classes for j in range(folds)]
        groups = torch.tensor(to, dtype=torch.int64, device="cpu")
        self._held += [(features, groups[rows]) for features, rows in other._held]
        self.held_bytes += other.held_bytes
        self._held_finite = self._held_finite and other._held_finite
        # Of the same kind, because the strategies are equal.
        theirs: Any = other._sums
        self._sums.merge(theirs, groups, self.index.groups)

    def _state(self) -> dict[str, Tensor]:
        if self._second is not None:
            raise LawscopeError("The second pass has begun; save the state before next_pass().")
        self._flush()
        classes = torch.tensor(self.classes, dtype=torch.int64, device="cpu")
        if self._held:
            features, groups = map(torch.cat, zip(*self._held, strict=True))
            return {"classes": classes, "held": features, "groups": groups}
        return {"classes": classes, **self._sums.state()}

    def _load(self, state: Mapping[str, Tensor]) -> None:
        self.index.adopt(state["classes"].tolist())
        if "held" in state:
            self.update_rows(state["held"], state["groups"])
        else:
            self._sums.load(state)
            if self.classes:
                self.dim = len(self._group_means()[2])

    def _check_width(self, features: Tensor) -> None:
        self.dim = features.shape[1] if self.dim is None else self.dim
        if features.shape[1] != self.dim:
            raise LawscopeError(
                f"This batch has {features.shape[1]} features and those before had {self.dim}; "
                "give all batches the same."
            )

    def _add(self, due: list[tuple[Tensor, ...]]) -> None:
        for features, groups in due:
            if self._second is not None:
                self._second.update(features, groups)
            else:
                if isinstance(self._sums, GroupMeans):
                    self._sums.single = self.wide
                self._sums.update(features, groups, self.index.groups)

    def _flush(self) -> None:
        self._add(self._buffer.flush())

    def _group_means(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the group means less a shift, (G, d), their counts (G,) and the shift (d,)."""
        self._flush()
        sums, total = self._sums, self.index.groups
        counts = self._count(sums.counts)
        if isinstance(sums, GroupMeans):
            assert sums.shift is not None
            means, shift = sums.means(), sums.shift
        else:
            shift = sums.means[sums.counts > 0].mean(dim=0)
            means = torch.where((sums.counts > 0)[:, None].to(shift.device), sums.means - shift, 0)
        return torch.cat([means, means.new_zeros(total - len(means), len(shift))]), counts, shift

    def _class_means(self) -> Tensor:
        if self._second is not None:
            where = self._second.span.directions
            assert isinstance(where, GroupDirections)
            means, shift = where.means.to(torch.float64) / where.scale, where.shift
            counts = self._second.span.group_counts
        elif self.wide and self.strategy == "held":
            features, classes = self.held()
            sums = features.new_zeros(len(self.classes), features.shape[1], dtype=torch.float64)
            sums.index_add_(0, classes.to(sums.device), features.to(torch.float64))
            return sums / classes.bincount(minlength=len(sums)).to(sums)[:, None]
        else:
            means, counts, shift = self._group_means()
        return average_folds(means, counts.view(1, -1, self.index.folds))[0] + shift

    def _count(self, seen: Tensor) -> Tensor:
        """Return the counts of all groups known by now, (G,), if there are any samples."""
        counts = torch.cat([seen, seen.new_zeros(self.index.groups - len(seen))])
        if not int(counts.sum()):
            raise LawscopeError("No samples were seen; the loader is empty.")
        return counts

    def _span(self) -> Span:
        """Return the span of the means that were summed."""
        if not (self.wide and isinstance(self._sums, GroupMeans)):
            means, counts, shift = self._group_means()
            found = find_coordinates(means)
            span = self._span_of(found, counts, find_length(shift))
            table = span.matrix if found.basis is None else span.matrix @ found.basis
            span.directions = Directions(table, shift)
            return span
        self._flush()
        sums, counts = self._sums, self._count(self._sums.counts)
        assert sums.shift is not None
        shift, means = sums.shift, sums.take_means()
        means = torch.cat([means, means.new_zeros(len(counts) - len(means), len(shift))])
        gram = multiply_means(means)
        found = find_coordinates_by_gram(gram)
        span = self._span_of(found, counts, find_length(shift) * sums.scale, sums.scale)
        assert found.of_groups is not None
        combine = span.matrix @ found.of_groups
        span.directions = GroupDirections(means, shift, sums.scale, gram, combine)
        return span

    def _span_of(
        self, coordinates: Coordinates, group_counts: Tensor, offset: float, scale: float = 1.0
    ) -> Span:
        """Return the span; ``offset`` is the length of the shift, times ``scale`` as the rest."""
        counts = group_counts.view(-1, self.index.folds).sum(dim=1)
        n, present = int(counts.sum()), int((counts > 0).sum())
        if present < 2:
            raise LawscopeError(
                f"All {n} samples have the label {self.classes[int(counts.argmax())]}: the "
                "fuzziness needs at least two classes. Pass data with two or more labels."
            )
        if n <= present:
            raise LawscopeError(
                f"{n} samples in {present} classes: no class has two, so there is no spread "
                "within classes to measure. Pass more samples per class."
            )
        span = Span(coordinates, group_counts, self.index.folds, self.weighting, offset)
        span.contrasts /= scale**2
        return span

    def _span_and_squares(self) -> tuple[Span, Tensor]:
        """Return the span and the sums of ‖A(x − x̄_k)‖² per group and column, (G, 1 + R)."""
        self._flush()
        if self._second is not None:
            if not torch.equal(self._second.counts, self._second.span.group_counts):
                raise LawscopeError(_OTHER_DATA)
            return self._second.span, self._second.squares
        if self.strategy == "held" and self.wide:
            return self._by_products()
        if self.strategy == "two-pass":
            raise LawscopeError("A two-pass statistic needs next_pass() and the data again.")
        span = self._span()
        if isinstance(self._sums, GroupScatter):
            return span, self._sums.squares(span)
        gathered, buffer = SpanSquares(span), RowBuffer(BUFFER_NUMBERS)
        for batch in self._held:
            for joined in buffer.append(*batch):
                gathered.update(*joined)
        for joined in buffer.flush():
            gathered.update(*joined)
        return span, gathered.squares

    def _by_products(self) -> tuple[Span, Tensor]:
        """Return the same for wide features that are held."""
        features, groups = [rows for rows, _ in self._held], [which for _, which in self._held]
        joined = torch.cat(groups).to(features[0].device)
        products, gram, offset, scale = multiply_with_means(features, joined, self.index.groups)
        counts = joined.bincount(minlength=self.index.groups).cpu()
        found = find_coordinates_by_gram(gram)
        span = self._span_of(found, counts, offset, scale)
        assert found.of_groups is not None
        squares = span.new_squares()
        span.sum_squares(products @ (span.matrix @ found.of_groups).T, joined, squares)
        return span, squares


_OTHER_DATA = (
    "The second pass saw other samples than the first, so that the class means do not belong to "
    "it; make the loader repeatable (fixed seed, no random augmentation), pass a list of its "
    "batches, or hold the features of one pass with strategy='held'."
)
