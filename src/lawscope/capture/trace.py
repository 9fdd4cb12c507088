"""One look at a network at work: every module call, every function, and how data flows.

This is the only tracer. Layers, blocks, stations, heads and the final norm of a language model are
all found in what it writes down.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lawscope.capture import kinds
from lawscope.capture.kinds import Kind, function_name, is_convolution
from lawscope.capture.outputs import find_stream, main_first, main_tensor
from lawscope.capture.pooling import OF_STEPS, pool
from lawscope.data.batches import Batch, tensors_in

KEPT_PRODUCTS = 32  # the head is among the last
NEAR = 1e-5  # how far two ways to compute one number may be apart, relative to the largest
Origin = Literal["data", "weights", "fixed"]


@dataclass(eq=False)
class Operation:
    """A node of the data flow."""

    kind: Kind
    path: str  # module it ran in, or that it is
    function: str | None  # bare name when it is a function rather than a module
    inputs: tuple[int, ...]  # positions of the operations it read from
    activation: str = ""  # bare name of the activation that it is or that ran in it
    # the latest weight upstream was a convolution and no axes were turned
    channels_first: bool = False
    flattens: bool = False  # all axes but the first were made one
    origin: Origin = "data"  # "weights": made of them only, as a transposed or masked matrix
    part: bool = False  # another output of the operation it reads from, not a result of its own
    # one of its tensors comes from weights, and is scaled or dealt out to other rows
    mixes: bool = False
    gates: bool = False  # two or more come from weights, and are multiplied
    weighted: bool = False  # a weight is upstream, or it is one
    recurrent: bool = False  # the same of a recurrent layer
    inner: int = 0  # layers of a recurrent module, which runs them all in one call
    # what of a recurrent layer's steps a row per sample holds: a pooling, or "" for another
    steps: str | None = None
    parameters: tuple[str, ...] = ()  # names of those it reads, also through other operations
    shape: tuple[int, ...] = ()  # of its main output
    consumers: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """A tensor that can be measured: the output of a module call or of an activation."""

    path: str
    call: int
    operation: int  # position of the one that made the tensor
    shape: tuple[int, ...]  # with the batch of the example
    dtype: torch.dtype
    device: torch.device
    function: str | None = None  # bare name for an activation called as a function
    composite: bool = False  # the module is made of other modules
    container: bool = False  # the module is a plain nn.Sequential
    family: str = ""  # class of the module, for finding what repeats
    source: int | None = None  # operation whose output came in as the main input, for modules
    input_shape: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        name = join_name(self.path, self.function or "")
        return name if self.call == 1 else f"{name}#{self.call}"


def join_name(path: str, function: str = "") -> str:
    """Return a name that can be printed and saved: half of a surrogate pair cannot."""
    name = ".".join(filter(None, (path, f"{function}()" if function else "")))
    return name.encode(errors="backslashreplace").decode()


@dataclass(frozen=True, eq=False)
class Product:
    """One call of ``linear``, a convolution with kernel one, or a matrix product."""

    path: str  # of the module at work
    call: int  # of that function within that module, counted from 1
    module_call: int
    function: str
    operand: Tensor  # what entered, (B, p), (B, T, p) or, for a convolution, (B, p, …)
    output: Tensor  # the same with K in place of p
    weight: Tensor  # shape (K, p)
    bias: Tensor | None
    tied: bool  # the weight is that of an embedding

    @property
    def channels_first(self) -> bool:
        """Whether features stand before positions."""
        return is_convolution(self.function)

    def __str__(self) -> str:
        rows, width = self.weight.shape
        name = f"'{self.path}'" if self.path else "the network itself"
        return f"{name} ({self.function} {width}→{rows})"


@dataclass(frozen=True, eq=False)
class Call:
    """One run of one module: copies of the stream (B, T, d) that came in and went out, if any."""

    module: nn.Module
    entered: int
    stream_in: Tensor | None
    stream_out: Tensor | None


@dataclass(eq=False)
class Trace:
    """What one forward pass showed, in the order in which outputs were completed."""

    operations: list[Operation]
    seen: list[Seen]
    products: list[Product]  # the last ones, copied; none unless asked for
    calls: list[Call]  # every module call with its stream; none unless asked for
    sums: dict[int, Seen]  # by operation: additions of two tensors of data with one shape
    batch: int
    raw: Seen  # the data as it came in
    output: Any
    overwrites: bool = False  # the network writes into its inputs

    @property
    def steps_read(self) -> str | None:
        """What the network reads of recurrent layers' steps; None: all of them, "": unknown."""
        read = {o.steps for o in self.operations if o.steps is not None}
        named = read - {""}
        return named.pop() if len(named) == 1 else "" if read else None


