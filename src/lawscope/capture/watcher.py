"""Following a forward pass: modules by hooks, functions by a mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lawscope.capture.batches import tensors_in
from lawscope.capture.flow import Operation, Origin, Seen
from lawscope.capture.kinds import (
    Kind,
    flattens,
    function_kind,
    function_name,
    is_atomic,
    is_convolution,
    is_reshape,
    module_kind,
    turns_axes,
)
from lawscope.capture.outputs import main_first, main_tensor


class _Made(NamedTuple):
    """Where a tensor came from: which output of which operation, in which state."""

    position: int
    number: int
    version: int


class _Entry(NamedTuple):
    """What came into a module, noted on the way in: the module may overwrite it."""

    source: int | None
    shape: tuple[int, ...] | None
    sources: tuple[int, ...]
    origins: tuple[Origin, ...]


class Watcher(TorchFunctionMode):
    """Follows module calls by hooks and function calls by the mode."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.paths = {module: path for path, module in model.named_modules()}
        self.operations: list[Operation] = []
        self.seen: list[Seen] = []
        self.made: dict[int, _Made] = {}
        self.alive: list[Tensor] = []  # ids stay unique only while tensors live
        self.stack: list[nn.Module] = []
        self.entries: list[_Entry] = []
        self.inside: nn.Module | None = None  # the atomic module being run
        self.activated = ""  # the latest activation in there
        self.calls: dict[tuple[str, str | None], int] = {}

    @property
    def path(self) -> str:
        """Of the module at work; a user's pre-hook on the network runs before any is entered."""
        return self.paths[self.stack[-1]] if self.stack else ""

    def count(self, path: str, function: str | None) -> int:
        """Number of this call of a module, or of a function within a module."""
        key = (path, function)
        self.calls[key] = self.calls.get(key, 0) + 1
        return self.calls[key]

    def add(self, operation: Operation, outputs: Sequence[Tensor]) -> int:
        """Enter an operation and the tensors it made, the main one first."""
        position = len(self.operations)
        self.operations.append(operation)
        for source in operation.inputs:
            self.operations[source].consumers.append(position)
        for number, tensor in reversed(list(enumerate(outputs))):
            self.made[id(tensor)] = _Made(position, number, version(tensor))
            self.alive.append(tensor)
        return position

    def source(self, tensor: Tensor) -> int | None:
        """The operation whose result a tensor is, one per tensor and state.

        A second output gets an operation of its own when it is used; so does a tensor that was
        written into behind our back, through a view or inside a module.
        """
        made = self.made.get(id(tensor))
        if made is None or (made.number == 0 and made.version == version(tensor)):
            return None if made is None else made.position
        whole = self.operations[made.position]
        changed = Operation(
            "other" if made.number else "pass",
            self.path,
            1,
            "",
            (made.position,),
            channels_first=whole.channels_first,
            origin=whole.origin,
            part=made.number > 0,
        )
        return self.add(changed, [tensor])

    def sources(self, values: Any) -> tuple[int, ...]:
        """Operations whose outputs are among ``values``."""
        found = (self.source(tensor) for tensor in tensors_in(values))
        return tuple(dict.fromkeys(s for s in found if s is not None))

    def origin(self, tensor: Tensor) -> Origin:
        """What a tensor is made of."""
        made = self.made.get(id(tensor))
        if made is not None:
            return self.operations[made.position].origin
        return "weights" if isinstance(tensor, nn.Parameter) else "fixed"

    def upstream_channels(self, sources: tuple[int, ...]) -> bool:
        """Whether the first operation upstream with data has channels before positions."""
        upstream = (self.operations[s] for s in sources)
        return next((o.channels_first for o in upstream if o.origin == "data"), False)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let the function run and enter it into the data flow."""
        kwargs = kwargs or {}
        name = function_name(func)
        if self.inside is not None:
            if function_kind(name, weighted=False) == "activation":
                self.activated = name
            return func(*args, **kwargs)
        given = list(tensors_in((args, kwargs)))
        operation = self.function(name, given)
        shape = tuple(given[0].shape) if given else ()
        output = func(*args, **kwargs)
        # Writing into a part of a tensor gives nothing back.
        outputs = main_first(args[0] if name == "setitem" else output)
        if not outputs:
            return output
        operation.call = self.count(self.path, name)
        operation.flattens = is_reshape(name) and flattens(shape, tuple(outputs[0].shape))
        position = self.add(operation, outputs)
        if operation.kind == "activation":
            self.see(operation.path, operation.call, name, position, outputs[0])
        return output

    def function(self, name: str, given: list[Tensor]) -> Operation:
        """The operation that a function with these arguments is; its call is not counted yet."""
        sources = self.sources(given)
        origins = [self.origin(tensor) for tensor in given]
        matrix = any(o == "weights" and t.dim() > 1 for o, t in zip(origins, given, strict=True))
        # A product of weights alone, as of low rank, is a weight itself.
        kind = function_kind(name, weighted=matrix and set(origins) != {"weights"})
        channels = self.upstream_channels(sources)
        if kind == "weight":
            channels = is_convolution(name)
        elif turns_axes(name) or kind == "embedding":
            channels = False
        return Operation(
            kind,
            self.path,
            0,
            name,
            sources,
            activation=name if kind == "activation" else "",
            channels_first=channels,
            origin=_joint(kind, origins),
        )

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """A module is called."""
        self.stack.append(module)
        if self.inside is not None:
            self.entries.append(_Entry(None, None, (), ()))
            return
        given = list(tensors_in((args, kwargs)))
        main = next((t for t in given if t.is_floating_point()), None)
        source, shape = (None, None) if main is None else (self.source(main), tuple(main.shape))
        origins = tuple(self.origin(tensor) for tensor in given)
        self.entries.append(_Entry(source, shape, self.sources(given), origins))
        if len(self.stack) > 1 and is_atomic(module):
            self.inside, self.activated = module, ""

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A module has returned."""
        entry = self.entries.pop()
        self.stack.pop()
        path, call = self.paths[module], self.count(self.paths[module], None)
        atomic = self.inside is module
        if self.inside is not None and not atomic:
            return
        if atomic:
            self.inside = None
            self.add(self.module(module, call, entry, output), main_first(output))
        tensor = main_tensor(output)
        operation = None if tensor is None else self.source(tensor)
        if tensor is not None and operation is not None and self.stack:
            self.see(
                path,
                call,
                None,
                operation,
                tensor,
                composite=not atomic and next(module.children(), None) is not None,
                container=isinstance(module, nn.Sequential),
                family=f"{type(module).__module__}.{type(module).__qualname__}",
                source=entry.source,
                input_shape=entry.shape,
            )

    def module(self, module: nn.Module, call: int, entry: _Entry, output: Any) -> Operation:
        """The operation that an atomic module is."""
        kind = module_kind(module, bool(self.activated))
        channels = self.upstream_channels(entry.sources)
        if kind in ("weight", "embedding"):
            channels = isinstance(module, nn.modules.conv._ConvNd)
        made = main_tensor(output)
        shapes = entry.shape or (), () if made is None else tuple(made.shape)
        return Operation(
            kind,
            self.paths[module],
            call,
            None,
            entry.sources,
            activation=self.activated,
            channels_first=channels,
            flattens=kind in ("pass", "other") and flattens(*shapes),
            origin=_joint(kind, entry.origins),
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


def version(tensor: Tensor) -> int:
    """How often a tensor, or one that shares its memory, has been written into."""
    return 0 if tensor.is_inference() else tensor._version


def _joint(kind: Kind, origins: Sequence[Origin]) -> Origin:
    """What a result is made of; features of learned inputs are as good as data."""
    if kind in ("weight", "embedding") or "data" in origins:
        return "data"
    return "weights" if "weights" in origins else "fixed"
