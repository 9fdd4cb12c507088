"""What one forward pass showed: operations, the tensors among them, and how data flows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch

from lawscope.capture.kinds import Kind

Origin = Literal["data", "weights", "fixed"]


@dataclass(eq=False)
class Operation:
    """A node of the data flow.

    Attributes:
        kind: what it is to a law.
        path: module it ran in, or that it is.
        call: of the module, or of the function within the module, counted from 1.
        function: bare name when it is a function rather than a module.
        activation: bare name of the activation that it is or that ran in it, else empty.
        inputs: positions of the operations it read from.
        channels_first: the latest weight upstream was a convolution and no axes were turned.
        flattens: all axes but the first were made one.
        origin: made of "data", or of "weights" only (a transposed or masked matrix), or of neither.
        part: another output of the operation it reads from, rather than the result of its own.
    """

    kind: Kind
    path: str
    call: int
    function: str | None
    inputs: tuple[int, ...]
    activation: str = ""
    channels_first: bool = False
    flattens: bool = False
    origin: Origin = "data"
    part: bool = False
    consumers: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """A tensor that can be measured: the output of a module call or of an activation.

    Attributes:
        path: of the module.
        call: counted from 1.
        function: bare name for an activation called as a function, else None.
        operation: position of the operation that made the tensor.
        shape: with the batch of the example.
        dtype: of the tensor.
        composite: the module is made of other modules.
        container: the module is a plain ``nn.Sequential``.
        family: class of the module, for finding what repeats.
        source: operation whose output came in as the main input, for modules.
        input_shape: shape of the main input of a module, or None.
    """

    path: str
    call: int
    function: str | None
    operation: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    composite: bool = False
    container: bool = False
    family: str = ""
    source: int | None = None
    input_shape: tuple[int, ...] | None = None


@dataclass(eq=False)
class Trace:
    """What one forward pass showed, in the order in which outputs were completed.

    Attributes:
        operations: the data flow.
        seen: what can be measured.
        batch: number of samples.
        input_shape: of the raw data.
        input_dtype: of the raw data.
        output_shape: of the network's main output.
        overwrites: the network writes into its inputs.
    """

    operations: list[Operation]
    seen: list[Seen]
    batch: int
    input_shape: tuple[int, ...]
    input_dtype: torch.dtype
    output_shape: tuple[int, ...]
    overwrites: bool = False
