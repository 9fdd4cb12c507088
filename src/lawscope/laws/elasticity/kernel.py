"""The tangent kernel of a few samples: products of the gradients of their logits.

The gradient of a linear layer's weight is δ hᵀ, so that of two of them the product is (δ·δ′)(h·h′)
and neither is ever made; all other weights go by gradients of single samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lawscope.arrays import FloatArray
from lawscope.capture.functional import WeightFunction, Weights, blocks_of

EXACT = 1e-9  # relative difference that is rounding


def compute_kernel(
    function: WeightFunction, columns: Sequence[int], memory: int = 10**9
) -> FloatArray:
    """Return K(x, x′)/√(K(x, x) K(x′, x′)), K(x, x′) = Σ_c ⟨∇_θ f_c(x), ∇_θ f_c(x′)⟩, (n, n).

    The trace of the neural tangent kernel; of one logit it is the normalised kernelised similarity
    of He & Su 2020 as η → 0. It does not depend on loss and labels, and is NaN for a probe whose
    logits have no gradient.

    Args:
        function: the network on the probes.
        columns: the logits c that are summed over.
        memory: bytes of gradients that are held at a time.
    """
    kernel, done = multiply_linear_layers(function, columns)
    kernel += multiply_gradients(function, columns, [n for n in function.weights if n not in done],
                                 memory)  # fmt: skip
    size = kernel.diagonal().sqrt()
    normalised: FloatArray = (kernel / size / size[:, None]).clamp(-1, 1).cpu().numpy()
    return normalised


def multiply_gradients(
    function: WeightFunction, columns: Sequence[int], names: Sequence[str], memory: int = 10**9
) -> Tensor:
    """Return Σ_c ⟨∇f_c(x), ∇f_c(x′)⟩ over these weights, from gradients of single samples."""
    count = len(function.samples)
    kernel = torch.zeros(count, count, dtype=torch.float64, device=function.device)
    if not names:
        return kernel
    blocks = blocks_of(count, {n: function.weights[n] for n in names}, memory // 2)
    for column in columns:
        for i, rows in enumerate(blocks):
            left = function.logit_gradients(column, rows, names)
            for others in blocks[i:]:
                same = others is rows
                right = left if same else function.logit_gradients(column, others, names)
                block = torch.stack([_rows(left[n]) @ _rows(right[n]).T for n in names]).sum(dim=0)
                here, there = slice(rows.start, rows.stop), slice(others.start, others.stop)
                kernel[here, there] += block
                if not same:
                    kernel[there, here] += block.T
    return kernel


def multiply_linear_layers(
    function: WeightFunction, columns: Sequence[int]
) -> tuple[Tensor, set[str]]:
    """Return Σ_c ⟨∇f_c(x), ∇f_c(x′)⟩ over the weights of linear layers, and their names.

    Of y = W h + b the gradients are δ hᵀ and δ, where δ = ∂f_c/∂y. Left out are layers that run
    more than once or on several rows per sample, and weights that are used elsewhere too.
    """
    count = len(function.samples)
    kernel = torch.zeros(count, count, dtype=torch.float64, device=function.device)
    done: set[str] = set()
    if len(function.groups) > 1:
        return kernel, done
    calls: dict[str, list[tuple[Tensor, GradientEdge]]] = {}

    def see(path: str, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        # The edge, because what follows may overwrite the output; and a copy of the input.
        calls.setdefault(path, []).append((args[0].detach().clone(), get_gradient_edge(output)))

    with ExitStack() as stack, torch.enable_grad():
        for path, module in function.model.named_modules():
            if type(module) is nn.Linear and f"{path}.weight" in function.weights:
                stack.callback(module.register_forward_hook(partial(see, path)).remove)
        leaves = {n: w.detach().requires_grad_() for n, w in function.weights.items()}
        sums = function.compute(leaves, function.groups[0][1]).sum(dim=0).unbind()
    layers = {p: c[0] for p, c in calls.items() if len(c) == 1 and c[0][0].shape[:-1] == (count,)}
    edges = [edge for _, edge in layers.values()]
    for column in columns if layers else ():
        found = torch.autograd.grad(sums[column], edges, retain_graph=True, materialize_grads=True)
        slopes = dict(zip(layers, found, strict=True))
        if not done:
            done = _find_whole(layers, slopes, leaves, sums[column])
        for path, (h, _) in layers.items():
            products = torch.zeros_like(kernel)
            if f"{path}.weight" in done:
                products += h @ h.T
            if f"{path}.bias" in done:
                products += 1
            kernel += slopes[path] @ slopes[path].T * products
    return kernel, done


def _find_whole(
    layers: Mapping[str, tuple[Tensor, GradientEdge]],
    slopes: Mapping[str, Tensor],
    leaves: Weights,
    value: Tensor,
) -> set[str]:
    """Return the weights whose gradient is what their layer brings: Σ δ hᵀ and Σ δ."""
    sums = {f"{path}.weight": slopes[path].T @ h for path, (h, _) in layers.items()}
    sums |= {f"{path}.bias": slope.sum(dim=0) for path, slope in slopes.items()}
    names = [name for name in sums if name in leaves]
    there = [leaves[name] for name in names]
    found = torch.autograd.grad(value, there, retain_graph=True, materialize_grads=True)
    gaps = [
        (n, float((g - sums[n]).norm()), float(g.norm())) for n, g in zip(names, found, strict=True)
    ]
    return {name for name, gap, size in gaps if gap <= EXACT * size}


def _rows(gradient: Tensor) -> Tensor:
    return gradient.flatten(1)
