"""The papers' networks by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from lawscope.errors import LawscopeError
from lawscope.zoo.networks.convolutional import alexnet, lenet, resnet, resnet18, vgg
from lawscope.zoo.networks.encoders import TextEncoder, pretrained_encoder
from lawscope.zoo.networks.feedforward import feedforward
from lawscope.zoo.networks.language import language_model

_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "feedforward": feedforward,
    "alexnet": alexnet,
    "vgg": vgg,
    "resnet": resnet,
    "resnet18": resnet18,
    "lenet": lenet,
    "text-encoder": TextEncoder,
    "pretrained-encoder": pretrained_encoder,
    "language": language_model,
}

KINDS = tuple(_BUILDERS)


def build(kind: str, **options: Any) -> nn.Module:
    """Build a network with fresh weights, drawn from torch's global generator."""
    if kind not in _BUILDERS:
        raise LawscopeError(f"there is no network {kind!r}: {_did_you_mean(kind, KINDS)}")
    builder = _BUILDERS[kind]
    known = tuple(inspect.signature(builder).parameters)
    for option in options:
        if option not in known:
            raise LawscopeError(
                f"the network {kind!r} has no option {option!r}: {_did_you_mean(option, known)}"
            )
    try:
        return builder(**options)
    except LawscopeError:
        raise
    except (TypeError, ValueError) as error:
        raise LawscopeError(f"the network {kind!r} cannot be built: {error}.") from error


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word.lower(), list(known)) or list(known)
    return f"did you mean {' or '.join(near)}?"
