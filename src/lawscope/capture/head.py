"""The head of a classifier, found by what it computes: the product whose output is the logits."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.batches import Batch, spread
from lawscope.capture.logits import (
    EXACT,
    before_softmax,
    is_linear,
    outputs_of,
    reductions,
    scale_of,
)
from lawscope.capture.products import Product, products
from lawscope.capture.session import EXAMPLE_SAMPLES, Session
from lawscope.capture.source import RandomState
from lawscope.capture.stations import Reduce, Station
from lawscope.errors import LawscopeError, NotApplicableError

_PLAIN = (nn.Linear.forward, nn.Conv1d.forward, nn.Conv2d.forward, nn.Conv3d.forward)


@dataclass(frozen=True, eq=False)
class Head:
    """The last linear step of a classifier: logits = weight·h + bias.

    Attributes:
        path: module path, as ``named_modules()`` spells it.
        function: bare name of the product when the module is more than it, else empty.
        kind: "linear", "1×1 convolution", "cosine" (unit rows and unit features), "tied" (the
            rows are an embedding) or "product".
        weight: one row per class, a scale of the logits included, shape (K, p), float64.
        bias: the same scale included, shape (K,), float64; None without one.
        scale: what the network multiplies the product by.
        after: "log-softmax" or "softmax" when the network returns that, else empty.
        positions: how positions or tokens are reduced to one: "mean", "mean of all", "first",
            "last", or empty when there is one.
        station: where the features that enter are read.
    """

    path: str
    function: str
    kind: str
    weight: Tensor
    bias: Tensor | None
    scale: float
    after: str
    positions: str
    station: Station

    @property
    def name(self) -> str:
        """The module path, and the function where the module is more than it."""
        called = f"{self.function}()" if self.function else ""
        return ".".join(part for part in (self.path, called) if part) or "the network"

    def to_dict(self) -> dict[str, Any]:
        """What it is, without the weights."""
        return {
            "name": self.name,
            "kind": self.kind,
            "rows": self.weight.shape[0],
            "features": self.weight.shape[1],
            "bias": self.bias is not None,
            "scale": self.scale,
            "after": self.after,
            "positions": self.positions,
        }


def find_head(session: Session, name: str | None = None) -> Head:
    """Run a few samples and find the product with a matrix that gives what the network returns.

    It is found by value, not by name: ``nn.Linear``, a 1×1 convolution before or after pooling,
    ``F.linear`` with a tied embedding, a cosine head, the ``.logits`` of Hugging Face. A common
    factor on the logits counts into the weights; log-softmax and softmax on top are seen through.

    Args:
        session: an opened network.
        name: module path of the head, where the network has several.

    Raises:
        NotApplicableError: no linear step gives the output, it has one row, it is not finite, or
            there are several heads and no name.
        LawscopeError: no module of that name.
    """
    _check_name(session, name)
    seen, output, batch = _run(session)
    mask = batch.mask
    if name is not None:
        seen = [p for p in seen if p.path == name or p.path.startswith(f"{name}.")]
    found: list[Head] = []
    for logits in outputs_of(output, batch.size):
        if not bool(logits.isfinite().all()):
            raise NotApplicableError(
                "The network returns NaN or infinite values for the first samples; look at its "
                "weights and inputs before measuring."
            )
        matches = (_match(session.model, p, logits, mask) for p in reversed(seen))
        head = next((m for m in matches if m is not None), None)
        if head is not None and head.name not in [h.name for h in found]:
            found.append(head)
    if not found:
        raise NotApplicableError(_nothing(seen, output, name))
    if len(found) > 1:
        names = ", ".join(f"'{h.name}'" for h in found)
        path = next((h.path for h in found if h.path), "")
        raise NotApplicableError(
            f"The network returns the outputs of {len(found)} linear heads ({names}); name the one "
            f"to measure with head='{path}' (--head {path})."
        )
    if len(found[0].weight) < 2:
        raise NotApplicableError(
            f"The head '{found[0].name}' has one row, so the network returns one number per sample "
            "(a regression or a yes/no score); collapse needs a row per class, at least two."
        )
    return found[0]


def _run(session: Session) -> tuple[list[Product], Any, Batch]:
    """Products and output of a few samples; made more than they are where the data gives few.

    One sample in two dimensions is on a line with zero, which makes any squashing look linear.
    """
    if session.example.size < EXAMPLE_SAMPLES:
        before, batch = RandomState(None), spread(session.example, EXAMPLE_SAMPLES)
        try:
            seen, output = products(session.model, batch)
            if all(bool(t.isfinite().all()) for t in outputs_of(output, batch.size)):
                return seen, output, batch
        except Exception:  # a network may be made for one batch size, or for certain inputs, only
            pass
        finally:
            before.restore()
    seen, output = session.on_few(products)
    return seen, output, session.example


def _match(model: nn.Module, product: Product, logits: Tensor, mask: Tensor | None) -> Head | None:
    """The head that this product is, if the logits come out of it."""
    mask = None if mask is None else mask[: len(logits)]
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
    weight = product.weight.detach().to("cpu", torch.float64)
    return Head(
        path=product.path,
        function="" if plain else product.function,
        kind=_kind(model, product, plain, weight),
        weight=weight * scale,
        bias=None
        if product.bias is None
        else product.bias.detach().to("cpu", torch.float64) * scale,
        scale=scale,
        after=after,
        positions=positions,
        station=Station(
            name=f"{product.path}:features",
            place="entrance" if plain else "operand",
            path=product.path,
            call=product.module_call if plain else product.call,
            function="" if plain else product.function,
            layer="",
            shape=(weight.shape[1],),
            dtype=product.operand.dtype,
            batch_dim=0,
            sequence=False,
            granularities=(),
            operation=-1,
            reduce=reduce,
        ),
    )


def _kind(model: nn.Module, product: Product, plain: bool, weight: Tensor) -> str:
    if product.channels_first:
        return "1×1 convolution"
    embeddings = (m.weight for m in model.modules() if isinstance(m, nn.Embedding))
    if any(product.weight.data_ptr() == e.data_ptr() for e in embeddings):
        return "tied"
    if plain:
        return "linear"
    lengths = torch.cat(
        [v.norm(dim=-1).flatten().cpu() for v in (weight, product.operand.double())]
    )
    unit = ((lengths - 1).abs() < EXACT) | (lengths == 0)  # a dead feature has no direction
    return "cosine" if bool(unit.all()) else "product"


def _check_name(session: Session, name: str | None) -> None:
    if name is None or name in session.module_names:
        return
    near = difflib.get_close_matches(str(name), session.module_names, n=3, cutoff=0.3)
    hint = f" Near it: {', '.join(near)}." if near else ""
    raise LawscopeError(f"The network has no module head={name!r}.{hint}")


def _nothing(seen: list[Product], output: Any, name: str | None) -> str:
    """What was looked at, in a sentence."""
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    where = f"head='{name}'" if name is not None else "the network"
    looked = "; ".join(str(p) for p in reversed(seen[-4:])) or "no product with a matrix ran"
    return (
        f"No linear step of {where} gives what the network returns ({shape}), so there is no head "
        f"to measure; looked at, last first: {looked}. Pass a network that ends in a linear "
        "layer, or name the layer with head=."
    )
