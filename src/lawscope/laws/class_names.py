"""What the classes are called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError


def class_names_of(given: Sequence[str] | None, classes: NDArray[np.int64]) -> tuple[str, ...]:
    """Names of the classes seen: those given, in order or by label, or the labels as text."""
    if given is None:
        return tuple(str(c) for c in classes)
    if len(given) == len(classes):
        return tuple(given)
    # Names for more classes than were seen: labels index into them.
    if classes.min() >= 0 and classes.max() < len(given):
        return tuple(given[c] for c in classes)
    raise LawscopeError(f"There are {len(given)} class names for {len(classes)} classes.")
