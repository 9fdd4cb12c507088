"""Drawn shapes."""

import numpy as np
import pytest

from lawscope.errors import LawscopeError
from lawscope.zoo.images.catalogue import load
from lawscope.zoo.images.shapes import ASPECT, CLASS_NAMES, RADIUS, SCALES, draw_shapes

# Of shapes whose corners lie at distance 1, by hand.
AREAS = {
    "rectangle": 4 * ASPECT / (1 + ASPECT**2),
    "ellipse": np.pi * ASPECT,
    "triangle": 3 * np.sqrt(3) / 4,
}


@pytest.mark.parametrize("size", [32, 50])
def test_shapes_cover_their_area_in_every_size_and_position(size):
    x, y = draw_shapes(100, size)
    assert x.shape == (300, size, size)
    for label, name in enumerate(CLASS_NAMES):
        images = x[y == label] / 255.0
        scales = np.sqrt(images.mean(axis=(1, 2)) / (AREAS[name] * RADIUS**2))
        assert scales.min() == pytest.approx(SCALES[0], abs=0.02)
        assert scales.max() == pytest.approx(SCALES[1], abs=0.02)
        # All angles are there: what one image leaves dark another one lights, round the centre.
        place = np.indices((size, size)) - (size - 1) / 2
        moments = np.einsum("nij,ij->n", images, place[0] * place[1])
        assert abs(moments.mean()) < 4 * moments.std() / np.sqrt(len(moments))
        assert moments.std() > 0


def test_fewer_shapes_are_the_first_of_more_and_seeds_differ():
    few, many, other = draw_shapes(5), draw_shapes(40), draw_shapes(5, seed=1)
    for label in range(3):
        everything = {image.tobytes() for image in many[0][many[1] == label]}
        assert {image.tobytes() for image in few[0][few[1] == label]} < everything
        assert not everything & {image.tobytes() for image in other[0]}
    assert np.array_equal(draw_shapes(5)[0], few[0])


def test_they_are_a_dataset_of_the_zoo():
    data = load("geometric-shapes")
    assert data.class_names == ("rectangle", "ellipse", "triangle")
    assert np.bincount(data.y_train).tolist() == [2000] * 3
    assert np.bincount(data.y_test).tolist() == [500] * 3
    assert data.x_test.shape == (1500, 32, 32)


@pytest.mark.parametrize(
    ("how", "words"),
    [((0,), "per_class"), ((1, 4), "size"), ((1, 8, -1), "seed"), ((1, 8, "a"), "seed")],
)
def test_what_cannot_be_drawn_is_said(how, words):
    with pytest.raises(LawscopeError, match=words):
        draw_shapes(*how)
