"""A head that is set to a simplex equiangular tight frame and learns no more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.head import find_head
from lawscope.capture.session import open_session
from lawscope.capture.untouched import unwrapped
from lawscope.errors import LawscopeError

_PLAIN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(eq=False)
class FixedClassifier:
    """A fixed head; :meth:`undo` (or leaving a ``with`` block) puts back what was there.

    Attributes:
        name: module path of the head.
        module: the head itself.
        before: weight and bias as they were.
        learned: whether each of them took gradients.
    """

    name: str
    module: nn.Module
    before: dict[str, Tensor]
    learned: dict[str, bool]

    def undo(self) -> None:
        """Put weight, bias and their gradient flags back."""
        for key, value in self.before.items():
            parameter = getattr(self.module, key)
            with torch.no_grad():
                parameter.copy_(value)
            parameter.requires_grad_(self.learned[key])

    def __enter__(self) -> FixedClassifier:
        """Nothing more to do."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Undo."""
        self.undo()


def fix_classifier(
    model: nn.Module, example: Any = None, *, head: str | None = None
) -> FixedClassifier:
    """Set the head of a classifier to a simplex ETF, zero its bias and freeze both.

    All angles between classifiers are then the largest possible, −1/(K−1), and stay so whatever
    the class sizes. Of all such frames of the present Frobenius norm the one nearest to the
    present weights is taken, so a trained network is disturbed least and nothing is drawn at
    random. Call it before the optimiser is made, or let the optimiser skip what has no gradient.

    Args:
        model: a classifier whose head is an ``nn.Linear`` or a 1×1 convolution.
        example: a batch or loader to find the head with, by what it computes. Without it the
            last such module in ``named_modules()`` is taken.
        head: module path of the head, instead of looking for it.

    Returns:
        What was fixed; ``.undo()`` takes it back.

    Raises:
        LawscopeError: no such head, fewer features than K − 1, or weights shared with another
            module.

    Example:
        >>> net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
        >>> fixed = fix_classifier(net)
        >>> unit = nn.functional.normalize(net[2].weight)
        >>> fixed.name, bool(((unit @ unit.T)[0, 1:] + 1 / 3).abs().max() < 1e-6)
        ('2', True)
    """
    inner = unwrapped(model)
    name = _named(inner, example, head)
    module = inner.get_submodule(name)
    weight = module._parameters.get("weight")
    if not isinstance(module, _PLAIN) or weight is None:
        raise LawscopeError(
            f"The head '{name or 'the network'}' is a {type(module).__name__} without a weight of "
            "its own to set; use an nn.Linear or a 1×1 convolution as head."
        )
    if weight[0].numel() != weight.shape[1]:
        raise LawscopeError(f"The head '{name}' is a convolution with a kernel larger than 1×1.")
    _check_own(inner, module, name)
    parameters = {k: p for k in ("weight", "bias") if (p := module._parameters.get(k)) is not None}
    fixed = FixedClassifier(
        name,
        module,
        {k: p.detach().clone() for k, p in parameters.items()},
        {k: p.requires_grad for k, p in parameters.items()},
    )
    frame = nearest_simplex(weight.detach().flatten(1))
    with torch.no_grad():
        weight.copy_(frame.view_as(weight))
        if "bias" in parameters:
            parameters["bias"].zero_()
    for parameter in parameters.values():
        parameter.requires_grad_(False)
        parameter.grad = None
    return fixed


def _check_own(model: nn.Module, head: nn.Module, name: str) -> None:
    """Weight and bias are finite and no other module's."""
    for key, parameter in head.named_parameters(recurse=False):
        if not bool(parameter.isfinite().all()):
            raise LawscopeError(f"The {key} of the head '{name}' has NaN or infinite values.")
        for path, module in model.named_modules():
            if module is not head and any(p is parameter for p in module._parameters.values()):
                raise LawscopeError(
                    f"The {key} of the head '{name}' is also that of '{path}', which would be set "
                    f"and frozen with it; untie them first: give '{name}' a copy of its own."
                )


def nearest_simplex(weight: Tensor) -> Tensor:
    """The simplex ETF of the same Frobenius norm that is nearest to ``weight``, shape (K, p).

    With B an orthonormal basis of the vectors that sum to zero, every simplex ETF is c·B Rᵀ,
    RᵀR = I; the nearest one has R the polar factor of WᵀB.

    Raises:
        LawscopeError: fewer than two rows, or p < K − 1.
    """
    classes, width = weight.shape
    if classes < 2:
        raise LawscopeError(f"The head has {classes} row; a simplex needs two classes or more.")
    if width < classes - 1:
        raise LawscopeError(
            f"The head has {width} features for {classes} classes; a simplex of {classes} vectors "
            f"needs at least {classes - 1}: widen the last layer."
        )
    wide = weight.to("cpu", torch.float64)
    centring = torch.eye(classes, dtype=torch.float64) - 1 / classes
    basis = torch.linalg.eigh(centring)[1][:, 1:]
    left, _, right = torch.linalg.svd(wide.T @ basis, full_matrices=False)
    norm = float(wide.norm()) or math.sqrt(classes)
    frame: Tensor = basis @ (left @ right).T * (norm / math.sqrt(classes - 1))
    return frame.to(weight)


def _named(model: nn.Module, example: Any, head: str | None) -> str:
    """The path of the head: given, found by running, or the last linear module."""
    names: dict[str, nn.Module] = dict(model.named_modules())
    if example is not None:
        with open_session(model, _batches(example)) as session:
            return find_head(session, head).path
    if head is not None:
        if head not in names:
            raise LawscopeError(f"The network has no module head='{head}'.")
        return head
    linear = [name for name, module in names.items() if isinstance(module, _PLAIN)]
    if not linear:
        raise LawscopeError(
            "The network has no nn.Linear and no convolution that could be its head; name one "
            "with head=."
        )
    return linear[-1]


def _batches(example: Any) -> Any:
    """One batch as a list of batches; a loader as it is."""
    pair = isinstance(example, tuple | list) and bool(example) and isinstance(example[0], Tensor)
    return [example] if isinstance(example, Tensor | dict) or pair else example
