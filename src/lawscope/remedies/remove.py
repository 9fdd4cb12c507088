"""Weight decay towards a fixed random point instead of zero, which no symmetry leaves in place.

Ziyin 2024: ℓ(θ) + (λ/2)(θ − θ₀)ᵀ diag(D) (θ − θ₀), with θ₀ drawn once. For symmetries with
uncountably many mirrors, as rotations, D must differ from entry to entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from lawscope.capture.restore import unwrap
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import count, many
from lawscope.laws.symmetry.metrics import ROUNDING_OF_WEIGHTS, ranks_of_gram
from lawscope.lazy import pd
from lawscope.whole_number import whole_number

LARGEST = 1e6  # standard deviation or decay that is taken for meant
WITH_CLOSURE = ("LBFGS",)  # compute gradients inside of step()


@dataclass(eq=False)
class _Anchor:
    """One parameter, the point it decays to, and how hard."""

    name: str
    parameter: nn.Parameter
    point: Tensor  # θ₀
    weights: Tensor  # λ·D

    def pull(self) -> Tensor:
        """Return λD(θ − θ₀), the gradient of the penalty."""
        return self.weights * (self.parameter - self.point)


@dataclass(eq=False, repr=False)
class RemovedSymmetry:
    """The penalty that removes symmetries; :meth:`undo` takes it off an optimizer.

    Attributes:
        sigma: standard deviation of θ₀.
        diagonal: D is uniform between 1 − diagonal and 1 + diagonal.
        decay: λ by parameter.
    """

    sigma: float
    diagonal: float
    decay: dict[str, float]
    _anchors: list[_Anchor]
    _optimizer: Optimizer | None = None
    _old_decay: list[float] = field(default_factory=list)
    _handle: Any = None

    def penalty(self) -> Tensor:
        """Return (λ/2)Σ D(θ − θ₀)², to add to the loss where no optimizer was given."""
        if self._optimizer is not None:
            raise LawscopeError(
                "The optimizer adds the penalty's gradient at every step already; do not add it to "
                "the loss too."
            )
        terms = [(a.pull() * (a.parameter - a.point)).sum() / 2 for a in self._anchors]
        return torch.stack([term.to(terms[0]) for term in terms]).sum()

    def deviations(self) -> dict[str, Tensor]:
        """Return θ − θ₀, what was learned, by the name of the parameter."""
        return {a.name: (a.parameter - a.point).detach() for a in self._anchors}

    def table(self) -> pd.DataFrame:
        """Return effective ranks of every matrix: of θ, of θ − θ₀ and of θ₀.

        Part of the rank that θ regains is that of θ₀ itself; the middle one is what was learned.
        """
        rows = [
            (
                a.name,
                *(_effective_rank(m) for m in (a.parameter, a.parameter - a.point, a.point)),
            )
            for a in self._anchors
            if a.parameter.dim() > 1
        ]
        return pd.DataFrame(rows, columns=["parameter", "θ", "θ − θ₀", "θ₀"])

    @contextmanager
    def ablated(self) -> Iterator[None]:
        """Take θ₀ off all parameters inside ``with``: does the network work without it?"""
        kept = [a.parameter.detach().clone() for a in self._anchors]
        try:
            with torch.no_grad():
                for a in self._anchors:
                    a.parameter.sub_(a.point)
            yield
        finally:
            with torch.no_grad():
                for a, old in zip(self._anchors, kept, strict=True):
                    a.parameter.copy_(old)

    def undo(self) -> None:
        """Let the optimizer decay towards zero again; parameters stay where they are."""
        if self._optimizer is None or self._handle is None:
            return
        self._handle.remove()
        self._handle = None
        for group, old in zip(self._optimizer.param_groups, self._old_decay, strict=False):
            group["weight_decay"] = old

    def _add_pull(self, *_: Any) -> None:
        with torch.no_grad():
            for a in self._anchors:
                if a.parameter.grad is not None:
                    a.parameter.grad.add_(a.pull())

    def __str__(self) -> str:
        entries = sum(a.parameter.numel() for a in self._anchors)
        return (
            f"{count(entries)} entries of {many(len(self._anchors), 'parameter')} decay to a fixed "
            f"random point of standard deviation {self.sigma:g}"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


@checked
def remove_symmetry(
    optimizer_or_model: Optimizer | nn.Module,
    *,
    sigma: float = 0.01,
    diagonal: float = 0.1,
    decay: float | None = None,
    seed: int = 0,
) -> RemovedSymmetry:
    """Let weights decay to a fixed random point instead of zero, so that units stay apart.

    Zero is where units die and equal weights are where they merge, and weight decay pulls to both.
    With the penalty (λ/2)Σ D(θ − θ₀)², θ₀ ~ N(0, σ²) drawn once, neither is special (Ziyin 2024).
    How much comes back must be read off θ − θ₀ (``.table()``, ``.deviations()``) or without θ₀
    (``with removed.ablated():``): θ itself has the rank of θ₀ even where nothing was learned.

    Args:
        optimizer_or_model: an optimizer, whose ``weight_decay`` is replaced by the penalty and
            whose steps add its gradient; or a module, where ``.penalty()`` goes into the loss.
        sigma: standard deviation of θ₀; small against the weights.
        diagonal: D is uniform between 1 − diagonal and 1 + diagonal; needed against rotations, 0
            does for exchanged and flipped units.
        decay: λ. Of an optimizer without it that of each parameter group, of a module 1e-4.
        seed: of θ₀ and D.

    Returns:
        The penalty; ``.undo()`` gives an optimizer its own weight decay back.

    Raises:
        LawscopeError: an optimizer without weight decay, or whose decay is not a penalty (AdamW);
            nothing to decay.

    Example:
        >>> net = nn.Linear(6, 4)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=1e-3)
        >>> removed = remove_symmetry(optimizer)
        >>> print(removed)
        28 entries of 2 parameters decay to a fixed random point of standard deviation 0.01
    """
    sigma = _check("sigma", sigma, 0.0, LARGEST)
    real = isinstance(diagonal, int | float) and not isinstance(diagonal, bool)
    if not real or not 0 <= diagonal < 1:
        raise LawscopeError(f"diagonal={diagonal!r} is not a number from 0 to below 1.")
    diagonal = float(diagonal)
    if decay is not None:
        decay = _check("decay", decay, 0.0, LARGEST)
    generator = torch.Generator().manual_seed(whole_number("seed", seed, 0, "is not a seed"))
    optimizer = optimizer_or_model if isinstance(optimizer_or_model, Optimizer) else None
    if optimizer is not None:
        named = _of_optimizer(optimizer, decay)
    elif isinstance(optimizer_or_model, nn.Module):
        chosen = 1e-4 if decay is None else decay
        named = [(n, p, chosen) for n, p in unwrap(optimizer_or_model).named_parameters()]
    else:
        kind = type(optimizer_or_model).__name__
        raise LawscopeError(f"A {kind} is neither a torch optimizer nor an nn.Module.")
    anchors = [
        _anchor(name, parameter, own, sigma, diagonal, generator)
        for name, parameter, own in named
        if _can_decay(parameter)
    ]
    if not anchors:
        raise LawscopeError("There is no parameter to decay: none is a real number that learns.")
    removed = RemovedSymmetry(
        sigma, diagonal, {name: float(own) for name, _, own in named}, anchors
    )
    if optimizer is not None:
        removed._optimizer = optimizer
        removed._old_decay = [group["weight_decay"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["weight_decay"] = 0.0
        removed._handle = optimizer.register_step_pre_hook(removed._add_pull)
    return removed


def _check(name: str, value: Any, above: float, below: float) -> float:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not above < value < below:
        raise LawscopeError(
            f"{name}={value!r} is not a number above {above:g} and below {below:g}."
        )
    return float(value)


def _of_optimizer(
    optimizer: Optimizer, decay: float | None
) -> list[tuple[str, nn.Parameter, float]]:
    kind = type(optimizer).__name__
    groups = optimizer.param_groups
    if kind in WITH_CLOSURE:
        raise LawscopeError(
            f"{kind} computes gradients inside of its steps; give the module instead, and add "
            ".penalty() to the loss."
        )
    if kind == "AdamW" or any(group.get("decoupled_weight_decay") for group in groups):
        raise LawscopeError(
            "AdamW decays weights apart from the loss, which is no L2 penalty that could be moved; "
            "use Adam or SGD, or give the module and add .penalty() to the loss."
        )
    if any("weight_decay" not in group for group in groups):
        raise LawscopeError(
            f"{kind} has no weight_decay to replace; give the module, and add .penalty() to the "
            "loss."
        )
    if decay is None and not any(group["weight_decay"] for group in groups):
        raise LawscopeError(
            "The optimizer's weight_decay is 0: there is nothing to replace; pass decay=."
        )
    return [
        (f"{g}.{i}", parameter, group["weight_decay"] if decay is None else decay)
        for g, group in enumerate(groups)
        for i, parameter in enumerate(group["params"])
    ]


def _can_decay(parameter: nn.Parameter) -> bool:
    plain = parameter.requires_grad and not is_lazy(parameter) and not parameter.is_meta
    return plain and parameter.is_floating_point() and parameter.numel() > 0


def _anchor(
    name: str,
    parameter: nn.Parameter,
    decay: float,
    sigma: float,
    diagonal: float,
    generator: torch.Generator,
) -> _Anchor:
    shape = tuple(parameter.shape)
    point = sigma * torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    spread = 2 * torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") - 1
    weights = decay * (1 + diagonal * spread)
    like = parameter.detach()
    return _Anchor(name, parameter, point.to(like), weights.to(like))


def _effective_rank(matrix: Tensor) -> float:
    flat = matrix.detach().to("cpu", torch.float64).flatten(1)
    return ranks_of_gram((flat @ flat.T).numpy(), ROUNDING_OF_WEIGHTS).effective
