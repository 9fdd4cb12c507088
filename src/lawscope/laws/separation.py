"""The law of data separation: D_l = Tr(SSw SSb⁺) falls by an equal factor per layer (003)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from torch import nn

from lawscope.capture.pooling import Pooling
from lawscope.capture.session import open_session
from lawscope.capture.untouched import Mode
from lawscope.errors import LawscopeWarning
from lawscope.laws.separation_observer import FOLDS, SeparationObserver
from lawscope.laws.separation_result import Separation
from lawscope.laws.uncertainty import Uncertainty
from lawscope.statistics.between import Weighting
from lawscope.statistics.memory import DEFAULT_MEMORY, Strategy


def separation(
    model: nn.Module,
    loader: Any,
    *,
    stations: str | Sequence[str] = "layers",
    uncertainty: Uncertainty | None = "jackknife",
    memory: str | int = DEFAULT_MEMORY,
    pooling: Pooling = "mean",
    weighting: Weighting = "count",
    strategy: Strategy | None = None,
    folds: int = FOLDS,
    class_names: Sequence[str] | None = None,
    distributed: bool = False,
    mode: Mode = "eval",
    progress: bool | None = None,
) -> Separation:
    """Measure D at every station of a network and fit the law D_l ≈ ρ^l D_0.

    Args:
        model: any ``nn.Module``; run without gradients, in eval mode by default, and left as found.
        loader: batches ``(x, y)`` or dicts with ``labels``: a DataLoader, a Dataset, a pair of
            arrays, a list, or (where one pass is enough) a generator.
        stations: "layers", "blocks", "auto" (whichever gives the straighter line), a glob, or a
            list of station names; see :func:`lawscope.stations`.
        uncertainty: "jackknife" over class-stratified folds (streams), "bootstrap" within classes
            (holds the features), or None.
        memory: budget for the statistics, e.g. "2GB".
        pooling: of token sequences: "mean", "first", "last", "flatten" or a function.
        weighting: "count" weights classes by n_k/n as the paper writes it; "class" equally.
        strategy: force "held", "scatter" or "two-pass"; it never changes the value.
        folds: folds of the jackknife.
        class_names: names of the classes in the order of their sorted labels.
        distributed: merge over the ranks of ``torch.distributed``; every rank must call it.
        mode: of the network. "train" lets BatchNorm use the statistics of each batch and dropout
            drop, as the authors of 003 measure (in shuffled batches of 100); the value then
            depends on the batches. The network is left as found all the same.
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        The measurement, its fit, verdict and advice.

    Raises:
        LawscopeError: the data or the network cannot be measured; the sentence says why and what
            to do.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> y = torch.arange(60) % 3
        >>> x = torch.randn(60, 5) + 3 * torch.eye(5)[y]
        >>> net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
        >>> separation(net, (x, y)).stations
        ('input', '1', '3')
    """
    with open_session(model, loader, pooling=pooling, mode=mode, show=progress) as session:
        observer = SeparationObserver(
            session,
            stations=stations,
            uncertainty=uncertainty,
            memory=memory,
            weighting=weighting,
            strategy=strategy,
            folds=folds,
            class_names=class_names,
            distributed=distributed,
        )
        session.measure([observer], "measuring separation")
    result = observer.result()
    for sentence in result.warnings:
        warnings.warn(sentence, LawscopeWarning, stacklevel=2)
    return result
