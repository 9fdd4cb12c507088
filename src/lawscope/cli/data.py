"""``--data``: a known name, an .npz, or a folder of images by class."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.utils.data import DataLoader, TensorDataset

from lawscope.errors import LawscopeError
from lawscope.zoo.datasets import Dataset, resize
from lawscope.zoo.find import find_data
from lawscope.zoo.inputs import as_inputs
from lawscope.zoo.sampling import balanced

Loader = Iterable[tuple[torch.Tensor, torch.Tensor]]


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
) -> tuple[Loader, tuple[str, ...]]:
    """Batches for ``model`` and the names of the classes.

    Images come as (C, H, W) in [−1, 1], flattened when the network begins with a linear layer of
    that many inputs, and in the precision of its weights.

    Raises:
        LawscopeError: unknown name, unreadable file, split that is not there.
    """
    wanted = None if size is None else parse_size(size)
    found = find_data(data, data_dir=data_dir, size=wanted)
    x, y = _split(found, split)
    if wanted is not None and x.dtype == np.uint8 and x.shape[1:3] != wanted:
        x = resize(x, wanted)
    if samples is not None and samples < len(y):
        x, y = balanced(x, y, _even(np.bincount(y), samples), seed)
    inputs = as_inputs(x, flatten=False).to(_precision(model))
    if _takes_flat(model, math.prod(inputs.shape[1:])):
        inputs = inputs.flatten(1)
    dataset = TensorDataset(inputs, torch.from_numpy(y))
    return DataLoader(dataset, batch_size=batch_size), found.class_names


def _split(found: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
    if split not in ("train", "test"):
        raise LawscopeError(f"--split {split} is not known; choose train or test.")
    x, y = (found.x_train, found.y_train) if split == "train" else (found.x_test, found.y_test)
    if not len(y):
        raise LawscopeError(f"{found.name} has no {split} part; choose the other --split.")
    return x, y


def _even(available: np.ndarray, samples: int) -> list[int]:
    """As many of each class as ``samples`` allows, no more than there are."""
    counts = np.zeros_like(available)
    while counts.sum() < samples:
        open_classes = np.flatnonzero(counts < available)
        share = max(1, int(samples - counts.sum()) // len(open_classes))
        for k in open_classes[: int(samples - counts.sum())]:
            counts[k] += min(share, available[k] - counts[k], samples - counts.sum())
    return [int(c) for c in counts]


def _takes_flat(model: nn.Module, features: int) -> bool:
    """Whether the network begins with a linear layer of just so many inputs."""
    for module in model.modules():
        if isinstance(module, _ConvNd):
            return False
        if isinstance(module, nn.Linear):
            return module.in_features == features
    return False


def _precision(model: nn.Module) -> torch.dtype:
    """The floating-point type of the first weights (not of packed ones); single without any."""
    floats = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next((kind for kind in floats if kind.itemsize > 1), torch.float32)


def parse_size(size: str) -> tuple[int, int]:
    """Height and width from ``--size``: "32x32", or "32" for both."""
    parts = size.lower().replace("×", "x").split("x")
    if len(parts) == 1:
        parts = parts * 2
    if len(parts) != 2 or not all(p.isdigit() and int(p) > 0 for p in parts):
        raise LawscopeError(f"--size {size} is not a size; write it like 32x32.")
    return int(parts[0]), int(parts[1])
