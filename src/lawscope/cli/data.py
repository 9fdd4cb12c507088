"""``--data``: a known name, an .npz, or a folder of images by class."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.utils.data import DataLoader, TensorDataset

from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import as_inputs
from lawscope.zoo.images.catalogue import find_data
from lawscope.zoo.images.folder import resize
from lawscope.zoo.images.sampling import balanced

# What pixels in [−1, 1] plus 1 are multiplied by, and the range that this gives.
SCALES = {
    "-1:1": (None, "[−1, 1]"),
    "0:1": (0.5, "[0, 1]"),
    "none": (127.5, "[0, 255], as they are"),
}


def check_pixels(options: SimpleNamespace) -> None:
    """Refuse what makes no sense of --scale, --mean and --std, before anything is loaded."""
    if options.scale not in SCALES:
        raise LawscopeError(f"--scale {options.scale} is not known; choose {', '.join(SCALES)}.")
    if (options.mean is None) != (options.std is None):
        raise LawscopeError("--mean and --std go together: one number, or one per channel.")
    if options.mean is not None and options.scale == "none":
        raise LawscopeError("--mean and --std are of pixels in [0, 1]; leave --scale out.")


def scale_pixels(inputs: Tensor, options: SimpleNamespace) -> tuple[Tensor, str]:
    """Return inputs (n, C, …) in [−1, 1] as asked for, and what was done to them."""
    factor, words = SCALES[options.scale]
    if options.mean is None:
        scaled = inputs if factor is None else (inputs + 1) * factor
        return scaled, f"pixels scaled to {words}"
    mean, std = (_read_column(name, getattr(options, name), inputs) for name in ("mean", "std"))
    said = f"pixels scaled to [0, 1], then by mean {options.mean} and std {options.std}"
    return ((inputs + 1) / 2 - mean) / std, said


def _read_column(name: str, written: str, inputs: Tensor) -> Tensor:
    try:
        numbers = [float(part) for part in written.split(",")]
    except ValueError:
        raise LawscopeError(f"--{name} {written} is not a number or a list of them.") from None
    if len(numbers) not in (1, inputs.shape[1]) or (name == "std" and min(numbers) <= 0):
        raise LawscopeError(
            f"--{name} {written} does not fit {inputs.shape[1]} channel(s); give one positive "
            "number, or one per channel with commas."
        )
    return torch.tensor(numbers).view(1, -1, *[1] * (inputs.dim() - 2))


def load_data(
    options: SimpleNamespace, model: nn.Module
) -> tuple[DataLoader[Any], tuple[str, ...], str]:
    """Return batches for ``model``, the names of the classes, and what was done to the pixels.

    Images come as (C, H, W), flattened when the network begins with a linear layer of that many
    inputs, and in the precision of its weights.
    """
    split, samples = options.split, options.samples
    size = None if options.size is None else parse_size(options.size)
    found = find_data(options.data, data_dir=options.data_dir, size=size)
    if split not in ("train", "test"):
        raise LawscopeError(f"--split {split} is not known; choose train or test.")
    x, y = (found.x_train, found.y_train) if split == "train" else (found.x_test, found.y_test)
    if not len(y):
        raise LawscopeError(f"{found.name} has no {split} part; choose the other --split.")
    if size is not None and x.dtype == np.uint8 and x.shape[1:3] != size:
        x = resize(x, size)
    if samples is not None and samples < len(y):
        x, y = balanced(x, y, _even(np.bincount(y), samples), options.seed)
    inputs, said = as_inputs(x, flatten=False), ""
    if x.dtype == np.uint8:
        inputs, said = scale_pixels(inputs, options)
    # In the first floating-point type that is not packed.
    floats = (p.dtype for p in model.parameters() if p.is_floating_point())
    inputs = inputs.to(next((kind for kind in floats if kind.itemsize > 1), torch.float32))
    if _takes_flat(model, math.prod(inputs.shape[1:])):
        inputs = inputs.flatten(1)
    batches = DataLoader(
        TensorDataset(inputs, torch.from_numpy(y)), batch_size=options.batch_size or 256
    )
    return batches, found.class_names, said


def _even(available: np.ndarray, samples: int) -> list[int]:
    """Return as many of each class as ``samples`` allows, no more than there are."""
    counts = np.zeros_like(available)
    while counts.sum() < samples:
        open_classes = np.flatnonzero(counts < available)
        share = max(1, int(samples - counts.sum()) // len(open_classes))
        for k in open_classes[: int(samples - counts.sum())]:
            counts[k] += min(share, available[k] - counts[k], samples - counts.sum())
    return [int(c) for c in counts]


def _takes_flat(model: nn.Module, features: int) -> bool:
    """Return whether the network begins with a linear layer of just so many inputs."""
    layers = (m for m in model.modules() if isinstance(m, _ConvNd | nn.Linear))
    first = next(layers, None)
    return isinstance(first, nn.Linear) and first.in_features == features


def parse_size(size: str) -> tuple[int, int]:
    """Return height and width from ``--size``: "32x32", or "32" for both."""
    height, by, width = size.lower().replace("×", "x").partition("x")
    parts = height, width if by else height
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise LawscopeError(f"--size {size} is not a size; write it like 32x32.")
    return int(parts[0]), int(parts[1])
