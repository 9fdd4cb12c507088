"""Rectangles, ellipses and triangles drawn from a seed, after the GeoMNIST of Zhang et al. 2021."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.whole_number import whole_number
from lawscope.zoo.images.arrays import Dataset, Split, make_dataset

NAME = "geometric-shapes"
CLASS_NAMES = ("rectangle", "ellipse", "triangle")
TRAIN_PER_CLASS, TEST_PER_CLASS, SIZE = 2000, 500, 32
SCALES = (0.85, 1.15)
BLURS = (0.01, 0.04)  # standard deviation over the side of the image
RADIUS = 0.36  # of a shape of scale 1, over the side of the image
ASPECT = 0.6  # short over long side of rectangles and ellipses
FINE = 3  # points a side in one pixel
AT_ONCE = 500


def draw_shapes(per_class: int, size: int = SIZE, seed: int = 0) -> Split:
    """Draw as many shapes of each class as wanted, in random order.

    A shape is white on black, turned by any angle, 0.85 to 1.15 times its size, and blurred. The
    first shapes of a class are the same however many are drawn.

    Args:
        per_class: shapes of each class.
        size: pixels a side.
        seed: of everything that is random.

    Returns:
        Pixels, uint8 of shape (3·per_class, size, size), and labels in the order of
        ``CLASS_NAMES``.

    Raises:
        LawscopeError: no shapes, images under 8 pixels, or a seed that is not a whole number.
    """
    count = whole_number("per_class", per_class, 1, "draws nothing")
    side = whole_number("size", size, 8, "has too few pixels for a shape")
    seed = whole_number("seed", seed, 0, "is not a seed")
    images = [_draw_class(label, count, side, seed) for label in range(len(CLASS_NAMES))]
    x, y = np.concatenate(images), np.repeat(np.arange(len(CLASS_NAMES)), count)
    order = np.random.default_rng([seed, len(CLASS_NAMES)]).permutation(len(y))
    return x[order], y[order]


@lru_cache(maxsize=1)
def load_shapes(data_dir: str | Path | None = None) -> Dataset:
    """Return 2000 training and 500 test shapes a class, 32×32; no file is needed."""
    train = draw_shapes(TRAIN_PER_CLASS)
    return make_dataset(NAME, NAME, train, draw_shapes(TEST_PER_CLASS, seed=1), CLASS_NAMES)


def _draw_class(label: int, count: int, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, label])
    # A row for each shape, so that fewer shapes are the first of more.
    angle, scale, blur = rng.uniform(size=(count, 3)).T
    turns, scales, blurs = 2 * np.pi * angle, _between(SCALES, scale), _between(BLURS, blur)
    parts = [slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE)]
    return np.concatenate([_paint(label, turns[p], scales[p], blurs[p], size) for p in parts])


def _between(ends: tuple[float, float], share: FloatArray) -> FloatArray:
    return ends[0] + (ends[1] - ends[0]) * share


def _paint(
    label: int, turns: FloatArray, scales: FloatArray, blurs: FloatArray, size: int
) -> np.ndarray:
    """Paint shapes as the share of each pixel that they cover, and blur them."""
    from scipy.ndimage import gaussian_filter

    line = (np.arange(size * FINE) + 0.5) / (size * FINE) - 0.5
    x, y = line[None, None, :], line[None, :, None]
    cos, sin, radius = (each[:, None, None] for each in (np.cos(turns), np.sin(turns), scales))
    radius = radius * RADIUS
    along, across = (cos * x + sin * y) / radius, (cos * y - sin * x) / radius
    fine = _covers(label, along, across).reshape(-1, size, FINE, size, FINE)
    shares = fine.mean(axis=(2, 4))
    blurred = [gaussian_filter(s, b * size) for s, b in zip(shares, blurs, strict=True)]
    return np.asarray(np.rint(255 * np.stack(blurred)), dtype=np.uint8)


def _covers(label: int, along: FloatArray, across: FloatArray) -> np.ndarray:
    """Return which points a shape of radius 1 covers."""
    if CLASS_NAMES[label] == "ellipse":
        return np.asarray(along**2 + (across / ASPECT) ** 2 <= 1)
    if CLASS_NAMES[label] == "rectangle":
        half = 1 / np.hypot(1, ASPECT)  # the corners lie at distance 1
        return np.asarray((np.abs(along) <= half) & (np.abs(across) <= half * ASPECT))
    # An equilateral triangle with a corner at (1, 0): its sides are 1/2 from the centre.
    slanted = 0.5 * along + np.sqrt(0.75) * np.abs(across)
    return np.asarray((-along <= 0.5) & (slanted <= 0.5))
