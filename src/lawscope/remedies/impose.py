"""A symmetry put into a network on purpose, so that weight decay makes it sparse or of low rank.

Written as a product, a weight has a symmetry whose fixed point is zero, and plain weight decay
pulls it there (Ziyin 2024): min over u∘v = w of (λ/2)(|u|² + |v|²) is λ|w|, and min over UV = W of
(λ/2)(‖U‖² + ‖V‖²) is λ times the nuclear norm of W.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils import parametrize

from lawscope.capture.restore import unwrap
from lawscope.capture.stations import name_nearest
from lawscope.checks import checked, is_list
from lawscope.errors import LawscopeError
from lawscope.formatting import many, name_some
from lawscope.lazy import pd

Kind = Literal["sparse", "low-rank"]
KINDS = ("sparse", "low-rank")


class Product(nn.Module):
    """W = u∘v, with u² − v² the mean size of a weight.

    Equal sizes would stay equal under gradient descent, and no weight could change its sign.
    """

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Return u∘v."""
        return u * v

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return u and v with this product."""
        gap = weight.abs().mean().clamp_min(torch.finfo(weight.dtype).tiny)
        u = ((gap + (gap**2 + 4 * weight**2).sqrt()) / 2).sqrt()
        return u, weight / u


class Factors(nn.Module):
    """W = UV of a matrix with a row for each unit, balanced: UᵀU = VVᵀ.

    Args:
        shape: of the weight.
        rank: columns of U and rows of V.
    """

    def __init__(self, shape: Sequence[int], rank: int) -> None:
        super().__init__()
        self.shape, self.rank = tuple(shape), rank

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Return UV in the shape of the weight."""
        return (u @ v).reshape(self.shape)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the factors of the nearest weight of this rank."""
        left, values, right = torch.linalg.svd(weight.flatten(1), full_matrices=False)
        root = values[: self.rank].sqrt()
        return (left[:, : self.rank] * root).contiguous(), root[:, None] * right[: self.rank]


@dataclass(eq=False, repr=False)
class ImposedSymmetry:
    """A network whose weights are written as products; :meth:`undo` makes it ordinary again.

    Attributes:
        model: the network.
        kind: "sparse" or "low-rank".
        layers: module paths of its layers that were rewritten.
        skipped: other layers with weights, each with the reason.
    """

    model: nn.Module
    kind: Kind
    layers: tuple[str, ...]
    skipped: dict[str, str]
    _before: dict[str, tuple[nn.Parameter, Tensor, Tensor]] = field(default_factory=dict)

    def table(self, threshold: float = 1e-3) -> pd.DataFrame:
        """Return weights, those below the threshold, and the rank of every layer.

        Both are relative to the largest weight or singular value of the layer.
        """
        rows = []
        for name in self.layers:
            weight = self._weight(name)
            small = weight.abs() <= threshold * weight.abs().max()
            rows.append((name, weight.numel(), int(small.sum()), _rank_of(weight, threshold)))
        return pd.DataFrame(rows, columns=["layer", "weights", "zeros", "rank"])

    def undo(self, threshold: float = 1e-3) -> nn.Module:
        """Write products out and drop what decayed: weights to 0, or layers to two thin ones.

        Weights, or singular values, of at most ``threshold`` times the largest of their layer are
        taken for zero. A layer of rank r becomes a thin layer without bias to r channels and one
        from there where that takes fewer parameters. A layer whose factors were not trained gets
        its old weight back.

        Returns:
            The ordinary network: the one given, or a new module where that is itself one layer of
            low rank. :func:`lawscope.compress` removes units whose weights are all zero.

        Raises:
            LawscopeError: the threshold is not a share, weights are NaN, or all was undone before.
        """
        if not isinstance(threshold, int | float) or not 0 <= threshold < 1:
            raise LawscopeError(f"threshold={threshold!r} is not a share from 0 to below 1.")
        if not self._before:
            raise LawscopeError("The symmetry was undone before.")
        for name in self._before:
            self._weight(name)
        for name, (old, u, v) in self._before.items():
            module = self._module(name)
            factors = module.parametrizations.weight
            trained = not (torch.equal(factors.original0, u) and torch.equal(factors.original1, v))
            parametrize.remove_parametrizations(module, "weight")
            weight = module.weight.detach()
            if not trained:
                _set_weight(module, old)
            elif self.kind == "sparse":
                kept = weight.abs() > threshold * weight.abs().max()
                _set_weight(module, nn.Parameter(weight * kept))
            else:
                self._thin(name, module, _rank_of(weight, threshold))
        self._before = {}
        return self.model

    def _thin(self, name: str, module: Any, rank: int) -> None:
        """Put two thin layers in the place of a layer, where that is smaller."""
        weight = module.weight.detach()
        u, v = Factors(weight.shape, max(rank, 1)).right_inverse(weight)
        if u.numel() + v.numel() >= weight.numel():
            _set_weight(module, nn.Parameter((u @ v).reshape(weight.shape)))
            return
        pair = _split_layer(module, u, v)
        if not name:
            self.model = pair
            return
        parent, _, own = name.rpartition(".")
        setattr(self.model.get_submodule(parent), own, pair)

    def _weight(self, name: str) -> Tensor:
        """Return the weight of a layer; refuse one that training has made NaN or infinite."""
        weight: Tensor = self._module(name).weight.detach()
        if not bool(weight.isfinite().all()):
            raise LawscopeError(
                f"The weight of layer '{name}' is NaN or infinite: training diverged. Train again "
                "with a smaller learning rate."
            )
        return weight

    def _module(self, name: str) -> Any:
        return self.model.get_submodule(name)

    def __str__(self) -> str:
        what = "as u∘v, for sparse weights" if self.kind == "sparse" else "as UV, for low rank"
        return f"{many(len(self.layers), 'layer')} written {what}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


@checked
def impose_symmetry(
    model: nn.Module,
    kind: Kind = "sparse",
    *,
    layers: str | Sequence[str] | None = None,
    rank: int | None = None,
) -> ImposedSymmetry:
    """Write weights as products, so that plain weight decay makes them sparse or of low rank.

    With ``weight_decay`` λ of ``torch.optim.SGD`` on the factors, training minimises the loss plus
    λ‖W‖₁ ("sparse", W = u∘v) or λ‖W‖_* ("low-rank", W = UV). The function of the network stays as
    it is until it is trained. Make the optimizer after this, for the parameters are new ones.
    ``AdamW`` decays weights apart from the loss, which is not such a penalty.

    Args:
        model: rewritten in place; every ``nn.Linear`` and convolution with a weight of its own.
        kind: "sparse" or "low-rank".
        layers: module paths of the layers to rewrite; all without it.
        rank: at most this many columns of U; weights of higher rank are replaced by the nearest
            one of this rank, which changes the network. The full rank without it.

    Returns:
        What was rewritten; ``.undo()`` makes an ordinary network of it, smaller where it decayed.

    Raises:
        LawscopeError: no layer can be rewritten, or a name is not that of one that can.

    Example:
        >>> net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
        >>> imposed = impose_symmetry(net, "sparse")
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=1e-3)
        >>> imposed.undo() is net
        True
    """
    if kind not in KINDS:
        raise LawscopeError(f"kind={kind!r} is not known; choose 'sparse' or 'low-rank'.")
    if rank is not None and (not isinstance(rank, int) or isinstance(rank, bool) or rank < 1):
        raise LawscopeError(f"rank={rank!r} is not a whole number; give at least 1.")
    if rank is not None and kind == "sparse":
        raise LawscopeError("rank= is for kind='low-rank'; a sparse weight has none to choose.")
    inner = unwrap(model)
    reasons = {
        name: _why_not(inner, module)
        for name, module in inner.named_modules()
        if isinstance(module, nn.Linear | _ConvNd)
    }
    chosen = _choose(layers, reasons)
    imposed = ImposedSymmetry(
        inner, kind, tuple(chosen), {n: why for n, why in reasons.items() if why}
    )
    for name in chosen:
        module: Any = inner.get_submodule(name)
        old = module.weight
        full = min(old.flatten(1).shape)
        factors = Product() if kind == "sparse" else Factors(old.shape, min(rank or full, full))
        parametrize.register_parametrization(module, "weight", factors)
        made = module.parametrizations.weight
        kept = made.original0.detach().clone(), made.original1.detach().clone()
        imposed._before[name] = old, *kept
    return imposed


def _choose(layers: Any, reasons: dict[str, str]) -> list[str]:
    if layers is None:
        chosen = [name for name, why in reasons.items() if not why]
        if not chosen:
            said = "; ".join(f"'{name}' {why}" for name, why in reasons.items())
            raise LawscopeError(
                f"The network has no layer to rewrite. {said or 'It has no nn.Linear or conv.'}"
            )
        return chosen
    names = [layers] if isinstance(layers, str) else layers
    if not is_list(names) or not len(names) or not all(isinstance(name, str) for name in names):
        raise LawscopeError(f"layers={layers!r} names no layers; give a list of module paths.")
    for name in names:
        if name not in reasons:
            near = name_nearest(name, list(reasons))
            raise LawscopeError(
                f"The network has no linear or convolutional layer '{name}'.{near} There are "
                f"{name_some(list(reasons), 8) or 'none'}."
            )
        if reasons[name]:
            raise LawscopeError(f"The layer '{name}' {reasons[name]}")
    return list(dict.fromkeys(names))


def _why_not(model: nn.Module, module: Any) -> str:
    """Return why a layer cannot be rewritten, else nothing."""
    weight = module._parameters.get("weight")
    if weight is None or parametrize.is_parametrized(module):
        return "has no weight of its own: it is computed."
    if isinstance(weight, nn.parameter.UninitializedParameter) or not weight.numel():
        return "has no weights yet; run the network once, or give it units."
    if not weight.is_floating_point() or weight.is_meta or not bool(weight.isfinite().all()):
        return "has weights that are not finite real numbers."
    if not weight.requires_grad:
        return "is frozen."
    if isinstance(module, _ConvTransposeNd):
        return "is a transposed convolution."
    owners = [m for m in model.modules() if any(p is weight for p in m._parameters.values())]
    return "shares its weight with another module." if len(owners) > 1 else ""


def _set_weight(module: nn.Module, parameter: nn.Parameter) -> None:
    """Put a parameter in the place of the weight, before the bias as it was."""
    bias = module._parameters.pop("bias", None)
    module._parameters.pop("weight", None)
    module._parameters["weight"], module._parameters["bias"] = parameter, bias


def _rank_of(weight: Tensor, threshold: float) -> int:
    values = torch.linalg.svdvals(weight.double().flatten(1))
    return int((values > threshold * values.max()).sum())


def _split_layer(module: Any, u: Tensor, v: Tensor) -> nn.Sequential:
    """Return a thin layer with the weight V, and one with U and the bias."""
    rank, like = v.shape[0], {"device": u.device, "dtype": u.dtype}
    has_bias = module.bias is not None
    thin: Any
    out: Any
    if isinstance(module, nn.Linear):
        thin = nn.Linear(module.in_features, rank, bias=False, **like)
        out = nn.Linear(rank, module.out_features, bias=has_bias, **like)
    else:
        names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
        how = {name: getattr(module, name) for name in names}
        thin = type(module)(module.in_channels, rank, bias=False, **how, **like)
        out = type(module)(rank, module.out_channels, 1, bias=has_bias, **like)
    with torch.no_grad():
        thin.weight.copy_(v.reshape(thin.weight.shape))
        out.weight.copy_(u.reshape(out.weight.shape))
        if has_bias:
            out.bias.copy_(module.bias)
    return nn.Sequential(thin, out).train(module.training)
