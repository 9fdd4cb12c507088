"""A layer, checked: its weight and the moments at its two ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.theory.arguments import ROUNDING, read_array, read_symmetric


class LayerMoments(NamedTuple):
    """W with E[h hᵀ] of its inputs and E[g gᵀ] of its outputs."""

    weight: FloatArray
    H_a: FloatArray
    G_b: FloatArray


def read_layer(weight: ArrayLike, H_a: ArrayLike, G_b: ArrayLike) -> LayerMoments:
    """Return the three as matrices that fit, neither of them zero."""
    W = read_array("weight", weight, 2)
    if not W.any():
        raise LawscopeError("weight is zero, so it aligns with nothing; give a layer that acts.")
    outputs, inputs = W.shape
    return LayerMoments(W, read_moment("H_a", H_a, inputs), read_moment("G_b", G_b, outputs))


def read_moment(name: str, value: ArrayLike, size: int | None = None) -> FloatArray:
    """Return a second moment: symmetric, of the layer's size, its diagonal not negative."""
    moment = read_symmetric(name, value, size)
    diagonal = np.diag(moment)
    if diagonal.min() < -ROUNDING * np.abs(moment).max():
        raise LawscopeError(
            f"{name} has {diagonal.min():.3g} on its diagonal; compute it as E[x xᵀ]."
        )
    if not moment.any():
        gradient = name.startswith("G")
        found = "no gradient reaches the layer" if gradient else "nothing reaches the layer"
        raise LawscopeError(f"{name} is zero: {found}; leave the layer out.")
    return moment


def read_change(change: ArrayLike, W: FloatArray) -> FloatArray:
    """Return what W has learned, of its shape and not zero."""
    found = read_array("change", change, 2)
    if found.shape != W.shape:
        raise LawscopeError(
            f"change is {found.shape[0]}×{found.shape[1]}; it must be {W.shape[0]}×{W.shape[1]} "
            "like weight."
        )
    if not found.any():
        raise LawscopeError("change is zero: the layer has learned nothing; train it first.")
    return found
