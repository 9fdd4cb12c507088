"""Types of numpy arrays, and arrays as torch can take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def as_native(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as torch can take it: of its types, bytes and strides, nothing masked."""
    refuse_masked(array)
    array = np.asarray(array)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array) if any(s < 0 for s in array.strides) else array


def as_floats(given: Any) -> FloatArray:
    """Return an array of real numbers, as float64.

    Raises:
        TypeError: complex numbers, whose imaginary parts numpy would drop.
        Exception: whatever else numpy says of what is not an array of numbers.
    """
    refuse_masked(given)
    found = np.asarray(given)
    if np.iscomplexobj(found):
        raise TypeError("its numbers are complex")
    return np.asarray(found, dtype=np.float64)


def refuse_masked(*arrays: Any) -> None:
    """Refuse arrays with masked entries, which almost everything would take for numbers."""
    if any(map(np.ma.is_masked, arrays)):
        raise LawscopeError(
            "An array has masked entries, which would count as numbers; fill them, or leave these "
            "samples out."
        )
