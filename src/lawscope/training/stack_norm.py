"""BatchNorm of a stack, in fewer passes over memory than the library's kernel on CPUs.

torch sums a channel's samples one by one in double precision (200 µs for 800 channels of 128, three
times the rest of the operation). Here they are summed by vector instructions, after centring, which
loses nothing: var = ‖x − x̄‖²/B.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class BatchNorm(torch.autograd.Function):
    """(x − x̄)/√(var + ε)·weight + bias over the last dimension of (channels, samples).

    ``BatchNorm.apply(x, weight, bias, running_mean, running_var, momentum, eps)``; the running
    statistics are updated in place as ``nn.BatchNorm1d`` does, with the unbiased variance.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, *running: Any) -> Tensor:
        """Normalise with the statistics of the batch."""
        running_mean, running_var, momentum, eps = running
        samples = x.shape[1]
        mean = x.mean(dim=1)
        centred = x - mean[:, None]
        var = torch.linalg.vector_norm(centred, dim=1).square_().div_(samples)
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(var * (samples / (samples - 1)), momentum)
        inverse = var.add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.eps = eps
        return centred.mul_((weight * inverse)[:, None]).add_(bias[:, None])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The library's own derivative, which is fast."""
        x, weight, mean, inverse = ctx.saved_tensors
        grads = torch.ops.aten.native_batch_norm_backward(
            gradients[0][None],
            x[None],
            weight,
            None,
            None,
            mean,
            inverse,
            True,
            ctx.eps,
            [True] * 3,
        )
        return (grads[0][0], grads[1], grads[2], None, None, None, None)
