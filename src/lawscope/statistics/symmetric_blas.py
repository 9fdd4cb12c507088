"""Symmetric matrices by BLAS and LAPACK: one triangle, in half the time of a whole product.

torch multiplies whole matrices only. SciPy ships both libraries and exports their functions by
pointer, as it does for Cython and as numba takes them; called through ctypes they let other threads
run meanwhile, which SciPy's own wrappers do not. What lives elsewhere than on the CPU, or a SciPy
that counts in other integers, is left to torch. So are products where torch has several threads:
those of two libraries would keep each other from the cores.

A tensor (m, d) lies in memory as BLAS expects a matrix (d, m) to, column after column: lower and
upper change places.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

_REAL: dict[torch.dtype, tuple[str, Any]] = {
    torch.float32: ("s", ctypes.c_float),
    torch.float64: ("d", ctypes.c_double),
}
STRIP = 96  # columns: whole vector registers, in either precision
MOST_STRIPS = 4  # narrower products run below the speed of wide ones


def add_gram(sums: Tensor, rows: Tensor, *, lower: bool = False) -> None:
    """Add XᵀX to one triangle of a matrix; the other is neither read nor written.

    Args:
        sums: shape (d, d), its rows contiguous.
        rows: X, shape (n, d).
        lower: which triangle; by default the upper.

    Example:
        >>> sums = torch.zeros(2, 2)
        >>> add_gram(sums, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> sums
        tensor([[10., 14.],
                [ 0., 20.]])
    """
    x = rows.to(sums).contiguous()
    if not x.numel():
        return
    syrk = _routine("syrk", sums) if torch.get_num_threads() == 1 else None
    if syrk is None:
        _add_by_strips(sums, x, lower)
        return
    n, dim = x.shape
    triangle = b"U" if lower else b"L"
    syrk(triangle, b"N", dim, n, 1.0, x, dim, 1.0, sums, sums.stride(0))


def _add_by_strips(sums: Tensor, x: Tensor, lower: bool) -> None:
    """The same by whole products: strips of columns from the diagonal on, 63 % of the matrix."""
    dim = len(sums)
    width = STRIP * -(-dim // (STRIP * MOST_STRIPS))
    for start in range(0, dim, width):
        before, strip = x[:, :start], x[:, start : start + width]
        inside = slice(start, start + width)
        corner = strip.T @ strip
        if lower:
            sums[inside, :start].addmm_(strip.T, before)
            sums[inside, inside] += corner.tril()
        else:
            sums[:start, inside].addmm_(before.T, strip)
            sums[inside, inside] += corner.triu()


def upper_factor(matrix: Tensor) -> Tensor | None:
    """Cholesky's R with RᵀR = A, written over A.

    Args:
        matrix: A, shape (d, d), contiguous; what is below the diagonal is not read.

    Returns:
        R with zeros below the diagonal, or None where A is not positive definite to rounding.

    Example:
        >>> upper_factor(torch.tensor([[4.0, 2.0], [torch.nan, 10.0]]))
        tensor([[2., 1.],
                [0., 3.]])
        >>> upper_factor(torch.tensor([[1.0, 2.0], [2.0, 1.0]])) is None
        True
    """
    if not len(matrix):
        return matrix
    potrf = _routine("potrf", matrix)
    failed = ctypes.c_int(0)
    if potrf is None:
        lower, info = torch.linalg.cholesky_ex(matrix.mT)  # reads below its diagonal
        matrix.copy_(lower.mT)
        failed.value = int(info)
    else:
        potrf(b"L", len(matrix), matrix, matrix.stride(0), failed)
    # Not every LAPACK says that it met a NaN.
    if failed.value or not bool(matrix.diagonal().isfinite().all()):
        return None
    return matrix.triu_()


def _routine(name: str, matrix: Tensor) -> Callable[..., None] | None:
    """A function of BLAS or LAPACK for matrices like this one; None where torch is to do it."""
    if matrix.device.type != "cpu" or matrix.dtype not in _REAL or matrix.stride(1) != 1:
        return None
    letter, real = _REAL[matrix.dtype]
    function = _exported(letter + name)
    if function is None:
        return None

    def call(*arguments: bytes | int | float | Tensor | ctypes.c_int) -> None:
        function(*(_by_reference(argument, real) for argument in arguments))

    return call


def _by_reference(argument: Any, real: Any) -> Any:
    """As Fortran takes it."""
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, Tensor):
        return argument.data_ptr()
    if isinstance(argument, ctypes.c_int):
        return ctypes.byref(argument)
    return ctypes.byref((real if isinstance(argument, float) else ctypes.c_int)(argument))


@cache
def _exported(name: str) -> Callable[..., None] | None:
    """The function that SciPy exports; None where its integers are not C's int."""
    from scipy.linalg import cython_blas, cython_lapack

    module = cython_lapack if name.endswith("potrf") else cython_blas
    capsule = module.__pyx_capi__[name]
    signature = _signature(capsule)
    if b" int *" not in signature:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    arguments = [ctypes.c_void_p] * (signature.count(b",") + 1)
    function: Callable[..., None] = ctypes.CFUNCTYPE(None, *arguments)(pointer(capsule, signature))
    return function


def _signature(capsule: object) -> bytes:
    """The C declaration under which a pointer is exported."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    signature: bytes = name(capsule)
    return signature
