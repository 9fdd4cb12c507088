"""Parameter-free normalisation of rows, centred on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

NormKind = Literal["LayerNorm", "RMSNorm", "none"]


@dataclass(frozen=True)
class RowNorm:
    """A copy of a network's norm without gain and shift.

    Least squares is invariant under affine maps of the features, so that trained gains do not
    matter; the rescaling of every token does.

    Attributes:
        kind: "LayerNorm", (x − mean(x))/√(var(x) + ε); "RMSNorm", x/√(mean(x²) + ε); or "none".
        eps: ε.
    """

    kind: NormKind = "none"
    eps: float = 0.0

    def __call__(self, rows: Tensor, shift: Tensor, dtype: torch.dtype) -> Tensor:
        """Normalised rows (n, d) minus ``shift`` (d,), computed in ``dtype`` in fresh memory."""
        wide, less = rows.to(dtype), -shift.to(dtype)
        if self.kind == "LayerNorm":
            return F.layer_norm(wide, less.shape, bias=less, eps=self.eps)
        if self.kind == "RMSNorm":
            square = torch.linalg.vector_norm(wide, dim=1, keepdim=True).square_()
            return torch.addcmul(less, wide, square.div_(len(less)).add_(self.eps).rsqrt_())
        return wide + less
