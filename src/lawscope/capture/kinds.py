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
# An activation after the last weight that makes probabilities out of logits is not a feature.
OUTPUT_ACTIVATIONS = frozenset({"sigmoid", "logsigmoid"})
_NAMES: dict[Kind, str] = {
    "norm": "layer_norm batch_norm group_norm instance_norm rms_norm",
    "add": "add iadd radd",
    "pass": "dropout feature_dropout alpha_dropout contiguous to float double half bfloat16 type "
    "type_as clone detach flatten reshape view transpose permute squeeze unsqueeze setitem",
    "embedding": "embedding embedding_bag",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
# Functions that only deal the same entries out to other axes, and those that reorder axes.
RESHAPES = frozenset({"flatten", "reshape", "view"})
TURNS = frozenset("transpose permute movedim moveaxis swapaxes swapdims t mt".split())
PRODUCTS = frozenset(
    "linear bilinear matmul rmatmul mm bmm addmm baddbmm einsum conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d multi_head_attention_forward "
    "scaled_dot_product_attention".split()
)
ATTENTION = frozenset({"multi_head_attention_forward", "scaled_dot_product_attention"})
TIMES = frozenset({"mul", "rmul", "imul"})
# Functions that scale rows, or deal them out to others, as a graph does with its nodes.
MIXES = (
    (PRODUCTS - ATTENTION)
    | TIMES
    | frozenset(
        "div truediv sub rsub sparse_mm spmm getitem index_select gather index_add "
        "scatter scatter_add scatter_reduce index_reduce".split()
    )
)
# Functions that ask a tensor for its shape only.
BLANKS = frozenset(
    "zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_empty "
    "new_full".split()
)
# Functions that take a part out of a tensor.
PARTS = frozenset("getitem select unbind chunk split narrow index_select gather".split())
_WEIGHTS = (nn.Linear, _ConvNd, nn.Bilinear, nn.RNNBase, nn.MultiheadAttention)
_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


def function_name(function: Any) -> str:
    """Return the bare name of a torch function: ``relu`` for F.relu, torch.relu_, Tensor.relu."""
    name = str(getattr(function, "__name__", ""))
    if name == "__get__":  # a property such as x.mT
        name = str(getattr(getattr(function, "__self__", None), "__name__", ""))
    return name.strip("_").lower()


def function_kind(name: str, weighted: bool) -> Kind:
    """Return the kind of a call; ``weighted``: a matrix among its arguments is made of weights."""
    if name in ACTIVATIONS:
        return "activation"
    if name in PRODUCTS and weighted:
        return "weight"
    return _KINDS.get(name, "other")


def is_convolution(name: str) -> bool:
    """Return whether a function puts channels before positions."""
    return name.startswith("conv")


def flattens(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Return whether (5, 28, 28) has become (5, 784): all axes but the first are one."""
    return len(before) > 2 and after == (before[0], prod(before[1:]))


def module_kind(module: nn.Module, activations_seen: bool) -> Kind:
    """Return the kind of a module that is taken as one operation."""
    if isinstance(module, _EMBEDDINGS):
        return "embedding"
    if isinstance(module, _WEIGHTS):
        return "weight"
    if isinstance(module, _NormBase | nn.LayerNorm | nn.GroupNorm) or (
        "norm" in type(module).__name__.lower()
    ):
        return "norm"
    if isinstance(module, nn.Identity | nn.Flatten | nn.Unflatten | _DropoutNd):
        return "pass"
    return "activation" if activations_seen else "other"


def is_atomic(module: nn.Module) -> bool:
    """Return whether a module is one operation, whatever happens inside it.

    Modules of torch that own weights are, even when a parametrisation has given them children;
    so is every module without children and without a weight matrix of its own. A user's module
    that owns weight matrices directly is looked into, because it may hold several layers.
    """
    if isinstance(module, (*_WEIGHTS, *_EMBEDDINGS)):
        return True
    if next(module.children(), None) is not None:
        return False
    owns_matrix = any(p.dim() > 1 for p in module.parameters(recurse=False))
    return type(module).__module__.startswith("torch.nn.") or not owns_matrix
