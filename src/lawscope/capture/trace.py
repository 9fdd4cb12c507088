"""One look at a network at work: every module call, every activation, and how data flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lawscope.capture.batches import Batch, tensors_in
from lawscope.capture.flow import Operation, Seen, Trace
from lawscope.capture.kinds import (
    function_kind,
    function_name,
    is_atomic,
    is_convolution,
    module_kind,
    turns_axes,
)
from lawscope.capture.outputs import main_tensor


class _Watcher(TorchFunctionMode):
    """Follows module calls by hooks and function calls by the mode."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.paths = {module: path for path, module in model.named_modules()}
        self.operations: list[Operation] = []
        self.seen: list[Seen] = []
        self.made_by: dict[int, int] = {}
        self.alive: list[Tensor] = []  # ids stay unique only while tensors live
        self.stack: list[nn.Module] = []
        self.entries: list[tuple[int | None, tuple[int, ...] | None]] = []  # main inputs
        self.inside: nn.Module | None = None  # the atomic module being run
        self.activated = ""  # the latest activation in there
        self.calls: dict[tuple[str, str | None], int] = {}

    def count(self, path: str, function: str | None) -> int:
        """Number of this call of a module, or of a function within a module."""
        key = (path, function)
        self.calls[key] = self.calls.get(key, 0) + 1
        return self.calls[key]

    def add(self, operation: Operation, outputs: Sequence[Tensor]) -> int:
        """Enter an operation and the tensors it made."""
        position = len(self.operations)
        self.operations.append(operation)
        for source in operation.inputs:
            self.operations[source].consumers.append(position)
        for tensor in outputs:
            self.made_by[id(tensor)] = position
            self.alive.append(tensor)
        return position

    def sources(self, values: Any) -> tuple[int, ...]:
        """Operations whose outputs are among ``values``."""
        found = (self.made_by.get(id(tensor)) for tensor in tensors_in(values))
        return tuple(dict.fromkeys(s for s in found if s is not None))

    def upstream_channels(self, sources: tuple[int, ...]) -> bool:
        """Whether the first operation upstream has channels before positions."""
        return bool(sources) and self.operations[sources[0]].channels_first

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let the function run and enter it into the data flow."""
        kwargs = kwargs or {}
        name = function_name(func)
        sources = self.sources((args, kwargs)) if self.inside is None else ()
        output = func(*args, **kwargs)
        if self.inside is not None:
            if function_kind(name, ()) == "activation":
                self.activated = name
            return output
        outputs = list(tensors_in(output))
        if not outputs:
            return output
        # A pre-hook of the user's on the network itself runs before any module is entered.
        path = self.paths[self.stack[-1]] if self.stack else ""
        kind = function_kind(name, [*args, *kwargs.values()])
        channels = self.upstream_channels(sources)
        if kind == "weight":
            channels = is_convolution(name)
        elif turns_axes(name) or kind == "embedding":
            channels = False
        call = self.count(path, name)
        position = self.add(
            Operation(
                kind,
                path,
                call,
                name,
                sources,
                activation=name if kind == "activation" else "",
                channels_first=channels,
            ),
            outputs,
        )
        if kind == "activation":
            self.see(path, call, name, position, outputs[0])
        return output

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """A module is called."""
        self.stack.append(module)
        given = next((t for t in tensors_in((args, kwargs)) if t.is_floating_point()), None)
        # Noted on the way in: the module may overwrite its input.
        self.entries.append(
            (None, None) if given is None else (self.made_by.get(id(given)), tuple(given.shape))
        )
        if self.inside is None and len(self.stack) > 1 and is_atomic(module):
            self.inside, self.activated = module, ""

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A module has returned."""
        self.stack.pop()
        source, input_shape = self.entries.pop()
        path, call = self.paths[module], self.count(self.paths[module], None)
        atomic = self.inside is module
        if self.inside is not None and not atomic:
            return
        sources = self.sources((args, kwargs))
        if atomic:
            self.inside = None
            kind = module_kind(module, bool(self.activated))
            channels = self.upstream_channels(sources)
            if kind in ("weight", "embedding"):
                channels = isinstance(module, nn.modules.conv._ConvNd)
            outputs = list(tensors_in(output if not hasattr(output, "items") else dict(output)))
            operation = Operation(
                kind, path, call, None, sources, activation=self.activated, channels_first=channels
            )
            self.add(operation, outputs)
        tensor = main_tensor(output)
        if tensor is not None and id(tensor) in self.made_by and self.stack:
            self.see(
                path,
                call,
                None,
                self.made_by[id(tensor)],
                tensor,
                composite=not atomic and next(module.children(), None) is not None,
                container=isinstance(module, nn.Sequential),
                family=f"{type(module).__module__}.{type(module).__qualname__}",
                source=source,
                input_shape=input_shape,
            )

    def see(
        self,
        path: str,
        call: int,
        function: str | None,
        operation: int,
        tensor: Tensor,
        **more: Any,
    ) -> None:
        """Note a tensor that can be measured."""
        self.seen.append(
            Seen(path, call, function, operation, tuple(tensor.shape), tensor.dtype, **more)
        )


def trace(model: nn.Module, example: Batch) -> Trace:
    """Run the example once and write down what happens.

    The caller sees to it that the network is untouched (:func:`~lawscope.capture.untouched`).
    """
    watcher = _Watcher(model)
    inputs = list(tensors_in((example.args, example.kwargs)))
    raw = main_input(example)
    for tensor in [raw, *(t for t in inputs if t is not raw)]:
        watcher.add(Operation("input", "", 1, None, ()), [tensor])
    versions = [version(tensor) for tensor in inputs]
    with hooked(model, watcher.enter, watcher.leave), watcher:
        output = main_tensor(model(*example.args, **example.kwargs))
    first_weight = next((o for o in watcher.operations if o.kind == "weight"), None)
    if first_weight is not None:
        watcher.operations[0].channels_first = first_weight.channels_first
    shape, dtype = tuple(raw.shape), raw.dtype
    out = () if output is None else tuple(output.shape)
    # Inference tensors keep no version: the worst is assumed of a network that runs on them.
    overwrites = any(t.is_inference() for t in inputs) or versions != [version(t) for t in inputs]
    return Trace(watcher.operations, watcher.seen, example.size, shape, dtype, out, overwrites)


def version(tensor: Tensor) -> int:
    """How often a tensor, or one that shares its memory, has been written into."""
    return 0 if tensor.is_inference() else tensor._version


def main_input(batch: Batch) -> Tensor:
    """The raw data of a batch: its first floating tensor, or its first tensor."""
    inputs = tensors_in((batch.args, batch.kwargs))
    return next((t for t in inputs if t.is_floating_point()), batch.first)


@contextmanager
def hooked(model: nn.Module, enter: Any, leave: Any) -> Iterator[None]:
    """Call ``enter`` and ``leave`` around every module of ``model``."""
    handles = []
    try:
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            handles.append(module.register_forward_hook(leave, with_kwargs=True, always_call=True))
        yield
    finally:
        for handle in handles:
            handle.remove()
