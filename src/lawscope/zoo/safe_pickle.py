"""Pickles of plain data, read without running anything that is in them."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PickledArray:
    """Stands for ``numpy.ndarray`` while unpickling; admits bytes of type uint8 only.

    Attributes:
        value: the array.
    """

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], PickledType, bool, bytes]) -> None:
        _version, shape, kind, fortran, content = state
        if kind.name != "u1":
            raise pickle.UnpicklingError(f"an array has type {kind.name}, not unsigned bytes")
        flat = np.frombuffer(content, np.uint8)
        self.value = flat.reshape(shape, order="F" if fortran else "C")


class PickledType:
    """Stands for ``numpy.dtype`` while unpickling: its name, and nothing else."""

    __slots__ = ("name",)

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name = name.decode("ascii") if isinstance(name, bytes) else name

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment mean nothing for single bytes."""


# numpy renamed numpy.core in its version 2; files keep the name of the version that wrote them.
_STAND_INS = {
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): PickledType,
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
}


class _PlainDataUnpickler(pickle.Unpickler):
    """Knows the stand-ins above and no other class or function."""

    def find_class(self, module: str, name: str) -> Any:
        stand_in = _STAND_INS.get((module, name))
        if stand_in is None:
            raise pickle.UnpicklingError(f"it asks to run {module}.{name}, which is refused")
        return stand_in


def read_plain_pickle(content: bytes) -> Any:
    """Unpickle dicts, lists, numbers, bytes and uint8 arrays; anything else is refused.

    A pickle is a program, and an untrusted one may do harm. Here its only vocabulary is two inert
    stand-ins for numpy's classes, so not even numpy runs on what the file says.

    Args:
        content: the pickle. Strings of Python 2 come out as bytes.

    Returns:
        The data, arrays as ``PickledArray``.

    Raises:
        pickle.UnpicklingError: when it is damaged, or asks for anything else than plain data.

    Example:
        >>> read_plain_pickle(pickle.dumps({b"labels": [6, 9]}))
        {b'labels': [6, 9]}
        >>> read_plain_pickle(pickle.dumps(print))
        Traceback (most recent call last):
        _pickle.UnpicklingError: it asks to run builtins.print, which is refused
    """
    try:
        return _PlainDataUnpickler(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a damaged pickle may raise anything (documentation of pickle)
        raise pickle.UnpicklingError(f"it is damaged ({error})") from error
