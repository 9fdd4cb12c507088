from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lawscope.errors import LawscopeError
from lawscope.zoo.images.folder import load_image_folder, resize

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (3, 12, 9), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (3, 12, 9, 3), dtype=np.uint8)


def save(path: Path, pixels: Any, mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(path)


@pytest.mark.parametrize("pixels", [GRAY, COLOUR], ids=["gray", "colour"])
def test_subfolders_are_classes_in_the_order_of_their_names(tmp_path: Path, pixels: Any) -> None:
    for name, image in zip(["zebra/1.png", "ant/2.png", "ant/1.png"], pixels, strict=True):
        save(tmp_path / "animals" / name, image)
    (tmp_path / "animals/.hidden").mkdir()
    (tmp_path / "animals/ant/.DS_Store").touch()
    (tmp_path / "animals/readme.txt").write_text("not in a class, not read")
    data = load_image_folder(tmp_path / "animals")
    assert data.name == "animals"
    assert data.class_names == ("ant", "zebra")
    assert data.y_train.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(data.x_train, pixels[[2, 1, 0]])
    assert len(data.x_test) == 0


def test_gray_among_colour_becomes_colour(tmp_path: Path) -> None:
    save(tmp_path / "a/gray.png", GRAY[0])
    save(tmp_path / "b/colour.png", COLOUR[0])
    data = load_image_folder(tmp_path)
    np.testing.assert_array_equal(data.x_train[0], np.stack([GRAY[0]] * 3, axis=2))
    np.testing.assert_array_equal(data.x_train[1], COLOUR[0])


@pytest.mark.parametrize(("mode", "suffix"), [("RGBA", "png"), ("P", "gif"), ("CMYK", "tif")])
def test_other_colour_modes_become_rgb(tmp_path: Path, mode: str, suffix: str) -> None:
    save(tmp_path / f"a/image.{suffix}", COLOUR[0], mode)
    assert load_image_folder(tmp_path).x_train.shape == (1, 12, 9, 3)


def test_palette_with_transparency_gives_no_warning(tmp_path: Path) -> None:
    image = Image.fromarray(COLOUR[0]).quantize(4)
    (tmp_path / "a").mkdir()
    image.save(tmp_path / "a/image.png", transparency=bytes([0, 128, 255, 255]))
    assert load_image_folder(tmp_path).x_train.shape == (1, 12, 9, 3)


def test_different_sizes_are_an_error_unless_resized(tmp_path: Path) -> None:
    save(tmp_path / "a/1.png", GRAY[0])
    save(tmp_path / "b/2.png", GRAY[1][:, :8])
    with pytest.raises(LawscopeError, match=r"2\.png is 12×8 where .*1\.png is 12×9: give a size"):
        load_image_folder(tmp_path)
    data = load_image_folder(tmp_path, size=(5, 7))
    assert data.x_train.shape == (2, 5, 7)
    np.testing.assert_array_equal(data.x_train[0], resize(GRAY[:1], (5, 7))[0])


def test_sixteen_bits_are_refused_rather_than_clipped(tmp_path: Path) -> None:
    save(tmp_path / "a/deep.png", GRAY[0].astype(np.uint16) * 256)
    with pytest.raises(LawscopeError, match=r"deep\.png .*is not 8-bit gray or colour"):
        load_image_folder(tmp_path)


def test_folders_without_classes_or_images(tmp_path: Path) -> None:
    with pytest.raises(LawscopeError, match="nowhere is not a folder"):
        load_image_folder(tmp_path / "nowhere")
    with pytest.raises(LawscopeError, match="has no subfolders: make one per class"):
        load_image_folder(tmp_path)
    (tmp_path / "lonely").mkdir()
    with pytest.raises(LawscopeError, match="lonely holds no images"):
        load_image_folder(tmp_path)


@pytest.mark.parametrize("images", [GRAY, COLOUR, GRAY[:, ::-1]], ids=["gray", "colour", "flipped"])
@pytest.mark.parametrize("size", [(10, 10), (4, 7), (30, 20), (12, 9)])
def test_resize_is_what_pillow_does(images: Any, size: tuple[int, int]) -> None:
    resized = resize(images, size)
    assert resized.dtype == np.uint8
    for before, after in zip(images, resized, strict=True):
        picture = Image.fromarray(before.copy()).resize(size[::-1], Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(after, np.asarray(picture))


def test_halving_averages_over_what_a_pixel_covers() -> None:
    checkerboard = (np.indices((16, 16)).sum(axis=0) % 2 * 255).astype(np.uint8)
    halved = resize(checkerboard[None], (8, 8))
    assert np.abs(halved.astype(int) - 127).max() <= 16


@pytest.mark.parametrize("images", [GRAY.astype(float), GRAY[0], COLOUR[..., :2]])
def test_other_arrays_cannot_be_resized(images: Any) -> None:
    with pytest.raises(LawscopeError, match="cannot be resized: give uint8 pixels"):
        resize(images, (4, 4))


@pytest.mark.parametrize("size", [(0, 4), (4, -1), (4, 4, 4)])
def test_sizes_must_be_positive(size: Any, tmp_path: Path) -> None:
    with pytest.raises(LawscopeError, match=r"give \(H, W\)"):
        resize(GRAY, size)
    save(tmp_path / "a/1.png", GRAY[0])
    with pytest.raises(LawscopeError, match=r"give \(H, W\)"):
        load_image_folder(tmp_path, size=size)
