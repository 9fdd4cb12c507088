"""Class means and within-class scatter, streamed: the statistic behind separation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.between import Weighting
from lawscope.statistics.feature_block import BLOCK_BYTES
from lawscope.statistics.features import as_features, as_labels
from lawscope.statistics.full_scatter import FullScatter
from lawscope.statistics.group_index import GroupIndex
from lawscope.statistics.group_means import GroupMeans
from lawscope.statistics.held_features import HeldFeatures
from lawscope.statistics.memory import STRATEGIES, Strategy
from lawscope.statistics.own_precision import own_precision
from lawscope.statistics.span_scatter import Span, SpanScatter
from lawscope.statistics.waiting_rows import Part, WaitingRows

# Below this D is the rounding of float64 sums: every sample sits on its class mean. Above its
# inverse the class means differ by rounding only.
ROUNDING = 1e-26


@dataclass(frozen=True, eq=False)
class ClassFuzziness:
    """Fuzziness of one set of features.

    Attributes:
        value: D = Tr(SSw SSb⁺); NaN when all class means coincide, where D has no meaning.
        classwise: D^k = Tr(SSw^k SSb⁺), SSw^k over n_k; Σ π_k D^k = D. Shape (K,).
        classes: labels, sorted, shape (K,).
        counts: samples per class, shape (K,).
        dim: number of features.
        rank: rank of SSb.
        deleted: D without each fold in turn, shape (≤ F,); empty without folds.
    """

    value: float
    classwise: NDArray[np.float64]
    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    dim: int
    rank: int
    deleted: NDArray[np.float64]


# Sums that were begun inside torch.inference_mode() could not go on outside, nor the other way.
_ORDINARY = torch.inference_mode(False)


class ClassScatter:
    """Streaming ``update / merge / compute / reset / state_dict`` for D = Tr(SSw SSb⁺).

    The same value comes out of every strategy, every split into batches and every merge order:

    - ``"held"``: one pass; features are kept as they are.
    - ``"scatter"``: one pass; a d×d scatter per group, for few features and many samples.
    - ``"two-pass"``: class means first, then :meth:`next_pass`, then the same batches again;
      memory K·F·d.

    Args:
        strategy: see above.
        folds: F > 1 also gives D without each of F class-stratified folds, for a jackknife.
        weighting: "count" as in the paper (003 eq. 1), or "class" for equal class weights.
        index: groups shared with other statistics over the same samples.
        expected: number of samples to come, where it is known; room is made for them at once.
        waiting: bytes of features that may wait for more of them, in a two-pass statistic.

    Example:
        >>> stat = ClassScatter()
        >>> stat.update(torch.tensor([[0.0], [2.0]]), torch.tensor([0, 0]))
        >>> stat.update(torch.tensor([[10.0], [12.0]]), torch.tensor([1, 1]))
        >>> round(stat.compute().value, 6)
        0.04
    """

    @_ORDINARY
    def __init__(
        self,
        strategy: Strategy = "held",
        folds: int = 1,
        weighting: Weighting = "count",
        index: GroupIndex | None = None,
        expected: int | None = None,
        waiting: int = BLOCK_BYTES,
    ) -> None:
        if strategy not in STRATEGIES:
            raise LawscopeError(f"strategy={strategy!r} is not one of {', '.join(STRATEGIES)}.")
        self.strategy, self.weighting, self.expected = strategy, weighting, expected
        self.waiting = waiting
        self.index = index if index is not None else GroupIndex(folds)
        self._fresh()

    def _fresh(self) -> None:
        self._group_means = GroupMeans()
        self._full = FullScatter()
        self._held, self._counted = HeldFeatures(self.expected), 0
        self._waiting = WaitingRows(self.waiting)
        self._second: SpanScatter | None = None

    @property
    def classes(self) -> list[int]:
        """Labels in the order of the rows."""
        return self.index.classes

    @property
    def held_bytes(self) -> int:
        """Bytes of the features held so far."""
        return self._held.bytes

    @property
    def _means(self) -> GroupMeans:
        """The group means, those of features that are held or wait included."""
        self._settle()
        for features, rows in self._held.blocks(self._counted):
            self._group_means.update(features, rows, self.index.groups)
        self._counted = self._held.samples
        return self._group_means

    @property
    def in_second_pass(self) -> bool:
        """Whether :meth:`next_pass` has been called."""
        return self._second is not None

    @property
    def finite(self) -> bool:
        """Whether everything seen in the first pass was a finite number."""
        return self._full.finite if self.strategy == "scatter" else self._means.finite

    @_ORDINARY
    def update(self, features: Any, labels: Any) -> None:
        """Add a batch: ``features`` (B, ...) flattened to (B, d), integer ``labels`` (B,)."""
        x = as_features(features)
        y = as_labels(labels, len(x))
        self.update_rows(x, self.index.assign(y))

    @_ORDINARY
    def update_rows(self, features: Tensor, rows: Tensor) -> None:
        """Add a batch whose rows the shared index has assigned already."""
        if self._second is not None and self.index.groups > len(self._second.counts):
            raise LawscopeError(_OTHER_DATA)
        if self.strategy == "scatter":
            self._full.update(features, rows)
        elif self.strategy == "held":
            self._held.add(features, rows)
        else:
            self._sum(self._waiting.add(features, rows))

    def _sum(self, parts: list[Part]) -> None:
        """Work off rows of a two-pass statistic."""
        for features, rows in parts:
            if self._second is not None:
                self._second.update(features, rows)
            else:
                self._group_means.update(features, rows, self.index.groups)

    def _settle(self) -> None:
        """Work off the rows that wait."""
        self._sum(self._waiting.drain())

    @_ORDINARY
    def next_pass(self) -> None:
        """Fix the class means of the first pass; the same batches are to come again."""
        if self.strategy == "two-pass" and self._second is None:
            self._second = SpanScatter(self._span())
            self._group_means = GroupMeans()  # the span has taken over what it needs
        self.index.restart()

    def class_means(self) -> Tensor:
        """Means of the classes in the order of :attr:`classes`, shape (K, d), float64."""
        if self._second is not None:
            return self._second.span.class_means + self._second.span.shift
        if self.strategy == "scatter":
            span = self._span()
            return span.class_means + span.shift
        assert self._means.shift is not None
        means, counts = self._means.means(), self._means.counts.view(-1, self.index.folds)
        share = counts.double() / counts.sum(dim=1, keepdim=True).clamp(min=1)
        return _rows_sum(means, share) + self._means.shift

    @_ORDINARY
    def compute(self) -> ClassFuzziness:
        """The fuzziness of everything seen.

        Raises:
            LawscopeError: nothing seen, one class only, no class with two samples, or a second
                pass that is missing or saw other data.
        """
        if self._second is None and not self.finite:
            raise LawscopeError("The features contain NaN or infinite values; clean them first.")
        span = self._second.span if self._second is not None else self._span()
        with own_precision(span.shift.device.type):
            squares = self._squares(span)
        counts = span.all_counts().to(squares)
        kept = torch.where(span.kept(), squares, 0.0)
        within = kept.view(len(self.classes), -1, len(counts)).sum(dim=1).T
        classwise = within / counts.clamp(min=1)
        values = classwise @ span.frame.weights.cpu()
        values[values < ROUNDING] = 0
        # Without a class of two samples there is no spread, and D would be 0 for want of data.
        samples, present = counts.sum(dim=1), (counts > 0).sum(dim=1)
        values[(samples <= present) | (values > 1 / ROUNDING)] = torch.nan
        if not self._means_differ(span):
            values[:] = torch.nan
        order = np.argsort(np.array(self.classes))
        return ClassFuzziness(
            value=float(values[0]),
            classwise=classwise[0].numpy()[order],
            classes=np.array(self.classes, dtype=np.int64)[order],
            counts=span.counts[0].numpy()[order],
            dim=len(span.shift),
            rank=int(span.frame.rank),
            deleted=values[1:].numpy(),
        )

    @_ORDINARY
    def merge(self, other: ClassScatter) -> None:
        """Add what another statistic has seen, for instance in another process.

        Two-pass statistics are merged after the first pass and, once both have gone through
        :meth:`next_pass` with the same means, again after the second.
        """
        if (self.strategy, self.index.folds, self.weighting) != (
            other.strategy,
            other.index.folds,
            other.weighting,
        ):
            raise LawscopeError("Only statistics of the same strategy, folds and weighting merge.")
        if (self._second is None) != (other._second is None):
            raise LawscopeError("One of the statistics is in its second pass, the other is not.")
        self._settle()
        other._settle()
        if self._second is not None and other._second is not None:
            self._second.squares += other._second.squares
            self._second.counts += other._second.counts
            return
        self.index.join(other.index)
        to_rows = self._rows_of(other)
        self._means.merge(other._means, to_rows, self.index.groups)
        self._full.merge(other._full, to_rows)
        for features, rows in list(other._held.blocks()):
            self._held.add(features, to_rows[rows])
        self._counted = self._held.samples  # their means are in already

    @_ORDINARY
    def reset(self) -> None:
        """Forget everything seen, classes included."""
        self.index = GroupIndex(self.index.folds)
        self._fresh()

    def state_dict(self) -> dict[str, Tensor]:
        """The state of a first (or only) pass as tensors."""
        if self._second is not None:
            raise LawscopeError("The second pass has begun; save the state before next_pass().")
        state = {
            "settings": torch.tensor(
                [STRATEGIES.index(self.strategy), self.index.folds], device="cpu"
            ),
            "classes": torch.tensor(self.classes, dtype=torch.int64, device="cpu"),
            **self._means.state(),
            **self._full.state(),
        }
        blocks = list(self._held.blocks())
        if blocks:
            state["held"] = torch.cat([f for f, _ in blocks])
            state["held_rows"] = torch.cat([r for _, r in blocks])
        return state

    @_ORDINARY
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a state given by :meth:`state_dict` of a statistic with the same settings.

        Raises:
            LawscopeError: the state is of another strategy or another number of folds.
        """
        strategy, folds = state["settings"].tolist()
        if (STRATEGIES[strategy], folds) != (self.strategy, self.index.folds):
            raise LawscopeError(
                f"The state is of strategy '{STRATEGIES[strategy]}' with {folds} folds, the "
                f"statistic of '{self.strategy}' with {self.index.folds}; make it alike."
            )
        self.reset()
        self.index.adopt(state["classes"].tolist())
        self._group_means.load(state)
        self._full.load(state)
        if "held" in state:
            self._held.add(state["held"], state["held_rows"])
            self._counted = self._held.samples
        dealt = self._group_counts().view(-1, folds).sum(dim=1)
        self.index.adopt(self.classes, dealt.tolist())

    def __getstate__(self) -> dict[str, Any]:
        """Rows that wait are worked off before a copy is made or sent."""
        self._settle()
        return {**self.__dict__, "_waiting": WaitingRows(self.waiting)}

    def held(self) -> tuple[Tensor, Tensor]:
        """All held features (n, d) and the class position of each, for a bootstrap."""
        blocks = list(self._held.blocks())
        features = torch.cat([f for f, _ in blocks])
        return features, torch.cat([r for _, r in blocks]) // self.index.folds

    def _rows_of(self, other: ClassScatter) -> Tensor:
        """Where the rows of ``other`` stand among ours."""
        position = {label: i for i, label in enumerate(self.classes)}
        folds = self.index.folds
        rows = [position[label] * folds + j for label in other.classes for j in range(folds)]
        return torch.tensor(rows, dtype=torch.int64, device="cpu")

    def _group_counts(self) -> Tensor:
        """Samples per group in the first pass."""
        if self.strategy != "scatter":
            return self._means.counts
        self._full.flush()
        counts = self._full.counts.to(torch.int64)
        return torch.cat([counts, counts.new_zeros(self.index.groups - len(counts))])

    def _span(self) -> Span:
        counts, groups = self._group_counts(), self.index.groups
        self._check(counts)
        if self.strategy == "scatter":
            shift = self._full.means[self._full.counts > 0].mean(dim=0)
            means = torch.zeros(groups, len(shift), dtype=torch.float64, device=shift.device)
            means[: len(self._full.means)] = self._full.means - shift
            means[counts == 0] = 0
            return Span(means, counts, shift, self.index.folds, self.weighting)
        seen = self._means
        assert seen.shift is not None
        return Span(seen.means(), counts, seen.shift, self.index.folds, self.weighting)

    def _check(self, group_counts: Tensor) -> None:
        """Is there anything to measure?"""
        counts = group_counts.view(-1, self.index.folds).sum(dim=1)
        n, present = int(counts.sum()), int((counts > 0).sum())
        if n == 0:
            raise LawscopeError("No samples were seen; the loader is empty.")
        if present < 2:
            raise LawscopeError(
                f"All {n} samples have the label {self.classes[int(counts.argmax())]}: separation "
                "needs at least two classes. Pass data with two or more labels."
            )
        if n <= present:
            raise LawscopeError(
                f"{n} samples in {present} classes: no class has two, so there is no spread "
                "within classes to measure. Pass more samples per class."
            )

    def _squares(self, span: Span) -> Tensor:
        if self.strategy == "scatter":
            return self._full.squares(span)
        if self.strategy == "held":
            gathered = SpanScatter(span)
            for features, rows in self._held.blocks():
                gathered.update(features, rows)
            return gathered.squares.cpu()
        if self._second is None:
            raise LawscopeError("A two-pass statistic needs next_pass() and the data again.")
        self._settle()
        if not torch.equal(self._second.counts, span.group_counts):
            raise LawscopeError(_OTHER_DATA)
        return self._second.squares.cpu()

    @staticmethod
    def _means_differ(span: Span) -> bool:
        """Do the class means differ by more than the rounding of their size?"""
        means = span.class_means
        spread = (means - means.mean(dim=0)).norm()
        return bool(spread > 1e-13 * (span.shift.norm() + means.norm()))


def _rows_sum(rows: Tensor, weights: Tensor) -> Tensor:
    """Σ_j weights[k, j]·rows[k·F + j], shape (K, d)."""
    folded = rows.view(*weights.shape, -1)
    return (folded * weights.to(rows)[..., None]).sum(dim=1)


_OTHER_DATA = (
    "The second pass saw other samples than the first, so that the class means do not belong to "
    "it; make the loader repeatable (fixed seed, no random augmentation), pass a list of its "
    "batches, or hold the features of one pass with strategy='held'."
)
