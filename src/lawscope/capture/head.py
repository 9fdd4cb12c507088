"""The head of a classifier, found by what it computes: the product whose output is the logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.outputs import open_output
from lawscope.capture.pooling import pool
from lawscope.capture.session import EXAMPLE_SAMPLES, Session
from lawscope.capture.stations import Station, name_nearest
from lawscope.capture.taps import Reduce, Tap
from lawscope.capture.trace import Product, join_name, trace
from lawscope.data.batches import Batch, spread
from lawscope.errors import LawscopeError, NotApplicableError

EXACT, HALF = 1e-4, 3e-2  # how far logits may be from the head's output, by precision
SUM = 1e-3  # how far the sum of probabilities may be from one
_PLAIN = (nn.Linear.forward, nn.Conv1d.forward, nn.Conv2d.forward, nn.Conv3d.forward)


@dataclass(frozen=True, eq=False)
class Head:
    """The last linear step of a classifier: logits = weight·h + bias."""

    path: str  # of the module, as named_modules() spells it
    function: str  # name of the product when the module is more than it, else empty
    kind: str  # "linear", "1×1 convolution", "cosine" (unit rows and features), "tied" or "product"
    weight: Tensor  # one row per class, a scale of the logits included, shape (K, p), float64
    bias: Tensor | None  # the same scale included, shape (K,), float64
    scale: float  # what the network multiplies the product by
    after: str  # "log-softmax" or "softmax" when the network returns that, else empty
    positions: str  # how positions become one: "mean", "mean of all", "first", "last"; or empty
    tap: Tap  # where the features that enter are read, and how

    @property
    def name(self) -> str:
        """The module path, and the function where the module is more than it."""
        return join_name(self.path, self.function) or "the network"


def find_head(session: Session, name: str | None = None) -> Head:
    """Run a few samples and find the product with a matrix that gives what the network returns.

    It is found by value, not by name: ``nn.Linear``, a 1×1 convolution before or after pooling,
    ``F.linear`` with a tied embedding, a cosine head, the ``.logits`` of Hugging Face. A common
    factor on the logits counts into the weights; log-softmax and softmax on top are seen through.
    A name chooses where the network has several; otherwise that is not applicable, as is none.
    """
    if name is not None and not (isinstance(name, str) and name in session.module_names):
        near = name_nearest(str(name), session.module_names)
        raise LawscopeError(f"The network has no module head={name!r}.{near}")
    look, found = partial(_find_heads, name=name), None
    if session.example.size < EXAMPLE_SAMPLES:
        # One sample in two dimensions is on a line with zero, and any squashing looks linear.
        with suppress(Exception):  # made for one batch size, or for certain inputs, only
            found = session.look(look, spread(session.example, EXAMPLE_SAMPLES))
    heads, finite, looked_at = found if found and found[1] else session.look(look)
    if not finite:
        raise NotApplicableError(
            "The network returns NaN or infinite values for the first samples; look at its "
            "weights and inputs before measuring."
        )
    if not heads:
        raise NotApplicableError(looked_at)
    if len(heads) > 1:
        names = ", ".join(f"'{h.name}'" for h in heads)
        path = next((h.path for h in heads if h.path), "")
        raise NotApplicableError(
            f"The network returns the outputs of {len(heads)} linear heads ({names}); name the one "
            f"to measure with head='{path}'."
        )
    if len(heads[0].weight) < 2:
        raise NotApplicableError(
            f"The head '{heads[0].name}' has one row, so the network returns one number per sample "
            "(a regression or a yes/no score) and no row per class."
        )
    return heads[0]


def _find_heads(model: nn.Module, batch: Batch, name: str | None) -> tuple[list[Head], bool, str]:
    """Return the heads of all outputs, whether these are finite, and what was looked at."""
    found = trace(model, batch, copies=True)
    products = found.products
    if name is not None:
        products = [p for p in products if p.path == name or p.path.startswith(f"{name}.")]
    outputs = outputs_of(found.output, batch.size)
    finite = all(bool(logits.isfinite().all()) for logits in outputs)
    heads: dict[str, Head] = {}
    for logits in outputs if finite else []:
        matches = (_match(model, p, logits, batch.mask) for p in reversed(products))
        head = next((m for m in matches if m is not None), None)
        if head is not None:
            heads.setdefault(head.name, head)
    return list(heads.values()), finite, _nothing(products, found.output, name)


def _match(model: nn.Module, product: Product, logits: Tensor, mask: Tensor | None) -> Head | None:
    """Return the head that this product is, if the logits come out of it."""
    for positions, reduce in reductions(product):
        scores = reduce(product.output, mask)
        if scores.shape != logits.shape:
            continue
        for after, target in before_softmax(logits):
            scale = scale_of(scores, target, centred=bool(after))
            if scale is not None and is_linear(product, reduce(product.operand, mask), scores):
                return _head(model, product, scale, after, positions, reduce)
    return None


def _head(
    model: nn.Module, product: Product, scale: float, after: str, positions: str, reduce: Reduce
) -> Head:
    module = model.get_submodule(product.path)
    plain = type(module).forward in _PLAIN
    weight, bias = product.weight.detach().to("cpu", torch.float64), product.bias
    name, kind = "" if plain else product.function, _kind(product, plain, weight)
    station = Station(
        f"{product.path}:features",
        "entrance" if plain else "operand",
        (weight.shape[1],),
        product.operand.dtype,
        product.path,
        product.module_call if plain else product.call,
        name,
        channels_first=product.channels_first,
        device=product.operand.device,
    )
    bias = None if bias is None else bias.detach().to("cpu", torch.float64) * scale
    made = weight * scale, bias, scale, after, positions, Tap(station, reduce=reduce)
    return Head(product.path, name, kind, *made)


def _kind(product: Product, plain: bool, weight: Tensor) -> str:
    if product.channels_first:
        return "1×1 convolution"
    if product.tied:
        return "tied"
    if plain:
        return "linear"
    rows = weight, product.operand.double()
    lengths = torch.cat([row.norm(dim=-1).flatten().cpu() for row in rows])
    unit = ((lengths - 1).abs() < EXACT) | (lengths == 0)  # a dead feature has no direction
    return "cosine" if bool(unit.all()) else "product"


def _nothing(seen: list[Product], output: Any, name: str | None) -> str:
    """Say what was looked at."""
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    where = f"head='{name}'" if name is not None else "the network"
    looked = "; ".join(str(p) for p in reversed(seen[-4:])) or "no product with a matrix ran"
    return (
        f"No linear step of {where} gives what the network returns ({shape}), so there is no head "
        f"to measure; looked at, last first: {looked}. Pass a network that ends in a linear "
        "layer, or name the layer with head=."
    )


def outputs_of(output: Any, samples: int) -> list[Tensor]:
    """Return what may be logits: the tensor called so, or every one with rows of floats."""
    items = open_output(output)
    if isinstance(items, dict):
        items = [items["logits"]] if "logits" in items else items.values()
    elif not isinstance(items, list | tuple):
        items = [items]
    tensors = [t for t in items if isinstance(t, Tensor) and t.is_floating_point() and t.dim() > 1]
    flat = [t.flatten(1) if t[0].numel() == max(t.shape[1:]) else t for t in tensors]
    return [t for t in flat if t.dim() == 2 and len(t) == samples]


def reductions(product: Product) -> Iterator[tuple[str, Reduce]]:
    """Yield how positions or tokens may become one."""
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
    """Yield the output as it is, and what it would be before a softmax."""
    wide = logits.double()
    yield "", wide
    if bool((wide.logsumexp(dim=1).abs() <= SUM).all()):
        yield "log-softmax", wide - wide.mean(dim=1, keepdim=True)
    if bool((wide > 0).all() and ((wide.sum(dim=1) - 1).abs() <= SUM).all()):
        yield "softmax", wide.log() - wide.log().mean(dim=1, keepdim=True)


def scale_of(scores: Tensor, target: Tensor, centred: bool) -> float | None:
    """Return the factor s > 0 with target = s·scores, or None."""
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
    """Return whether the reduced features give the reduced scores: it fails for a maximum."""
    again = features.double() @ product.weight.double().T
    if product.bias is not None:
        again = again + product.bias.double()
    return scale_of(scores, again, centred=False) == 1.0
