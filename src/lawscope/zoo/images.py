"""Folders of images, and images of another size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.progress import progress
from lawscope.zoo.arrays import Dataset, checked_dataset

_GRAY_MODES = ("1", "L")
_COLOUR_MODES = ("P", "RGB", "RGBA", "LA", "CMYK", "YCbCr")

if TYPE_CHECKING:
    from PIL import Image

Pixels = NDArray[np.uint8]


def load_image_folder(path: str | Path, size: tuple[int, int] | None = None) -> Dataset:
    """Read a folder with one subfolder of images per class.

    Files and folders whose names begin with a dot are passed over. When every image is gray, so is
    the dataset; otherwise all become RGB.

    Args:
        path: the folder; its subfolders, sorted by name, are the classes 0, 1, 2, …
        size: height and width to resize every image to, bilinearly; by default the images must
            have one size.

    Returns:
        The dataset, named after the folder, all of it to train on.

    Raises:
        LawscopeError: when there is no class or a class is empty, an image cannot be read, or
            sizes differ and no ``size`` is given.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise LawscopeError(f"{folder} is not a folder: check the path")
    classes = [entry for entry in _visible(folder) if entry.is_dir()]
    if not classes:
        raise LawscopeError(
            f"{folder} has no subfolders: make one per class and put its images there"
        )
    files: list[tuple[int, Path]] = []
    for label, entry in enumerate(classes):
        images = [file for file in _visible(entry) if file.is_file()]
        if not images:
            raise LawscopeError(
                f"{entry} holds no images: fill or remove it; every subfolder is a class"
            )
        files += [(label, file) for file in images]
    pixels = _read_all([file for _, file in files], size)
    labels = np.array([label for label, _ in files])
    names = tuple(entry.name for entry in classes)
    return checked_dataset(folder.name, str(folder), (pixels, labels), class_names=names)


def resize(images: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize images bilinearly, averaging over what one new pixel covers, as Pillow does.

    Args:
        images: uint8 of shape (n, H, W) or (n, H, W, 3).
        size: new height and width.

    Returns:
        uint8 of shape (n, *size) or (n, *size, 3).

    Raises:
        LawscopeError: when ``images`` has another shape or type, or a side of ``size`` is not
            positive.

    Example:
        >>> resize(np.full((5, 28, 28), 7, np.uint8), (10, 10)).shape
        (5, 10, 10)
    """
    from PIL import Image

    if images.dtype != np.uint8 or not (
        images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)
    ):
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
    """What a folder holds, sorted by name, without what begins with a dot."""
    entries = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entries, key=lambda entry: entry.name)


def _read_all(paths: list[Path], size: tuple[int, int] | None) -> Pixels:
    """All images as one array, gray or colour."""
    if size is not None:
        _check_size(size)
    pictures = []
    with progress("reading images", len(paths)) as advance:
        for path in paths:
            pictures.append(_read(path, size))
            first = pictures[0]
            if pictures[-1].shape[:2] != first.shape[:2]:
                height, width = pictures[-1].shape[:2]
                raise LawscopeError(
                    f"{path} is {height}×{width} where {paths[0]} is "
                    f"{first.shape[0]}×{first.shape[1]}: give a size to resize them all to"
                )
            advance(1)
    if all(picture.ndim == 2 for picture in pictures):
        return np.stack(pictures)
    return np.stack([_as_colour(picture) for picture in pictures])


def _read(path: Path, size: tuple[int, int] | None) -> Pixels:
    """One image, (H, W) when it is gray and (H, W, 3) otherwise."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            picture = _gray_or_rgb(image)
            if size is not None:
                picture = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            return np.array(picture, dtype=np.uint8)
    except Exception as error:  # Pillow's decoders raise many kinds
        raise LawscopeError(
            f"{path} cannot be read as an image ({error}): replace or remove it"
        ) from error


def _gray_or_rgb(image: Image.Image) -> Image.Image:
    """The image in Pillow's mode L or RGB."""
    if image.mode in _GRAY_MODES:
        return image.convert("L")
    if image.mode not in _COLOUR_MODES:
        raise ValueError(f"its mode {image.mode} is not 8-bit gray or colour")
    if image.mode == "P":  # its transparency, if any, is resolved only by way of RGBA
        image = image.convert("RGBA")
    return image.convert("RGB")


def _as_colour(picture: Pixels) -> Pixels:
    """A gray picture with its value in all three channels; colour as it is."""
    return np.repeat(picture[..., None], 3, axis=2) if picture.ndim == 2 else picture
