"""The effect of one step on one sample upon others.

He & Su 2020, "The local elasticity of neural networks".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lawscope.arrays import FloatArray
from lawscope.capture.functional import WeightFunction, Weights, blocks_of, check_finite
from lawscope.errors import LawscopeError
from lawscope.progress import Advance

# Length of a step in lengths of the weights: the effect is linear, and ten digits of it are left.
SHORT = 1e-6


@dataclass(frozen=True, eq=False)
class Effects:
    """What a step on probe x (row) does to probe x′ (column), shape (n, n) each.

    Attributes:
        relative: |Δf(x′)| / |Δf(x)|; NaN in the rows of probes that have no gradient.
        signed: ⟨Δf(x′), Δf(x)⟩ / |Δf(x)|², between −relative and relative.
        nonlinearity: largest |Δ(η) − Δ₀(η)| / |Δ(η)| among the probes looked at, where Δ₀(η) is
            2Δ(η/2); of a limit what the gradients say, and Δ that of f(x) alone.
    """

    relative: FloatArray
    signed: FloatArray
    nonlinearity: float


def measure_limit(function: WeightFunction, changes: Tensor, looked_at: Sequence[int]) -> Effects:
    """Return the effects of steps in the limit η → 0, Δf_c(x′) = −η⟨∇f_c(x′), ∇ℓ(x)⟩.

    Args:
        function: the network on the probes.
        changes: the products of gradients by x, x′ and c, shape (n, n, K).
        looked_at: probes on which a short step is taken for comparison.
    """
    check_finite(changes)
    own = changes.diagonal().T[:, :, None]  # of x by c
    size = own.norm(dim=1, keepdim=True)
    size = torch.where(size > 0, size, torch.nan)
    relative = changes.norm(dim=2) / size[..., 0]
    signed = (changes @ own)[..., 0] / size[..., 0] ** 2
    curved = [0.0]
    weights = _norm(function.weights)
    for row in looked_at:
        gradient = {n: g[0] for n, g in function.loss_gradients([row]).items()}
        eta = SHORT * (weights or 1.0) / (_norm(gradient) or 1.0)
        stepped = _move(function, gradient, eta)
        sample = function.samples[row]
        change = function.compute(stepped, sample) - function.compute(function.weights, sample)
        if float(change.norm()):
            curved.append(float((change[0] + eta * own[row, :, 0]).norm() / change.norm()))
    return Effects(relative.cpu().numpy(), signed.cpu().numpy(), max(curved))


def measure_steps(
    function: WeightFunction,
    rate: float | None,
    memory: int,
    looked_at: Sequence[int],
    advance: Advance,
) -> Effects:
    """Take a step of SGD, θ⁺ = θ − η∇ℓ(x), on every probe and see what it does to all of them.

    With Δf(x′) = f(x′; θ⁺) − f(x′; θ) the relative similarity of He & Su 2020 is
    |Δf(x′)| / |Δf(x)|, f being all logits.

    Args:
        function: the network on the probes.
        rate: η; None takes η = 1e-6 ‖θ‖/‖∇ℓ(x)‖, where the ratio no longer depends on η.
        memory: bytes of gradients that are held at a time.
        looked_at: probes whose step is taken at half its length too.
        advance: told of every probe done.
    """
    before, weights = function.logits(), _norm(function.weights)
    relative, signed, curved = list[Tensor](), list[Tensor](), [0.0]
    for row, gradient in _each_gradient(function, memory):
        length = _norm(gradient)
        check_finite(torch.tensor(length))
        eta = SHORT * (weights or 1.0) / (length or 1.0) if rate is None else rate
        change = _step(function, gradient, eta) - before
        if not change.isfinite().all():
            raise LawscopeError(
                f"A step with rate={eta:.3g} gives NaN or infinite logits; take a smaller one, or "
                "leave rate= out."
            )
        if row in looked_at and float(change.norm()):
            half = _step(function, gradient, eta / 2) - before
            curved.append(float((change - 2 * half).norm() / change.norm()))
        own = change[row]
        size = own.norm() if own.any() else math.nan
        relative.append(change.norm(dim=1) / size)
        signed.append(change @ own / size**2)
        advance(1)
    return Effects(
        torch.stack(relative).cpu().numpy(), torch.stack(signed).cpu().numpy(), max(curved)
    )


def _each_gradient(function: WeightFunction, memory: int) -> Iterator[tuple[int, Weights]]:
    for rows in blocks_of(len(function.samples), function.weights, memory):
        found = function.loss_gradients(rows)
        for place, row in enumerate(rows):
            yield row, {name: gradient[place] for name, gradient in found.items()}


def _step(function: WeightFunction, gradient: Weights, eta: float) -> Tensor:
    return function.logits(_move(function, gradient, eta))


def _move(function: WeightFunction, gradient: Weights, eta: float) -> Weights:
    return {n: w - eta * gradient[n] for n, w in function.weights.items()}


def _norm(weights: Weights) -> float:
    return math.sqrt(sum(float(tensor.square().sum()) for tensor in weights.values()))
