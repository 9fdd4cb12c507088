"""Alignments along a training, measured on samples kept from its data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.errors import LawscopeWarning
from lawscope.laws.alignment.law import alignment
from lawscope.theory.representation import RELATIONS
from lawscope.training.recorders import Recorder
from lawscope.whole_number import whole_number


def _cross_entropy(output: Tensor, labels: Tensor | None) -> Tensor:
    assert labels is not None
    return F.cross_entropy(output.flatten(0, -2), labels.flatten())


@dataclass(frozen=True)
class AlignmentRecorder(Recorder):
    """Write down the numbers of :func:`lawscope.alignment` under cross-entropy.

    Per step, float64, with a row for each layer in the order the data meets them: ``raw``,
    ``null`` and ``excess`` (layers, 6), in the order of
    ``lawscope.theory.representation.RELATIONS``; ``exponents`` (layers, 2), p and q; and ``cross``
    (layers,), of −E[g_b h_bᵀ] with WWᵀ. NaN where there is no number.

    Attributes:
        samples: how many, evenly spaced in the training data.
        null: random rotations behind each null.
    """

    samples: int = 512
    null: int = 20
    kind: ClassVar[str] = "alignment"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("samples", self.samples, 2, "is too few")
        whole_number("null", self.null, 2, "gives no spread")

    def choose(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.linspace(0, len(x) - 1, min(self.samples, len(x))).round().long()
        return x[rows], y[rows]

    def record(
        self, step: int, model: nn.Module, batch: tuple[Tensor, Tensor], loss: Tensor
    ) -> Mapping[str, float | Tensor]:
        with warnings.catch_warnings():  # which would come again at every step
            warnings.simplefilter("ignore", LawscopeWarning)
            found = alignment(model, batch, _cross_entropy, null=self.null, progress=False)
        layers = found.layers
        exponents = [layer.exponents for layer in layers]
        return {
            "raw": _stack([[each.raw[name] for name in RELATIONS] for each in layers]),
            "null": _stack([[each.null[name].mean for name in RELATIONS] for each in layers]),
            "excess": _stack([[each.excess[name] for name in RELATIONS] for each in layers]),
            "exponents": _stack(
                [(math.nan, math.nan) if e is None else (e.p, e.q) for e in exponents]
            ),
            "cross": _stack([each.cross.alignment for each in layers]),
        }


def _stack(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
