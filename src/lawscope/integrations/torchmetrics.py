"""Separation fuzziness as a ``torchmetrics.Metric``; needs ``pip install lawscope[metrics]``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lawscope.statistics.class_scatter import ClassScatter

try:
    from torchmetrics import Metric
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "lawscope.integrations.torchmetrics needs torchmetrics: pip install 'lawscope[metrics]'"
    ) from error

# States of the metric, and what they are called in the statistic.
STATE = {"labels": "classes", "counts": "counts", "means": "means", "scatter": "scatter"}


class Fuzziness(Metric):
    """D = Tr(SSw SSb⁺) of features and labels, accumulated over batches and processes.

    The state is one row per class and process: label, count, mean and d×d scatter about the mean.
    Rows of the same class are merged by Chan's formula when the value is computed, so that
    processes may have met different classes in different orders. Memory is K·d² float64; for very
    wide features use :func:`lawscope.separation`, which needs no d×d matrix.

    Example:
        >>> metric = Fuzziness()
        >>> metric.update(torch.tensor([[0.0], [2.0]]), torch.tensor([0, 0]))
        >>> metric.update(torch.tensor([[10.0], [12.0]]), torch.tensor([1, 1]))
        >>> round(metric.compute().item(), 6)
        0.04
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    labels: list[Tensor]
    counts: list[Tensor]
    means: list[Tensor]
    scatter: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in STATE:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch: ``features`` (B, ...), integer ``labels`` (B,)."""
        merged = self._merged()
        merged.update(features, labels)
        state = merged.state_dict()
        for name, key in STATE.items():
            setattr(self, name, [state[key]])

    def compute(self) -> Tensor:
        """Compute the fuzziness of everything seen, a float64 scalar."""
        return torch.tensor(self._merged().compute().value, dtype=torch.float64)

    def _merged(self) -> ClassScatter:
        """All rows in one statistic, whether they are one tensor, a list, or gathered ranks."""
        merged = ClassScatter("scatter")
        settings = merged.state_dict()["settings"]
        for rows in zip(*(_rows(getattr(self, name)) for name in STATE), strict=True):
            part = ClassScatter("scatter")
            own = {key: row[None] for key, row in zip(STATE.values(), rows, strict=True)}
            part.load_state_dict({"settings": settings} | own)
            merged.merge(part)
        return merged


def _rows(state: Tensor | list[Tensor]) -> list[Tensor]:
    parts = [state] if isinstance(state, Tensor) else state
    return [row for part in parts for row in part]
