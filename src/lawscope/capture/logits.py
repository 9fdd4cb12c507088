"""When the output of a product is the logits: what may lie between the two."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from lawscope.capture.pooling import pool
from lawscope.capture.products import Product
from lawscope.capture.session import EXAMPLE_SAMPLES
from lawscope.capture.stations import Reduce

EXACT, HALF = 1e-4, 3e-2  # how far logits may be from the head's output, by precision


def outputs_of(output: Any, samples: int) -> list[Tensor]:
    """What may be logits: the tensor called so, or every one with rows of floats."""
    if dataclasses.is_dataclass(output) and not isinstance(output, type | Mapping):
        output = {f.name: getattr(output, f.name) for f in dataclasses.fields(output)}
    if isinstance(output, Mapping):
        items = [output["logits"]] if "logits" in output else list(output.values())
    else:
        items = list(output) if isinstance(output, list | tuple) else [output]
    rows = min(samples, EXAMPLE_SAMPLES)
    tensors = [t for t in items if isinstance(t, Tensor) and t.is_floating_point() and t.dim() > 1]
    flat = [t.flatten(1) if t[0].numel() == max(t.shape[1:]) else t for t in tensors]
    return [t for t in flat if t.dim() == 2 and len(t) in (rows, samples)]


def reductions(product: Product) -> Iterator[tuple[str, Reduce]]:
    """How positions or tokens may become one."""
    if product.output.dim() == 2:
        yield "", lambda x, mask: x
    elif product.channels_first:
        yield "mean", lambda x, mask: x.flatten(2).mean(dim=2)
    elif product.output.dim() == 3:
        yield "mean", lambda x, mask: pool(x, "mean", mask)
        yield "mean of all", lambda x, mask: pool(x, "mean", None)
        yield "first", lambda x, mask: x[:, 0]
        yield "last", lambda x, mask: pool(x, "last", mask)


def before_softmax(logits: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The output as it is, and what it would be before a softmax."""
    wide = logits.double()
    yield "", wide
    if torch.allclose(wide.logsumexp(dim=1), torch.zeros_like(wide[:, 0]), atol=1e-3):
        yield "log-softmax", wide - wide.mean(dim=1, keepdim=True)
    if bool((wide > 0).all()) and torch.allclose(
        wide.sum(dim=1), torch.ones_like(wide[:, 0]), atol=1e-3
    ):
        logs = wide.log()
        yield "softmax", logs - logs.mean(dim=1, keepdim=True)


def scale_of(scores: Tensor, target: Tensor, centred: bool) -> float | None:
    """The factor s > 0 with target = s·scores, or None."""
    exact = EXACT if scores.dtype in (torch.float32, torch.float64) else HALF
    wide = scores.double()
    if centred:
        wide = wide - wide.mean(dim=1, keepdim=True)
    square = float(wide.square().sum())
    scale = float((wide * target).sum()) / square if square else 1.0
    far = float((target - scale * wide).abs().max())
    if not (scale > 0 and far <= exact * float(target.abs().max())):
        return None
    if abs(scale - 1) < exact:
        return 1.0
    # One sample of two classes is one number once centred, and any two numbers have a factor.
    return None if centred and len(wide) == 1 and wide.shape[1] == 2 else scale


def is_linear(product: Product, features: Tensor, scores: Tensor) -> bool:
    """Whether the reduced features give the reduced scores: it fails for a maximum."""
    again = features.double() @ product.weight.double().T
    if product.bias is not None:
        again = again + product.bias.double()
    return scale_of(scores, again, centred=False) == 1.0
