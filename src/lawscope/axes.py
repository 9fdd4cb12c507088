"""The axes that results draw themselves on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = (5.0, 3.5)  # inches
SQUARE = (4.5, 4.0)


def given_or_new(ax: Axes | None, size: tuple[float, float] = WIDE) -> Axes:
    """Those of the caller, or the only ones of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, new = plt.subplots(figsize=size, layout="constrained")
    return new
