"""Anderson acceleration of a fixed-point iteration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Anderson:
    """The next place from the last few: the mixture whose residuals cancel best (type II).

    With residuals F_n = T(y_n) − y_n, their last differences ΔF, those of the places Δy, and
    γ = argmin ‖F_n − ΔF·γ‖, the next place is y_n + F_n − (Δy + ΔF)·γ (Walker and Ni, SIAM Journal
    on Numerical Analysis 2011). For a linear T this is GMRES.

    Args:
        size: length of a place.
        memory: differences kept.

    Example:
        >>> slow, place = np.array([0.9, 0.99]), np.zeros(2)
        >>> faster = Anderson(2, memory=2)
        >>> for _ in range(4):
        ...     place = faster.next(place, slow * place + 1 - place)
        >>> bool(np.allclose(place, [10, 100]))
        True
    """

    def __init__(self, size: int, memory: int) -> None:
        self._residuals = np.empty((memory, size))
        self._images = np.empty((memory, size))
        self._gram = np.zeros((memory, memory))
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._seen = 0

    def forget(self) -> None:
        """Begin anew."""
        self._last, self._seen = None, 0

    def next(self, place: FloatArray, residual: FloatArray) -> FloatArray:
        """Where to go from a place with this residual."""
        if self._last is not None:
            self._remember(place - self._last[0], residual - self._last[1])
        self._last = place, residual
        kept = min(self._seen, len(self._gram))
        onward = place + residual
        if kept:
            scale = 1 / np.sqrt(np.maximum(self._gram.diagonal()[:kept], 1e-300))
            gram = self._gram[:kept, :kept] * np.outer(scale, scale)
            side = scale * (self._residuals[:kept] @ residual)
            mixture = scale * np.linalg.lstsq(gram, side, rcond=1e-13)[0]
            onward -= mixture @ self._images[:kept]
        return onward

    def _remember(self, moved: FloatArray, change: FloatArray) -> None:
        memory = len(self._gram)
        slot = self._seen % memory
        self._residuals[slot], self._images[slot] = change, moved + change
        self._seen += 1
        kept = min(self._seen, memory)
        row = self._residuals[:kept] @ change
        self._gram[slot, :kept] = self._gram[:kept, slot] = row
