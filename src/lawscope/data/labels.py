"""Labels as people have them: numbers, text, one-hot rows, columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lawscope.arrays import as_native
from lawscope.errors import LawscopeError, NotApplicableError

SOFT = 1e-3  # how far the sum of soft labels may be from one


def read_labels(labels: Any) -> tuple[Tensor, tuple[str, ...]]:
    """Return labels as a tensor, and what its numbers stand for where they are text.

    Texts are numbered in their sorted order.
    """
    if isinstance(labels, Tensor):
        return labels, ()
    try:
        array = np.asanyarray(labels)
        array = as_native(array) if array.dtype.kind in "fiub" else np.asarray(array)
        if array.dtype.kind == "O":
            array = np.asarray(array.tolist())
        if _holds_text(labels, array):
            names, numbers = np.unique(_as_text(array), return_inverse=True)
            return torch.from_numpy(numbers), tuple(names.tolist())
        if array.dtype.kind == "u" and array.dtype.itemsize < 8:  # torch computes with few of these
            array = array.astype(np.int64)
        # A copy, because a column of a table cannot be written to, which torch warns about.
        return torch.from_numpy(array.copy()), ()
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, LawscopeError):
            raise
        raise LawscopeError(
            f"The labels of a batch ({type(labels).__name__}) are neither numbers nor text; encode "
            "them as class numbers."
        ) from error


def _holds_text(labels: Any, array: np.ndarray) -> bool:
    """Return whether all labels are text; some alone are an error."""
    if array.dtype.kind not in "USO":
        return False
    # NumPy turns numbers beside text into text.
    given = np.asarray(labels, dtype=object).ravel()
    others = [label for label in given if not isinstance(label, str | bytes)]
    if len(others) == len(given):
        return False
    if others:
        raise LawscopeError(
            f"The labels mix text with {others[0]!r}; give every sample a class, or leave it out."
        )
    return True


def _as_text(array: np.ndarray) -> np.ndarray:
    return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array


def as_classes(labels: Tensor, samples: int, law: str) -> Tensor:
    """Return labels as class numbers, int64 of shape (n,).

    Taken are whole numbers of any type, True and False, and one-hot rows.

    Raises:
        NotApplicableError: targets of a regression, or of several classes per sample.
        LawscopeError: any other labels that do not name one class per sample.
    """
    y = labels.detach()
    if not has_values(y):
        raise LawscopeError(
            "The labels are a meta, sparse, nested or quantized tensor; pass dense numbers."
        )
    if y.is_complex():
        raise LawscopeError("The labels are complex; encode them as class numbers.")
    if y.is_floating_point():
        y = y.double()  # what has eight bits cannot be compared
    if y.dim() == 0 or (y.dim() == 2 and y.shape[1] == 1):
        y = y.flatten()
    if y.is_floating_point() and not bool(y.isfinite().all()):
        lost = int((~y.isfinite()).sum())
        raise LawscopeError(f"{lost} of the labels are NaN or infinite; leave these samples out.")
    if y.dim() == 2 and len(y) == samples:
        y = _read_rows(y, law)
    if y.dim() != 1 or len(y) != samples:
        raise LawscopeError(
            f"There are {samples} samples in the batch, but labels of shape {tuple(y.shape)}: one "
            "label per sample is needed."
        )
    if y.is_floating_point() and not bool((y == y.round()).all()):
        example = float(y[y != y.round()][0])
        raise NotApplicableError(
            f"The targets look like a regression (one is {example:.4g}): {law} needs one class per "
            "sample."
        )
    classes = y.to(torch.int64)
    if y.dtype == torch.uint64 and bool((classes < 0).any()):
        raise LawscopeError(
            "The labels hold numbers of 2⁶³ or more; number the classes from 0, as "
            "numpy.unique(labels, return_inverse=True) does."
        )
    return classes


def _read_rows(rows: Tensor, law: str) -> Tensor:
    """Return the classes of one-hot rows (n, K); rows of integers are left as they are."""
    marked, width = rows.double().sum(dim=1), rows.shape[1]
    if are_marks(rows):
        if bool((marked == 1).all()):
            return rows.to(torch.uint8).argmax(dim=1)
        several = int(marked.max()) if marked.max() > 1 else 0
        raise NotApplicableError(
            f"The targets look like multi-label ones (a row marks {several} of {width} classes): "
            f"{law} needs one class per sample."
        )
    if not rows.is_floating_point():
        return rows
    if bool((rows >= 0).all() and ((marked - 1).abs() < SOFT).all()):
        raise LawscopeError(
            f"The labels are soft (rows of {width} numbers that sum to 1); pass labels.argmax(1)."
        )
    raise NotApplicableError(
        f"The targets look like a regression ({width} numbers per sample): {law} needs one class "
        "per sample."
    )


def has_values(tensor: Tensor) -> bool:
    """Return whether a tensor is dense and on a device with memory, with numbers of its own."""
    plain = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_nested)
    return plain and not tensor.is_quantized


def are_marks(labels: Tensor) -> bool:
    """Return whether all numbers are 0 or 1."""
    return bool(((labels == 0) | (labels == 1)).all())
