"""PyTorch's multi-head attention, run with its four projections in sight."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

FUSED = "multi_head_attention_forward"


def attend_in_parts(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    see: Callable[[str, Tensor, Tensor], Tensor],
) -> Any:
    """Call ``F.multi_head_attention_forward``, projecting outside of it.

    Queries, keys and values are projected before, and its own projections are the identity, a
    product with which changes no bit.

    Args:
        function: the fused function.
        args: its arguments.
        kwargs: its named arguments.
        see: gets the name of a projection ("q", "k", "v", "o"), what came in and what goes out,
            and returns what the network goes on with.
    """
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    if given["use_separate_proj_weight"]:
        weights = [given[f"{part}_proj_weight"] for part in "qkv"]
    else:
        weights = list(given["in_proj_weight"].chunk(3))
    biases = [None] * 3 if given["in_proj_bias"] is None else given["in_proj_bias"].chunk(3)
    names = ("query", "key", "value")
    for part, name, weight, bias in zip("qkv", names, weights, biases, strict=True):
        entered = given[name]
        given[name] = see(part, entered, F.linear(entered, weight, bias))
    out, bias = given["out_proj_weight"], given["out_proj_bias"]
    identity = torch.eye(len(out), dtype=given["query"].dtype, device=out.device)
    given |= {
        "in_proj_weight": identity.repeat(3, 1),
        "in_proj_bias": None,
        "use_separate_proj_weight": False,
        "out_proj_weight": identity,
        "out_proj_bias": None,
    }
    context, shares = function(**given)
    return see("o", context, F.linear(context, out, bias)), shares
