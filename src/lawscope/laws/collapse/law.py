"""Neural collapse and minority collapse at the head of a network.

Papyan, Han & Donoho 2020; Fang, He, Long & Su 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike
from torch import nn

from lawscope.capture.restore import Mode
from lawscope.laws.base import (
    CLASS_NAMES,
    DISTRIBUTED,
    WHOLE,
    Law,
    Settings,
    option,
    with_settings_of,
)
from lawscope.laws.collapse.observer import CollapseObserver
from lawscope.laws.collapse.result import Collapse
from lawscope.laws.control import Control
from lawscope.laws.registry import register
from lawscope.laws.scan import measure_one
from lawscope.statistics.memory import parse_memory
from lawscope.theory.layer_peeled.groups import check_counts


@dataclass(frozen=True)
class CollapseSettings(Settings):
    """The settings of :func:`collapse`."""

    head: str | None = option(
        None, "module path of the head; found by what it computes without it."
    )
    counts: ArrayLike | None = option(
        None,
        "class sizes the network was trained with, one per row of the head or per class of the "
        "data; those of the data without it.",
        convert=lambda counts: None if counts is None else check_counts(counts),
    )
    uncertainty: Literal["jackknife"] | None = option(
        "jackknife", "for an interval of NC1, by leaving out folds; or None."
    )
    whole: bool = option(False, WHOLE)
    memory: str | int = option(
        "auto",
        "features are held up to this budget; beyond it the data is read twice.",
        convert=parse_memory,
    )
    class_names: Sequence[str] | None = option(None, CLASS_NAMES)
    distributed: bool | None = option(None, DISTRIBUTED)


@with_settings_of(CollapseSettings)
def collapse(
    model: nn.Module,
    loader: Any,
    *,
    control: Control = None,
    mode: Mode = "eval",
    progress: bool | None = None,
    **settings: Any,
) -> Collapse:
    """Measure NC1 to NC4 and minority collapse, beside the Layer-Peeled Model's prediction.

    With h̄_k the mean feature of class k, h̄ the mean of these, v_k the mean ‖h − h̄_k‖², w_k the
    rows of the head and K the classes of the data:

    - NC1: D = Tr(SSw SSb⁺) with classes weighted by n_k/n; D/K (Papyan et al. 2020); CDNV, the
      mean over pairs of (v_j + v_k)/(2‖h̄_j − h̄_k‖²) (Galanti et al. 2022).
    - NC2, of h̄_k − h̄ and of w_k: standard deviation over mean of the norms, standard deviation
      of the pairwise cosines, mean |cos + 1/(K−1)|.
    - NC3: ‖W/‖W‖_F − M/‖M‖_F‖², M the centred class means.
    - NC4: share of samples where argmax(Wh + b) and the nearest h̄_k differ.
    - Minority collapse (Fang et al. 2021): mean cosine between minority classifiers.
    - E_W = (1/K)Σ‖w_k‖², E_H = (1/K)Σ_k(1/n_k)Σ‖h‖²; ``ls.peel`` at these and the class sizes.

    The bias counts in NC4 and accuracy. NC2, NC3 and the prediction are about W alone;
    ``bias_share`` says what they leave out.

    Args:
        model: a classifier; run without gradients, in eval mode by default, and left as found.
        loader: labelled batches, see :func:`lawscope.separation`. Labels index the rows of the
            head; rows that no label points to are left out, and a warning says so.
        **settings: the settings below.
        control: the same network untrained; see :func:`lawscope.separation`.
        mode: see :func:`lawscope.separation`.
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        The measurement, the prediction, verdict and advice.

    Raises:
        LawscopeError: no linear head gives the output (the sentence says what was looked at), a
            label has no row, one class, NaN.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> y = torch.arange(60) % 3
        >>> x = 0.1 * torch.randn(60, 3) + torch.eye(3)[y]
        >>> head = nn.Linear(3, 3, bias=False)
        >>> _ = head.weight.data.copy_(torch.eye(3) - 1 / 3)
        >>> found = collapse(head, (x, y))
        >>> round(found.nc2.classifiers.angle_error, 6), found.nc4
        (0.0, 0.0)
    """
    return measure_one(COLLAPSE, model, loader, settings, control, mode=mode, progress=progress)


COLLAPSE = register(
    Law(
        name="collapse",
        title="Neural and minority collapse",
        papers=("collapse", "layer_peeled"),
        needs=frozenset({"labels"}),
        settings=CollapseSettings,
        observe=CollapseObserver,
        result=Collapse,
    )
)
