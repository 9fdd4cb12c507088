"""The norm a language model ends with, found by its numbers, and its parameter-free copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.capture.blocks import StreamBlocks
from lawscope.capture.trace import Call

NormKind = Literal["LayerNorm", "RMSNorm", "none"]
KINDS: tuple[NormKind, ...] = ("LayerNorm", "RMSNorm")
EPS = (1e-5, 1e-6, 1e-8, 1e-12)  # in use, the most frequent first
_EPS_NAMES = ("eps", "variance_epsilon", "epsilon", "norm_eps")


@dataclass(frozen=True)
class RowNorm:
    """A copy of a network's norm without gain and shift.

    Least squares is invariant under affine maps of the features, so that trained gains do not
    matter; the rescaling of every token does. "LayerNorm" is (x − mean(x))/√(var(x) + ε), "RMSNorm"
    is x/√(mean(x²) + ε).
    """

    kind: NormKind = "none"
    eps: float = 0.0

    def __call__(self, rows: Tensor, shift: Tensor, dtype: torch.dtype) -> Tensor:
        """Return normalised rows (n, d) minus ``shift`` (d,), in ``dtype``, in fresh memory."""
        wide, less = rows.to(dtype), -shift.to(dtype)
        if self.kind == "LayerNorm":
            return F.layer_norm(wide, less.shape, bias=less, eps=self.eps)
        if self.kind == "RMSNorm":
            square = torch.linalg.vector_norm(wide, dim=1, keepdim=True).square_()
            return torch.addcmul(less, wide, square.div_(len(less)).add_(self.eps).rsqrt_())
        return wide + less


def find_final_norm(calls: Sequence[Call], blocks: StreamBlocks) -> tuple[RowNorm, str]:
    """Find the norm between the last block and the head, and the kind of module it was found at.

    Among what modules that run after the last block take in and give out, the first that is the
    last block's output normalised, up to a gain and a shift per channel; "none" where there is
    none. Taking inputs into account finds norms that are not modules.
    """
    end = next(call for call in calls if call.module is blocks.modules[-1])
    assert end.stream_out is not None
    rows = end.stream_out.double().flatten(0, 1)
    # Many norms compute in float32 whatever the dtype of the stream.
    rounding = max(torch.finfo(dtype).eps for dtype in (end.stream_out.dtype, torch.float32))
    tolerance = 20 * rounding**0.75
    for call in sorted((c for c in calls if c.entered > end.entered), key=lambda c: c.entered):
        if any(call.module is inner for inner in blocks.modules[-1].modules()):
            continue
        for tensor in (call.stream_out, call.stream_in):
            if tensor is None or tensor.shape != end.stream_out.shape:
                continue
            made, eps = tensor.double().flatten(0, 1), _eps(call.module)
            candidates = [RowNorm("none"), *(RowNorm(kind, e) for kind in KINDS for e in eps)]
            misfits = [_misfit(norm, rows, made) for norm in candidates]
            best = misfits.index(min(misfits))
            if best and misfits[best] < tolerance:
                return candidates[best], type(call.module).__name__
    return RowNorm("none"), ""


def _misfit(norm: RowNorm, rows: Tensor, made: Tensor) -> float:
    """Return the share of the variation of ``made`` that no gain and shift per channel explain."""
    zero = torch.zeros(rows.shape[1], dtype=rows.dtype, device=rows.device)
    x = norm(rows, zero, torch.float64)
    x, y = x - x.mean(dim=0), made - made.mean(dim=0)
    gain = (x * y).sum(dim=0) / x.square().sum(dim=0).clamp(min=1e-300)
    whole = float(y.norm())
    return float((y - gain * x).norm()) / whole if whole > 0 else 1.0


def _eps(module: nn.Module) -> tuple[float, ...]:
    """Return what a module calls its ε, or what it may be."""
    own = (getattr(module, name, None) for name in _EPS_NAMES)
    return next(((value,) for value in own if isinstance(value, float)), EPS)