def trace(
    model: nn.Module, batch: Batch, *, copies: bool = False, stream: Sequence[int] | None = None
) -> Trace:
    """Run a batch once and write down what happens; the caller leaves the network as found.

    With ``copies`` products with a matrix are kept; a stream of tokens (B, T) is followed from
    module to module.
    """
    tracer = _Tracer(model, batch, copies, stream)
    inputs, raw = batch.inputs, batch.main
    for tensor in [raw, *(t for t in inputs if t is not raw)]:
        tracer.add(Operation("input", "", None, ()), [tensor])
    versions = [_version(tensor) for tensor in inputs]
    with hooked(model, _unwatched(tracer.enter), _unwatched(tracer.leave)), tracer:
        output = model(*batch.args, **batch.kwargs)
    first_weight = next((o for o in tracer.operations if o.kind == "weight"), None)
    if first_weight is not None:
        tracer.operations[0].channels_first = first_weight.channels_first
    # Inference tensors keep no version: the worst is assumed of a network that runs on them.
    overwrites = any(t.is_inference() for t in inputs) or versions != [_version(t) for t in inputs]
    made = tracer.operations, tracer.seen, list(tracer.products), tracer.streams, tracer.sums
    return Trace(*made, batch.size, _seen("", 1, 0, raw), output, overwrites)


