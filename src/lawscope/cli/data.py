"""``--data``: a known name, an .npz, or a folder of images by class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.utils.data import DataLoader, TensorDataset

from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import Dataset, as_inputs
from lawscope.zoo.images.catalogue import find_data
from lawscope.zoo.images.folder import resize
from lawscope.zoo.images.sampling import balanced

SCALES = ("-1:1", "0:1", "none")


@dataclass(frozen=True)
class Pixels:
    """How pixels become inputs: scaled to a range, then (x − mean)/std per channel."""

    scale: str = "-1:1"
    mean: str | None = None
    std: str | None = None

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise LawscopeError(f"--scale {self.scale} is not known; choose {', '.join(SCALES)}.")
        if (self.mean is None) != (self.std is None):
            raise LawscopeError("--mean and --std go together: one number, or one per channel.")
        if self.mean is not None and self.scale == "none":
            raise LawscopeError("--mean and --std are of pixels in [0, 1]; leave --scale out.")

    def apply(self, inputs: Tensor) -> Tensor:
        """Return inputs (n, C, …) in [−1, 1] as asked for."""
        if self.mean is not None:
            unit = (inputs + 1) / 2
            return (unit - self._column("mean", inputs)) / self._column("std", inputs)
        if self.scale == "0:1":
            return (inputs + 1) / 2
        return inputs if self.scale == "-1:1" else (inputs + 1) * 127.5

    def _column(self, name: str, inputs: Tensor) -> Tensor:
        written = getattr(self, name)
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

    def __str__(self) -> str:
        if self.mean is not None:
            return f"pixels scaled to [0, 1], then by mean {self.mean} and std {self.std}"
        ranges = {"-1:1": "[−1, 1]", "0:1": "[0, 1]", "none": "[0, 255], as they are"}
        return f"pixels scaled to {ranges[self.scale]}"


def load_data(
    data: str,
    *,
    model: nn.Module,
    data_dir: Path | None,
    size: str | None,
    split: str,
    samples: int | None,
    batch_size: int,
    seed: int,
    pixels: Pixels,
) -> tuple[DataLoader[Any], tuple[str, ...], str]:
    """Return batches for ``model``, the names of the classes, and what was done to the pixels.

    Images come as (C, H, W), flattened when the network begins with a linear layer of that many
    inputs, and in the precision of its weights.
    """
    wanted = None if size is None else parse_size(size)
    found = find_data(data, data_dir=data_dir, size=wanted)
    x, y = _split(found, split)
    if wanted is not None and x.dtype == np.uint8 and x.shape[1:3] != wanted:
        x = resize(x, wanted)
    if samples is not None and samples < len(y):
        x, y = balanced(x, y, _even(np.bincount(y), samples), seed)
    inputs, said = as_inputs(x, flatten=False), ""
    if x.dtype == np.uint8:
        inputs, said = pixels.apply(inputs), str(pixels)
    inputs = inputs.to(_precision(model))
    if _takes_flat(model, math.prod(inputs.shape[1:])):
        inputs = inputs.flatten(1)
    dataset = TensorDataset(inputs, torch.from_numpy(y))
    return DataLoader(dataset, batch_size=batch_size), found.class_names, said


def _split(found: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
    if split not in ("train", "test"):
        raise LawscopeError(f"--split {split} is not known; choose train or test.")
    x, y = (found.x_train, found.y_train) if split == "train" else (found.x_test, found.y_test)
    if not len(y):
        raise LawscopeError(f"{found.name} has no {split} part; choose the other --split.")
    return x, y


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
    for module in model.modules():
        if isinstance(module, _ConvNd):
            return False
        if isinstance(module, nn.Linear):
            return module.in_features == features
    return False


def _precision(model: nn.Module) -> torch.dtype:
    """Return the floating-point type of the first weights (not of packed ones), or single."""
    floats = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next((kind for kind in floats if kind.itemsize > 1), torch.float32)


def parse_size(size: str) -> tuple[int, int]:
    """Return height and width from ``--size``: "32x32", or "32" for both."""
    parts = size.lower().replace("×", "x").split("x")
    if len(parts) == 1:
        parts = parts * 2
    if len(parts) != 2 or not all(p.isdigit() and int(p) > 0 for p in parts):
        raise LawscopeError(f"--size {size} is not a size; write it like 32x32.")
    return int(parts[0]), int(parts[1])
