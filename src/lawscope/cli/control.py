"""The untrained network that a scan holds a trained one against."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from lawscope.cli.checkpoint import load_checkpoint
from lawscope.cli.target import Target
from lawscope.errors import LawscopeError


def untrained_of(
    found: Target, model: nn.Module, checkpoint: Path | None, where: torch.device
) -> nn.Module | str:
    """The network built anew where the weights came from a checkpoint, else "auto".

    What a target builds the second time may be the trained network again (a function that returns
    a network made once, or that loads its weights itself); then "auto" as well.

    Args:
        found: the target that built ``model``.
        model: the network with the weights of ``checkpoint``.
        checkpoint: where its weights came from, if from a file.
        where: device to measure on.

    Returns:
        A network, or the word with which :func:`lawscope.scan` draws new weights.
    """
    if checkpoint is None or not found.rebuilds:
        return "auto"
    torch.manual_seed(0)
    try:
        second = found.build()
    except LawscopeError:  # a network that can be built only once
        return "auto"
    if _storages(second) & _storages(model):
        load_checkpoint(model, checkpoint)  # building may have written into what they share
        return "auto"
    second.to(where)
    return "auto" if _equal(second, model) else second


def _storages(model: nn.Module) -> set[int]:
    """Where the parameters lie."""
    return {p.untyped_storage().data_ptr() for p in model.parameters() if p.numel()}


def _equal(one: nn.Module, other: nn.Module) -> bool:
    """Whether all parameters have the same names and values."""
    a, b = dict(one.named_parameters()), dict(other.named_parameters())
    return a.keys() == b.keys() and all(
        p.shape == b[name].shape and bool((p == b[name]).all()) for name, p in a.items()
    )
