"""Cosines between classifiers as a picture: every pair a cell, the largest classes first."""

from __future__ import annotations

import warnings

import numpy as np
from markupsafe import Markup

from lawscope.laws.collapse_result import Collapse, FloatArray
from lawscope.report.numbers import fixed, shorten
from lawscope.report.svg import Frame, element, figure

FRAME = Frame("square", 340, 284, left=84, right=4, top=4, bottom=28)
MOST_CELLS = 30  # of more classes neighbours share a cell
NAMED = 12  # up to this many rows have their class beside them
LEVELS = 10  # shades of each colour


def cosine_charts(result: Collapse) -> list[tuple[str, Markup]]:
    """The measured cosines and, where there is a prediction, the predicted ones; with captions."""
    order = np.argsort(-result.training_counts, kind="stable")
    names = [result.class_names[k] for k in order]
    measured = result.classifier_cosines[np.ix_(order, order)]
    charts = [("measured", _chart("measured", measured, names, result.minority_cosine[0]))]
    if result.predicted is not None:
        told = result.predicted.cosines[np.ix_(order, order)]
        cosine = result.predicted.minority_cosine[0]
        charts.append(("predicted", _chart("predicted", told, names, cosine)))
    return charts


def _chart(name: str, cosines: FloatArray, names: list[str], minority: float) -> Markup:
    cells = averaged(cosines, MOST_CELLS)
    size = (FRAME.plot_right - FRAME.left) / len(cells)
    picture = Markup("").join(_shades(cells, size))
    picture += element(
        "rect", x=FRAME.left, y=FRAME.top, width=size * len(cells), height=size * len(cells),
        class_="frame", fill="none",
    )  # fmt: skip
    if len(names) <= NAMED:
        for k, label in enumerate(names):
            height = FRAME.top + (k + 0.5) * size + 4
            text = shorten(label, 11)
            picture += element("text", text, x=FRAME.left - 8, y=height, class_="tick end")
    below = f"{len(names)} classes, largest first"
    picture += element(
        "text", below, x=(FRAME.left + FRAME.plot_right) / 2, y=FRAME.height - 6,
        class_="label middle",
    )  # fmt: skip
    described = (
        f"Cosines between classifiers, {name}",
        f"The minority classifiers have a mean cosine of {fixed(minority, 2)}.",
    )
    return figure(FRAME, f"cosines-{name}", described, picture)


def averaged(cosines: FloatArray, most: int) -> FloatArray:
    """At most ``most`` rows and columns: means over neighbours where there are more.

    Example:
        >>> averaged(np.eye(4), 2).tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    if len(cosines) <= most:
        return cosines
    parts = np.array_split(np.arange(len(cosines)), most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a block of vanished classes stays NaN
        return np.array([[np.nanmean(cosines[np.ix_(a, b)]) for b in parts] for a in parts])


def _shades(cells: FloatArray, size: float) -> list[Markup]:
    """One path per shade, which is far shorter than a rectangle per cell."""
    levels = np.round(cells * LEVELS)
    shades = []
    for level in np.unique(levels[np.isfinite(levels)]):
        if level:
            where, tone = levels == level, "positive" if level > 0 else "negative"
            shades.append(_cells(where, size, tone, abs(float(level)) / LEVELS))
    if np.isnan(levels).any():
        shades.append(_cells(np.isnan(levels), size, "unknown", 1.0))
    return shades


def _cells(where: np.ndarray, size: float, tone: str, opacity: float) -> Markup:
    steps = [
        f"M{FRAME.left + column * size:.1f} {FRAME.top + row * size:.1f}h{size:.1f}v{size:.1f}"
        f"h-{size:.1f}z"
        for row, column in np.argwhere(where)
    ]
    return element("path", d="".join(steps), class_=f"cosine {tone}", fill_opacity=opacity)
