"""Folders of images, and images of another size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.files import find_kind
from lawscope.progress import progress
from lawscope.zoo.images.arrays import Dataset, are_pixels, make_dataset

_GRAY_MODES = ("1", "L")
_COLOUR_MODES = ("P", "RGB", "RGBA", "LA", "CMYK", "YCbCr")

Pixels = NDArray[np.uint8]


def load_image_folder(path: str | Path, size: tuple[int, int] | None = None) -> Dataset:
    """Read a folder with one subfolder of images per class.

    Files and folders whose names begin with a dot are passed over. When every image is gray, so is
    the dataset; otherwise all become RGB. The subfolders, sorted by name, are the classes 0, 1,
    2, … Without a ``size`` to resize to, bilinearly, all images must have the same.
    """
    folder = Path(path).expanduser()
    if find_kind(folder) != "folder":
        raise LawscopeError(f"{folder} is not a folder: check the path")
    classes = {
        entry: [file for file in _visible(entry) if file.is_file()]
        for entry in _visible(folder)
        if entry.is_dir()
    }
    if not classes:
        raise LawscopeError(
            f"{folder} has no subfolders: make one per class and put its images there"
        )
    for entry, images in classes.items():
        if not images:
            raise LawscopeError(
                f"{entry} holds no images: fill or remove it; every subfolder is a class"
            )
    pixels = _read_all([file for images in classes.values() for file in images], size)
    labels = np.repeat(np.arange(len(classes)), [len(images) for images in classes.values()])
    names = tuple(entry.name for entry in classes)
    return make_dataset(folder.name, str(folder), (pixels, labels), class_names=names)


def resize(images: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize uint8 images (n, H, W) or (n, H, W, 3) bilinearly to a new height and width.

    A new pixel averages over what it covers, as in Pillow.
    """
    from PIL import Image

    if not are_pixels(images):
        raise LawscopeError(
            f"images of shape {images.shape} and type {images.dtype} cannot be resized: "
            "give uint8 pixels (n, H, W) or (n, H, W, 3)"
        )
    _check_size(size)
    height, width = size
    resized = np.empty((len(images), height, width, *images.shape[3:]), np.uint8)
    for index, image in enumerate(images):
        picture = Image.fromarray(np.ascontiguousarray(image))
        resized[index] = np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR))
    return resized


def _check_size(size: tuple[int, int]) -> None:
    if len(size) != 2 or min(size) < 1:
        raise LawscopeError(f"size {size} is not a height and a width of at least 1: give (H, W)")


def _visible(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted by name, without what begins with a dot."""
    entries = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entries, key=lambda entry: entry.name)


def _read_all(paths: list[Path], size: tuple[int, int] | None) -> Pixels:
    """Return all images as one array, gray or colour."""
    if size is not None:
        _check_size(size)
    pictures = []
    with progress("reading images", len(paths)) as advance:
        for path in paths:
            pictures.append(_read(path, size))
            here, first = pictures[-1].shape, pictures[0].shape
            if here[:2] != first[:2]:
                raise LawscopeError(
                    f"{path} is {here[0]}×{here[1]} where {paths[0]} is {first[0]}×{first[1]}: "
                    "give a size to resize them all to"
                )
            advance(1)
    if any(picture.ndim == 3 for picture in pictures):
        # A gray picture has its value in all three channels.
        pictures = [np.dstack([p] * 3) if p.ndim == 2 else p for p in pictures]
    return np.stack(pictures)


def _read(path: Path, size: tuple[int, int] | None) -> Pixels:
    """Return one image, (H, W) when it is gray and (H, W, 3) otherwise."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode not in _GRAY_MODES + _COLOUR_MODES:
                raise ValueError(f"its mode {image.mode} is not 8-bit gray or colour")
            # The transparency of a palette, if any, is resolved only by way of RGBA.
            plain = image.convert("RGBA") if image.mode == "P" else image
            picture = plain.convert("L" if image.mode in _GRAY_MODES else "RGB")
            if size is not None:
                picture = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            return np.array(picture, dtype=np.uint8)
    except Exception as error:  # Pillow's decoders raise many kinds
        raise LawscopeError(
            f"{path} cannot be read as an image ({error}): replace or remove it"
        ) from error
