"""Neural collapse and minority collapse at the head of a network (Papyan et al. 2020; 001)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike
from torch import nn

from lawscope.capture.session import open_session
from lawscope.capture.untouched import Mode
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws.collapse_observer import CollapseObserver
from lawscope.laws.collapse_result import Collapse
from lawscope.laws.uncertainty import Uncertainty
from lawscope.statistics.memory import DEFAULT_MEMORY


def collapse(
    model: nn.Module,
    loader: Any,
    *,
    head: str | None = None,
    counts: ArrayLike | None = None,
    uncertainty: Uncertainty | None = "jackknife",
    memory: str | int = DEFAULT_MEMORY,
    class_names: Sequence[str] | None = None,
    distributed: bool = False,
    mode: Mode = "eval",
    progress: bool | None = None,
) -> Collapse:
    """Measure NC1 to NC4 and minority collapse, beside the Layer-Peeled Model's prediction.

    With h̄_k the mean feature of class k, h̄ the mean of these, v_k the mean ‖h − h̄_k‖², w_k the
    rows of the head and K the classes of the data:

    - NC1: D = Tr(SSw SSb⁺) with classes weighted by n_k/n; D/K (Papyan, Han and Donoho 2020);
      CDNV, the mean over pairs of (v_j + v_k)/(2‖h̄_j − h̄_k‖²) (Galanti et al. 2022).
    - NC2, of h̄_k − h̄ and of w_k: standard deviation over mean of the norms, standard deviation
      of the pairwise cosines, mean |cos + 1/(K−1)|.
    - NC3: ‖W/‖W‖_F − M/‖M‖_F‖², M the centred class means.
    - NC4: share of samples where argmax(Wh + b) and the nearest h̄_k differ.
    - Minority collapse (001): mean cosine between minority classifiers.
    - E_W = (1/K)Σ‖w_k‖², E_H = (1/K)Σ_k(1/n_k)Σ‖h‖²; ``ls.peel`` at these and the class sizes.

    The bias counts in NC4 and accuracy. NC2, NC3 and the prediction are about W alone;
    ``bias_share`` says what they leave out.

    Args:
        model: a classifier; run without gradients, in eval mode by default, and left as found.
        loader: labelled batches, see :func:`lawscope.separation`. Labels index the rows of the
            head; rows that no label points to are left out, and a warning says so.
        head: module path of the head; found by what it computes without it.
        counts: class sizes the network was trained with, one per row of the head or per class of
            the data; those of ``loader`` without it.
        uncertainty: "jackknife" for an interval of NC1, or None.
        memory: features are held up to this budget; beyond it the data is read twice.
        class_names: names of the classes in the order of their sorted labels.
        distributed: merge over the ranks of ``torch.distributed``; every rank must call it.
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
    if uncertainty not in ("jackknife", None):
        raise LawscopeError(
            f"uncertainty={uncertainty!r} is not known; choose 'jackknife' or None."
        )
    with open_session(model, loader, mode=mode, show=progress) as session:
        observer = CollapseObserver(
            session,
            head=head,
            counts=counts,
            uncertainty=uncertainty,
            memory=memory,
            class_names=class_names,
            distributed=distributed,
        )
        session.measure([observer], "measuring collapse")
    result = observer.result()
    for sentence in result.warnings:
        warnings.warn(sentence, LawscopeWarning, stacklevel=2)
    return result
