"""A head that is set to a simplex equiangular tight frame and learns no more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.head import find_head
from lawscope.capture.restore import unwrap
from lawscope.capture.session import Session
from lawscope.checks import checked
from lawscope.data.source import Source
from lawscope.errors import LawscopeError

_PLAIN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(eq=False, repr=False)
class FixedClassifier:
    """A fixed head; :meth:`undo`, or leaving a ``with`` block, restores what was there.

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
        """Restore weight, bias and their gradient flags."""
        for key, value in self.before.items():
            parameter = getattr(self.module, key)
            with torch.no_grad():
                parameter.copy_(value)
            parameter.requires_grad_(self.learned[key])

    def __str__(self) -> str:
        rows, features = self.before["weight"].shape[:2]
        return f"head '{self.name}' fixed at a simplex of {rows} classes in {features} dimensions"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __enter__(self) -> FixedClassifier:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()


@checked
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
    inner = unwrap(model)
    name = _find_head(inner, example, head)
    module = inner.get_submodule(name)
    parameters = {k: p for k in ("weight", "bias") if (p := module._parameters.get(k)) is not None}
    if not isinstance(module, _PLAIN) or "weight" not in parameters:
        raise LawscopeError(
            f"The head '{name or 'the network'}' is a {type(module).__name__} without a weight of "
            "its own to set; use an nn.Linear or a 1×1 convolution as head."
        )
    weight = parameters["weight"]
    if weight[0].numel() != weight.shape[1]:
        raise LawscopeError(f"The head '{name}' is a convolution with a kernel larger than 1×1.")
    _check_own(inner, module, name)
    frame = find_nearest_simplex(weight.detach().flatten(1)).view_as(weight)
    before = {k: p.detach().clone() for k, p in parameters.items()}
    learned = {k: p.requires_grad for k, p in parameters.items()}
    for key, parameter in parameters.items():
        with torch.no_grad():
            parameter.copy_(frame if key == "weight" else torch.zeros_like(parameter))
        parameter.requires_grad_(False)
        parameter.grad = None
    return FixedClassifier(name, module, before, learned)


def _check_own(model: nn.Module, head: nn.Module, name: str) -> None:
    """Refuse a weight or bias that is not finite or belongs to another module as well."""
    for key, parameter in head.named_parameters(recurse=False):
        if not bool(parameter.isfinite().all()):
            raise LawscopeError(f"The {key} of the head '{name}' has NaN or infinite values.")
        for path, module in model.named_modules():
            if module is not head and any(p is parameter for p in module._parameters.values()):
                raise LawscopeError(
                    f"The {key} of the head '{name}' is also that of '{path}', which would be set "
                    f"and frozen with it; untie them first: give '{name}' a copy of its own."
                )


def find_nearest_simplex(weight: Tensor) -> Tensor:
    """Return the simplex ETF nearest to ``weight``, of equal Frobenius norm, shape (K, p).

    With B an orthonormal basis of the vectors that sum to zero, every simplex ETF is c·B Rᵀ,
    RᵀR = I; the nearest one has R the polar factor of WᵀB.
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


def _find_head(model: nn.Module, example: Any, head: str | None) -> str:
    """Return the path of the head: given, found by running, or the last linear module."""
    if example is not None:
        pair = isinstance(example, tuple | list) and bool(example)
        one = isinstance(example, Tensor | dict) or (pair and isinstance(example[0], Tensor))
        return find_head(Session(model, Source([example] if one else example)), head).path
    names: dict[str, nn.Module] = dict(model.named_modules())
    if head is None:
        linear = [name for name, module in names.items() if isinstance(module, _PLAIN)]
        if not linear:
            raise LawscopeError(
                "The network has no nn.Linear and no convolution that could be its head; name one "
                "with head=."
            )
        return linear[-1]
    if head not in names:
        raise LawscopeError(f"The network has no module head='{head}'.")
    return head
