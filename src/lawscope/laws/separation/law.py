"""The law of data separation: D_l = Tr(SSw SSb⁺) falls by an equal factor per layer.

He & Su 2023, "A law of data separation in deep learning".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from lawscope.capture.pooling import Pooling, check_pooling
from lawscope.capture.restore import Mode
from lawscope.checks import is_list
from lawscope.errors import LawscopeError
from lawscope.laws.base import (
    CLASS_NAMES,
    DISTRIBUTED,
    WHOLE,
    Law,
    Settings,
    option,
    with_settings_of,
)
from lawscope.laws.control import Control
from lawscope.laws.registry import register
from lawscope.laws.scan import measure_one
from lawscope.laws.separation.observer import SeparationObserver
from lawscope.laws.separation.result import Separation
from lawscope.statistics.memory import parse_memory
from lawscope.whole_number import MOST_FOLDS


def _check_stations(stations: Any) -> str | list[str]:
    names = [stations] if isinstance(stations, str) else stations
    if not is_list(names) or not all(isinstance(name, str) for name in names):
        raise LawscopeError(
            f"stations={stations!r} is not known; choose 'layers', 'blocks', 'auto', a glob or a "
            "list of names."
        )
    return stations if isinstance(stations, str) else list(stations)


@dataclass(frozen=True)
class SeparationSettings(Settings):
    """The settings of :func:`separation`."""

    stations: str | Sequence[str] = option(
        "auto",
        "which stations: 'auto' (blocks of a residual network, layers of any other), 'layers', "
        "'blocks', a glob, or a list of names; see lawscope.stations.",
        convert=_check_stations,
    )
    uncertainty: Literal["jackknife"] | None = option(
        "jackknife", "how intervals are computed: 'jackknife' over class-stratified folds, or None."
    )
    memory: str | int = option(
        "auto",
        "budget for the statistics, as in '2GB'; 'auto' is a quarter of the memory that is free, "
        "between 512MB and 4GB.",
        convert=parse_memory,
    )
    pooling: Pooling = option(
        "auto",
        "of sequences: 'mean', 'max', 'first', 'last', 'ends' (of a bidirectional layer), "
        "'flatten', or a function, which is called on feature maps too. 'auto' is 'mean', behind a "
        "recurrent layer what the network reads of its steps. Maps are flattened; 'mean' averages "
        "them, and '4x4' does so to 4 × 4.",
        convert=check_pooling,
    )
    weighting: Literal["count", "class"] = option(
        "count",
        "'count' weights classes by n_k/n, as the paper and its script for unequal classes do; "
        "'class' equally, about the mean of the class means (their script for equal classes keeps "
        "the mean of the samples).",
    )
    strategy: Literal["held", "scatter", "two-pass"] | None = option(
        None, "force how features are gathered; it never changes the value."
    )
    whole: bool = option(False, WHOLE)
    folds: int | None = option(
        None,
        "folds of the jackknife; by default 8, or 4 with more than 50 classes or where 8 would "
        "take more passes.",
        least=2,
        lacks="is too few for a jackknife",
        most=MOST_FOLDS,
    )
    class_names: Sequence[str] | None = option(None, CLASS_NAMES)
    distributed: bool | None = option(None, DISTRIBUTED)


@with_settings_of(SeparationSettings)
def separation(
    model: nn.Module,
    loader: Any,
    *,
    control: Control = None,
    mode: Mode = "eval",
    progress: bool | None = None,
    **settings: Any,
) -> Separation:
    """Measure D at every station of a network and fit the law D_l ≈ ρ^l D_0.

    Args:
        model: any ``nn.Module``; run without gradients, in eval mode by default, and left as found.
        loader: batches ``(x, y)`` or dicts with ``labels``: a DataLoader, a Dataset, a pair of
            arrays, a list, or (where one pass is enough) a generator.
        **settings: the settings below.
        control: the same network untrained, to hold the measurement against: a module, "auto" to
            make one, or None.
        mode: of the network. "train" lets BatchNorm use the statistics of each batch and dropout
            drop, as He & Su measured (batches of 100, in the order in which samples were drawn);
            the value then depends on the batches. The network is left as found all the same.
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
    return measure_one(SEPARATION, model, loader, settings, control, mode=mode, progress=progress)


SEPARATION = register(
    Law(
        name="separation",
        title="Law of data separation",
        papers=("separation",),
        needs=frozenset({"labels"}),
        settings=SeparationSettings,
        observe=SeparationObserver,
        result=Separation,
    )
)
