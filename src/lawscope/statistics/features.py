"""Features and labels as statistics want them, or a sentence about what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

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
    """Return class labels as int64 of shape (n,)."""
    y = _plain(labels, "labels")
    if y.dim() == 0 or (y.dim() == 2 and y.shape[1] == 1):
        y = y.flatten()
    if y.is_floating_point() or y.is_complex():
        raise LawscopeError(
            f"The labels are {y.dtype}, but classes are integers; for one-hot or soft labels pass "
            "labels.argmax(1)."
        )
    if y.dim() != 1 or len(y) != samples:
        raise LawscopeError(
            f"There are {samples} samples in the batch, but labels of shape {tuple(y.shape)}: one "
            "integer label per sample is needed."
        )
    return y.to(torch.int64)


def _plain(values: Any, what: str) -> Tensor:
    """Return a tensor without history."""
    if isinstance(values, Tensor):
        return values.detach() if values.requires_grad else values
    try:
        array = np.asarray(values)
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch lacks most of these
            array = array.astype(np.int64)
        return torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError) as error:
        kind = type(values).__name__
        raise LawscopeError(f"The {what} ({kind}) are not an array of numbers.") from error
