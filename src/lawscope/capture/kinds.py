"""What an operation is to a law: a weight, a norm, an activation, or something in between."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

Kind = Literal["input", "weight", "embedding", "norm", "activation", "add", "pass", "other"]

ACTIVATIONS = frozenset(
    "relu relu6 gelu silu mish elu selu celu leaky_relu prelu rrelu glu tanh sigmoid hardtanh "
    "hardswish hardsigmoid hardshrink softshrink tanhshrink softplus softsign logsigmoid "
    "threshold".split()
)
# An activation after the last weight that makes probabilities out of logits is no feature.
OUTPUT_ACTIVATIONS = frozenset({"sigmoid", "logsigmoid"})
_NORMS = frozenset("layer_norm batch_norm group_norm instance_norm rms_norm".split())
_ADDS = frozenset({"add", "iadd", "radd"})
_PASSES = frozenset(
    "dropout feature_dropout alpha_dropout contiguous to float double half bfloat16 type "
    "type_as clone detach flatten reshape view transpose permute squeeze unsqueeze "
    "setitem".split()
)
_RESHAPES = frozenset({"flatten", "reshape", "view"})
_PRODUCTS = frozenset(
    "linear bilinear matmul rmatmul mm bmm addmm baddbmm einsum conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d multi_head_attention_forward".split()
)
_TURNS = frozenset(
    {"transpose", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "mt"}
)


def function_name(function: Any) -> str:
    """The bare name of a torch function: ``relu`` for F.relu, torch.relu_ and Tensor.relu."""
    name = str(getattr(function, "__name__", ""))
    if name == "__get__":  # a property such as x.mT
        name = str(getattr(getattr(function, "__self__", None), "__name__", ""))
    return name.strip("_").lower()


def function_kind(name: str, weighted: bool) -> Kind:
    """Kind of a call to a torch function.

    Args:
        name: its bare name.
        weighted: a matrix among its arguments is a weight, or made of weights only.
    """
    if name in ACTIVATIONS:
        return "activation"
    if name in _NORMS:
        return "norm"
    if name in _ADDS:
        return "add"
    if name in _PASSES:
        return "pass"
    if name in ("embedding", "embedding_bag"):
        return "embedding"
    if name in _PRODUCTS and weighted:
        return "weight"
    return "other"


def is_convolution(name: str) -> bool:
    """Whether a function puts channels before positions."""
    return name.startswith("conv")


def turns_axes(name: str) -> bool:
    """Whether a function reorders axes, so that channels may come last after it."""
    return name in _TURNS


def is_reshape(name: str) -> bool:
    """Whether a function only deals the same entries out to other axes."""
    return name in _RESHAPES


def flattens(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether one shape is the other with all axes but the first made one.

    Example:
        >>> flattens((5, 28, 28), (5, 784)), flattens((5, 7, 8), (35, 8))
        (True, False)
    """
    return len(before) > 2 and after == (before[0], prod(before[1:]))


def module_kind(module: nn.Module, activations_seen: bool) -> Kind:
    """Kind of a module that is taken as one operation.

    Args:
        module: the module.
        activations_seen: an activation function ran inside it.
    """
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "embedding"
    if isinstance(module, nn.Linear | _ConvNd | nn.Bilinear | nn.RNNBase | nn.MultiheadAttention):
        return "weight"
    if isinstance(module, _NormBase | nn.LayerNorm | nn.GroupNorm) or (
        "norm" in type(module).__name__.lower()
    ):
        return "norm"
    if isinstance(module, nn.Identity | nn.Flatten | nn.Unflatten | _DropoutNd):
        return "pass"
    return "activation" if activations_seen else "other"


def is_atomic(module: nn.Module) -> bool:
    """Whether a module is one operation, whatever happens inside it.

    Modules of torch that own weights are, even when a parametrisation has given them children;
    so is every module without children and without a weight matrix of its own. A user's module
    that owns weight matrices directly is looked into, because it may hold several layers.
    """
    if isinstance(
        module,
        nn.Linear
        | _ConvNd
        | nn.Bilinear
        | nn.RNNBase
        | nn.MultiheadAttention
        | nn.Embedding
        | nn.EmbeddingBag,
    ):
        return True
    if next(module.children(), None) is not None:
        return False
    owns_matrix = any(p.dim() > 1 for p in module.parameters(recurse=False))
    return type(module).__module__.startswith("torch.nn.") or not owns_matrix