@contextmanager
def hooked(model: nn.Module, enter: Any, leave: Any) -> Iterator[None]:
    """Call ``enter`` and ``leave`` around every module of ``model``."""
    with ExitStack() as stack:
        for module in model.modules():
            before = module.register_forward_pre_hook(enter, with_kwargs=True)
            after = module.register_forward_hook(leave, with_kwargs=True, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
        yield


def is_distributed_tensor(tensor: Tensor) -> bool:
    """Return whether a tensor is spread over the processes of a group (a DTensor)."""
    # What is not imported has made none, and takes a second to import.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def _unwatched(hook: Callable[..., None]) -> Callable[..., None]:
    """Let a hook ask tensors for their shape without being taken for the network."""

    def quietly(*args: Any) -> None:
        with torch._C.DisableTorchFunction():
            hook(*args)

    return quietly


class _Made(NamedTuple):
    """Where a tensor came from: which output of which operation, in which state."""

    position: int
    number: int
    version: int


class _Entry(NamedTuple):
    """What came into a module, noted on the way in: the module may overwrite it."""

    number: int  # of modules entered before
    stream: Tensor | None
    source: int | None = None
    shape: tuple[int, ...] | None = None
    sources: tuple[int, ...] = ()
    origins: tuple[Origin, ...] = ()


class _Tracer(TorchFunctionMode):
    """Follows module calls by hooks and function calls by the mode."""

    def __init__(
        self, model: nn.Module, batch: Batch, copies: bool, stream: Sequence[int] | None
    ) -> None:
        super().__init__()
        self.batch, self.copies, self.stream = batch, copies, stream
        self.steps: Tensor | None = None  # the latest (B, T, C) behind a recurrent layer
        self.paths = {module: path for path, module in model.named_modules()}
        self.names = {id(value): name for name, value in model.named_parameters()}
        # Weights that are sharded are whole only while their module runs.
        self.sharded = any(is_distributed_tensor(p) for p in model.parameters())
        self.embeddings = [m for m in model.modules() if isinstance(m, nn.Embedding)]
        self.operations: list[Operation] = []
        self.seen: list[Seen] = []
        self.products: deque[Product] = deque(maxlen=KEPT_PRODUCTS)
        self.streams: list[Call] = []
        self.sums: dict[int, Seen] = {}
        self.made: dict[int, _Made] = {}
        self.alive: list[Tensor] = []  # ids stay unique only while tensors live
        self.stack: list[nn.Module] = []
        self.entries: list[_Entry] = []
        self.inside: nn.Module | None = None  # the atomic module being run
        self.activated = ""  # the latest activation in there
        self.added = False  # inside, two tensors of data were added
        self.entered = 0  # modules so far
        self.calls: Counter[tuple[str, str]] = Counter()

    @property
    def path(self) -> str:
        """Of the module at work; a user's pre-hook on the network runs before any is entered."""
        return self.paths[self.stack[-1]] if self.stack else ""

    def count(self, path: str, what: str) -> int:
        """Return the number of this entering or leaving of a module, or call of a function."""
        self.calls[path, what] += 1
        return self.calls[path, what]

    def add(self, operation: Operation, outputs: Sequence[Tensor]) -> int:
        """Enter an operation and the tensors it made, the main one first."""
        position = len(self.operations)
        self.operations.append(operation)
        for source in operation.inputs:
            self.operations[source].consumers.append(position)
            operation.weighted |= self.operations[source].weighted
            operation.recurrent |= self.operations[source].recurrent
        operation.weighted |= operation.kind in ("weight", "embedding")
        operation.shape = tuple(outputs[0].shape) if outputs else ()
        for number, tensor in reversed(list(enumerate(outputs))):
            self.made[id(tensor)] = _Made(position, number, _version(tensor))
            self.alive.append(tensor)
        if operation.recurrent and outputs:
            self.note_steps(operation, outputs[0].detach())
        return position

    def note_steps(self, operation: Operation, tensor: Tensor) -> None:
        """Keep a sequence behind a recurrent layer, or find out what a row per sample has of it."""
        size = self.batch.size
        if not tensor.is_floating_point() or operation.part:
            return
        if tensor.dim() == 3 and size in tensor.shape[:2]:
            first = getattr(self.inside, "batch_first", tensor.shape[0] == size)
            self.steps = (tensor if first else tensor.transpose(0, 1)).clone()
        elif tensor.dim() == 2 and self.steps is not None and operation.kind != "weight":
            before = (self.operations[i].steps for i in operation.inputs)
            operation.steps = next(filter(None, before), None) or self.name_steps(tensor)

    def name_steps(self, rows: Tensor) -> str:
        """Return the pooling of the steps that these rows are, found by value."""
        assert self.steps is not None
        for name in OF_STEPS:
            like = pool(self.steps, name, self.batch.mask)
            if like.shape == rows.shape:
                far = float((like - rows).abs().max())
                if far <= NEAR * float(like.abs().max()):
                    return name
        return ""

    def source(self, tensor: Tensor) -> int | None:
        """Return the operation whose result a tensor is, one per tensor and state."""
        made = self.made.get(id(tensor))
        if made is None or (made.number == 0 and made.version == _version(tensor)):
            return None if made is None else made.position
        # A second output in use, or a tensor that a view or a module wrote into, gets its own.
        whole = self.operations[made.position]
        changed = Operation(
            "other" if made.number else "pass",
            self.path,
            "",
            (made.position,),
            channels_first=whole.channels_first,
            origin=whole.origin,
            part=made.number > 0,
        )
        return self.add(changed, [tensor])

    def sources(self, values: Any) -> tuple[int, ...]:
        found = (self.source(tensor) for tensor in tensors_in(values))
        return tuple(dict.fromkeys(s for s in found if s is not None))

    def origin(self, tensor: Tensor) -> Origin:
        made = self.made.get(id(tensor))
        if made is not None:
            return self.operations[made.position].origin
        return "weights" if isinstance(tensor, nn.Parameter) else "fixed"

    def upstream_channels(self, sources: tuple[int, ...]) -> bool:
        """Return whether the first operation upstream with data has channels first."""
        upstream = (self.operations[s] for s in sources)
        return next((o.channels_first for o in upstream if o.origin == "data"), False)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = function_name(func)
        call = self.count(self.path, name) if self.stack else 0
        given = list(tensors_in((args, kwargs))) if self.inside is None else []
        if name in kinds.BLANKS:
            given = []
        operation = self.function(name, given)
        data = [tuple(t.shape) for t in given if self.origin(t) == "data"]
        shape = tuple(given[0].shape) if given else ()
        output = func(*args, **kwargs)
        self.note_product(name, call, args, kwargs, output)
        if self.inside is not None:
            self.activated = operation.activation or self.activated
            self.added |= operation.kind == "add" and self.adds(args, output)
            return output
        # Writing into a part of a tensor gives nothing back.
        outputs = main_first(args[0] if name == "setitem" else output)
        if not outputs:
            return output
        after = tuple(outputs[0].shape)
        operation.flattens = name in kinds.RESHAPES and kinds.flattens(shape, after)
        position = self.add(operation, outputs)
        if operation.kind == "activation" and self.stack:
            self.seen.append(_seen(operation.path, call, position, outputs[0], function=name))
        if operation.kind == "add" and self.stack and data.count(after) > 1:
            self.sums[position] = _seen(operation.path, call, position, outputs[0], function=name)
        return output

    def note_product(self, name: str, call: int, args: Any, kwargs: Any, output: Any) -> None:
        """Keep a product with a matrix, in copies: the network may overwrite what it read."""
        operands = _operands(name, args, kwargs) if self.copies and self.stack else None
        if operands is None or not isinstance(output, Tensor):
            return
        operand, weight, bias = operands
        tables = [m.weight for m in self.embeddings if not is_distributed_tensor(m.weight)]
        tied = any(weight.data_ptr() == table.data_ptr() for table in tables)
        if self.sharded:
            weight, bias = weight.clone(), None if bias is None else bias.clone()
        where = self.path, call, self.calls[self.path, "enter"], name
        copies = operand.clone(), output.clone()
        self.products.append(Product(*where, *copies, weight, bias, tied))

    def function(self, name: str, given: list[Tensor]) -> Operation:
        sources = self.sources(given)
        origins = [self.origin(tensor) for tensor in given]
        matrix = any(o == "weights" and t.dim() > 1 for o, t in zip(origins, given, strict=True))
        # A product of weights alone, as of low rank, is a weight itself.
        kind = kinds.function_kind(name, weighted=matrix and set(origins) != {"weights"})
        mixes, gates = self.mixing(name, given)
        channels = self.upstream_channels(sources)
        if kind == "weight":
            channels = is_convolution(name)
        elif name in kinds.TURNS or kind == "embedding":
            channels = False
        return Operation(
            kind,
            self.path,
            name,
            sources,
            mixes=mixes,
            gates=gates,
            activation=name if kind == "activation" else "",
            channels_first=channels,
            origin=_joint(kind, origins),
            parameters=self.parameters(given, sources),
        )

    def parameters(self, given: Sequence[Tensor], sources: tuple[int, ...]) -> tuple[str, ...]:
        """Return the names of parameters among tensors, as they are or transposed and the like."""
        found = [self.names[id(tensor)] for tensor in given if id(tensor) in self.names]
        for source in sources:
            made = self.operations[source]
            found += made.parameters if made.origin == "weights" else ()
        return tuple(dict.fromkeys(found))

    def mixing(self, name: str, given: list[Tensor]) -> tuple[bool, bool]:
        """Return whether one tensor alone comes from weights, or several are multiplied."""
        made = [self.made.get(id(tensor)) for tensor in given]
        weighted = sum(m is not None and self.operations[m.position].weighted for m in made)
        part = len(given) == 1 and name in kinds.PARTS  # a slice is another thing
        mixes = name in kinds.MIXES and weighted == 1 and not part
        return mixes, name in kinds.TIMES and weighted > 1

    def copy_stream(self, value: Any) -> Tensor | None:
        found = None if self.stream is None else find_stream(value, self.stream)
        return None if found is None else found.clone()

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append(module)
        self.count(self.paths[module], "enter")
        entry = _Entry(self.entered, self.copy_stream((args, kwargs)))
        self.entered += 1
        if self.inside is not None:
            self.entries.append(entry)
            return
        given = list(tensors_in((args, kwargs)))
        main = next((t for t in given if t.is_floating_point()), None)
        source, shape = (None, None) if main is None else (self.source(main), tuple(main.shape))
        origins = tuple(self.origin(tensor) for tensor in given)
        self.entries.append(_Entry(*entry[:2], source, shape, self.sources(given), origins))
        if len(self.stack) > 1 and kinds.is_atomic(module):
            self.inside, self.activated, self.added = module, "", False

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        entry = self.entries.pop()
        self.stack.pop()
        if self.stream is not None:
            made = Call(module, entry.number, entry.stream, self.copy_stream(output))
            self.streams.append(made)
        path, call = self.paths[module], self.count(self.paths[module], "leave")
        atomic = self.inside is module
        if self.inside is not None and not atomic:
            return
        position = -1
        if atomic:
            position = self.add(self.module(module, entry, output), main_first(output))
            self.inside = None
        tensor = main_tensor(output)
        operation = None if tensor is None else self.source(tensor)
        if tensor is not None and operation is not None and self.stack:
            seen = _seen(
                path,
                call,
                operation,
                tensor,
                composite=not atomic and next(module.children(), None) is not None,
                container=isinstance(module, nn.Sequential),
                family=f"{type(module).__module__}.{type(module).__qualname__}",
                source=entry.source,
                input_shape=entry.shape,
            )
            self.seen.append(seen)
            if operation == position and self.operations[position].kind == "add":
                self.sums[position] = seen

    def adds(self, args: Any, output: Any) -> bool:
        """Return whether two of the tensors that entered a module were added."""
        terms = [t for t in tensors_in(args) if id(t) in self.made and self.origin(t) == "data"]
        return isinstance(output, Tensor) and [t.shape for t in terms].count(output.shape) > 1

    def module(self, module: nn.Module, entry: _Entry, output: Any) -> Operation:
        kind = kinds.module_kind(module, bool(self.activated))
        if kind == "other" and self.added:
            kind = "add"
        channels = self.upstream_channels(entry.sources)
        if kind in ("weight", "embedding"):
            channels = isinstance(module, nn.modules.conv._ConvNd)
        made = main_tensor(output)
        shapes = entry.shape or (), () if made is None else tuple(made.shape)
        return Operation(
            kind,
            self.paths[module],
            None,
            entry.sources,
            activation=self.activated,
            channels_first=channels,
            flattens=kind in ("pass", "other") and kinds.flattens(*shapes),
            origin=_joint(kind, entry.origins),
            recurrent=isinstance(module, nn.RNNBase),
            inner=module.num_layers if isinstance(module, nn.RNNBase) else 0,
            parameters=self.parameters(list(module.parameters()), ()),
        )


def _seen(path: str, call: int, position: int, tensor: Tensor, **more: Any) -> Seen:
    shape = tuple(tensor.shape)
    return Seen(path, call, position, shape, tensor.dtype, tensor.device, **more)


def _version(tensor: Tensor) -> int:
    """Return how often a tensor, or one that shares its memory, has been written into."""
    return 0 if tensor.is_inference() else tensor._version


def _joint(kind: Kind, origins: Sequence[Origin]) -> Origin:
    """Return what a result is made of; features of learned inputs are as good as data."""
    if kind in ("weight", "embedding") or "data" in origins:
        return "data"
    return "weights" if "weights" in origins else "fixed"


def _operands(
    name: str, args: Any, kwargs: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """Return input, weight (K, p) and bias of a product; None when the function is not one."""
    if name in ("matmul", "mm"):
        if len(args) != 2 or not all(isinstance(a, Tensor) for a in args) or args[1].dim() != 2:
            return None
        return args[0], args[1].T, None
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    operand, weight, bias = (given.get(key) for key in names[:3])
    if name not in ("linear", "conv1d", "conv2d", "conv3d") or given.get("groups", 1) != 1:
        return None
    if not isinstance(operand, Tensor) or not isinstance(weight, Tensor) or weight.dim() < 2:
        return None
    # A kernel larger than one position is not a matrix.
    one = weight.shape[1] * weight.shape[0] == weight.numel()
    return (operand, weight.flatten(1), bias) if one else None
