"""Features and labels as statistics want them, or a sentence about what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lawscope.arrays import as_native
from lawscope.data.labels import as_classes, has_values, read_labels
from lawscope.errors import LawscopeError


def as_features(features: Any, what: str = "features") -> Tensor:
    """Return a tensor or array of shape (n, ...) as a real tensor of shape (n, d).

    Whether the numbers are finite shows in their sums, which every statistic looks at anyway.
    """
    x = _plain(features, what)
    if x.is_complex():
        raise LawscopeError(f"The {what} are complex; measure their real part or their modulus.")
    if x.dim() == 0 or len(x) == 0:
        raise LawscopeError(f"The {what} have shape {tuple(x.shape)}: there are no samples.")
    x = x.reshape(len(x), -1)
    if x.shape[1] == 0:
        raise LawscopeError(f"The {what} have no columns: there is nothing to measure.")
    return x if x.is_floating_point() else x.to(torch.float64)


def as_labels(labels: Any, samples: int) -> Tensor:
    """Return class labels of one batch among several as int64 of shape (n,)."""
    y, names = read_labels(labels)
    if names:
        raise LawscopeError(
            f"The labels are text ('{names[0]}'), whose order other batches may change; encode "
            "them as class numbers."
        )
    return as_classes(y, samples, "the fuzziness")


def _plain(values: Any, what: str) -> Tensor:
    """Return a tensor without history."""
    if isinstance(values, Tensor):
        if not has_values(values):
            raise LawscopeError(
                f"The {what} are a meta, sparse, nested or quantized tensor; pass a dense one "
                "with values."
            )
        return values.detach() if values.requires_grad else values
    try:
        array = as_native(np.asanyarray(values))
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch lacks most of these
            array = array.astype(np.float64)
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        if isinstance(error, LawscopeError):
            raise
        kind = type(values).__name__
        raise LawscopeError(f"The {what} ({kind}) are not an array of numbers.") from error
