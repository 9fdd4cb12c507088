"""The products with a weight matrix in one forward pass: what a head can be."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lawscope.capture.batches import Batch
from lawscope.capture.kinds import function_name, is_convolution
from lawscope.capture.trace import hooked

KEPT = 32  # the head is among the last


@dataclass(frozen=True, eq=False)
class Product:
    """One call of ``linear``, a convolution with kernel one, or a matrix product.

    Attributes:
        path: of the module at work.
        call: of that function within that module, counted from 1.
        module_call: of the module, counted from 1.
        function: its bare name.
        operand: what entered, (B, p), (B, T, p) or, for a convolution, (B, p, …).
        output: of the function, with K in place of p.
        weight: shape (K, p).
        bias: shape (K,), or None.
    """

    path: str
    call: int
    module_call: int
    function: str
    operand: Tensor
    output: Tensor
    weight: Tensor
    bias: Tensor | None

    @property
    def channels_first(self) -> bool:
        """Whether features stand before positions."""
        return is_convolution(self.function)

    def __str__(self) -> str:
        rows, width = self.weight.shape
        name = f"'{self.path}'" if self.path else "the network itself"
        return f"{name} ({self.function} {width}→{rows})"


def products(model: nn.Module, batch: Batch) -> tuple[list[Product], Any]:
    """Run a batch; give the last products with a matrix, in order, and what the network returns."""
    watcher = _Products(model)
    with hooked(model, watcher.enter, watcher.leave), watcher:
        output = model(*batch.args, **batch.kwargs)
    return list(watcher.found), output


class _Products(TorchFunctionMode):
    """Follows modules by hooks and products by the mode."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.paths = {module: path for path, module in model.named_modules()}
        self.stack: list[str] = []
        self.calls: dict[tuple[str, str], int] = {}
        self.found: deque[Product] = deque(maxlen=KEPT)

    def count(self, path: str, function: str) -> int:
        key = (path, function)
        self.calls[key] = self.calls.get(key, 0) + 1
        return self.calls[key]

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append(self.paths[module])
        self.count(self.paths[module], "")

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.stack.pop()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let the function run and note it if it is a product."""
        kwargs, name = kwargs or {}, function_name(func)
        output = func(*args, **kwargs)
        if not self.stack:
            return output
        path, call = self.stack[-1], self.count(self.stack[-1], name)
        operands = _operands(name, args, kwargs)
        if operands is not None and isinstance(output, Tensor):
            operand, weight, bias = operands
            # Copies: the network may overwrite them in place.
            self.found.append(
                Product(
                    path=path,
                    call=call,
                    module_call=self.calls[path, ""],
                    function=name,
                    operand=operand.clone(),
                    output=output.clone(),
                    weight=weight,
                    bias=bias,
                )
            )
        return output


def _operands(
    name: str, args: Any, kwargs: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """Input, weight (K, p) and bias of a product; None when the function is none."""
    if name in ("matmul", "mm"):
        if len(args) != 2 or not all(isinstance(a, Tensor) for a in args) or args[1].dim() != 2:
            return None
        return args[0], args[1].T, None
    if name != "linear" and not is_convolution(name):
        return None
    names = ("input", "weight", "bias")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    operand, weight, bias = (given.get(key) for key in names)
    if not isinstance(operand, Tensor) or not isinstance(weight, Tensor) or weight.dim() < 2:
        return None
    if weight.shape[1] * weight.shape[0] != weight.numel():
        return None  # a kernel larger than one position
    groups = args[6] if len(args) > 6 else kwargs.get("groups", 1)
    if is_convolution(name) and ("transpose" in name or groups != 1):
        return None
    return operand, weight.flatten(1), bias
