"""Where layers meet: who writes the units of a tensor and who reads them, from a traced pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from lawscope.capture import kinds
from lawscope.capture.outputs import main_tensor
from lawscope.capture.trace import Operation, Trace
from lawscope.laws.conservation.symmetry import Leg

SHOWN = 4  # layers in a name
# f(c x) = c f(x) for every c > 0.
HOMOGENEOUS = frozenset({"relu", "leaky_relu", "prelu", "rrelu"})
# Functions of two tensors of data in which neither is added to the other.
MULTIPLIES = (kinds.PRODUCTS | kinds.TIMES | {"softmax"}) - {"linear"}
JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})


@dataclass(frozen=True)
class Reading:
    """One layer that reads units: they are entries ``start`` on of ``total`` that it is given."""

    operation: int
    start: int
    total: int


@dataclass(eq=False)
class Writer:
    """A layer that writes units, and what becomes of them until other layers read them."""

    operation: int
    name: str
    units: int
    legs: tuple[Leg, ...]
    constants: tuple[Leg, ...] = ()  # those that add the same for every sample: biases
    readings: set[Reading] = field(default_factory=set)
    meets: set[int] = field(default_factory=set)  # sums at which it meets other writers
    functions: set[str] = field(default_factory=set)  # what stands in between
    activations: set[str] = field(default_factory=set)
    last_axes: set[int] = field(default_factory=set)  # lengths of the last axis of (B, H, T, h)
    multiplied: bool = False  # with other data, as in attention and gates
    leaves: bool = False  # it is part of the network's output

    @property
    def homogeneous(self) -> bool:
        return self.activations <= HOMOGENEOUS


@dataclass(eq=False)
class Interface:
    """Writers whose units are added up, and all that read them."""

    writers: list[Writer]
    pinned: str = ""  # why its units cannot change, if they cannot

    @property
    def name(self) -> str:
        return name_layers(writer.name for writer in self.writers)

    @property
    def readings(self) -> list[Reading]:
        found = {r for writer in self.writers for r in writer.readings}
        return sorted(found, key=lambda r: (r.operation, r.start))


class Network:
    """A traced network as layers that write and read units."""

    def __init__(self, model: nn.Module, trace: Trace) -> None:
        self.modules = dict(model.named_modules())
        self.shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
        self.operations = trace.operations
        self.last = _find_output(trace)
        found = (self._writer(position) for position in range(len(self.operations)))
        self.writers = [writer for writer in found if writer is not None]
        for writer in self.writers:
            self._follow(writer)

    def module(self, operation: Operation) -> nn.Module | None:
        return self.modules.get(operation.path) if operation.function is None else None

    def is_layer(self, operation: Operation) -> bool:
        """Return whether units end here: it has parameters of its own and mixes or normalises."""
        if operation.kind in ("weight", "embedding", "norm"):
            return True
        if operation.function in JOINS:  # a class token is added to the others
            return False
        return bool(operation.parameters) and operation.kind not in ("activation", "add")

    def name(self, position: int) -> str:
        """Return how a layer is called: by its module, or by its parameters."""
        operation = self.operations[position]
        names = operation.parameters
        if operation.function is not None and len(names) == 1:
            return names[0]
        return operation.path or " and ".join(names)

    def matrix(self, operation: Operation) -> tuple[str, int] | None:
        """Return the matrix of a layer, and the axis along which its outputs are counted."""
        module = self.module(operation)
        wide = [name for name in operation.parameters if len(self.shapes[name]) > 1]
        if len(wide) != 1 or isinstance(module, nn.RNNBase | nn.Bilinear | nn.MultiheadAttention):
            return None
        shape = self.shapes[wide[0]]
        if operation.kind == "embedding":
            return wide[0], 1
        if isinstance(module, _ConvNd):
            transposed = isinstance(module, _ConvTransposeNd)
            return wide[0], int(transposed)
        if isinstance(module, nn.Linear):
            return wide[0], 0
        if operation.kind != "weight" or len(shape) != 2:
            return None
        sources = [self.operations[i] for i in operation.inputs]
        turned = any(o.function in kinds.TURNS and o.origin == "weights" for o in sources)
        if operation.function == "linear":
            return wide[0], int(turned)
        fits = [axis for axis in (0, 1) if operation.shape[-1:] == (shape[axis],)]
        by_rule = 0 if turned else 1  # x @ W counts outputs along the second axis
        return (wide[0], by_rule if by_rule in fits else fits[0]) if fits else None

    def attention(self, operation: Operation) -> nn.MultiheadAttention | None:
        """Return the attention module that an operation is, with one matrix for its inputs."""
        module = self.module(operation)
        fused = isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None
        return module if fused else None  # type: ignore[return-value]

    def _writer(self, position: int) -> Writer | None:
        operation = self.operations[position]
        small = [name for name in operation.parameters if len(self.shapes[name]) == 1]
        found = self.matrix(operation) if operation.kind in ("weight", "embedding") else None
        if found is not None:
            name, axis = found
            units = self.shapes[name][axis]
            legs = [Leg(name, axis), *(Leg(b, 0) for b in small if self.shapes[b] == (units,))]
        elif self._scales(operation):
            units = self.shapes[small[0]][0]
            legs = [Leg(name, 0) for name in small if self.shapes[name] == (units,)]
        elif (attention := self.attention(operation)) is not None:
            units = attention.embed_dim
            name = f"{operation.path}.out_proj."
            legs = [Leg(n, 0) for n in operation.parameters if n.startswith(name)]
        else:
            return None
        constants = legs if operation.kind == "embedding" else legs[1:]
        return Writer(position, self.name(position), units, tuple(legs), tuple(constants))

    def _scales(self, operation: Operation) -> bool:
        """Return whether a layer has a gain for each unit: a norm, LayerScale."""
        vectors = [name for name in operation.parameters if len(self.shapes[name]) == 1]
        times = operation.function in kinds.TIMES
        return len(vectors) == len(operation.parameters) > 0 and (operation.kind == "norm" or times)

    def _follow(self, writer: Writer) -> None:
        """Go along with the units, to where layers read them."""
        todo, done = [(writer.operation, 0, writer.units, False)], set()
        while todo:
            state = position, start, total, multiplied = todo.pop()
            if state in done:
                continue
            done.add(state)
            if position in self.last:
                writer.leaves = True
            for consumer in self.operations[position].consumers:
                after = self.operations[consumer]
                if self.is_layer(after):
                    writer.readings.add(Reading(consumer, start, total))
                    continue
                here, product = (start, total), multiplied
                writer.last_axes |= {after.shape[-1]} if len(after.shape) == 4 else set()
                name = after.function or type(self.modules.get(after.path)).__name__.lower()
                if name in JOINS:
                    here = self._join(after, position, start, total)
                    writer.functions.add(name)
                    if here == (start, total) and not multiplied:
                        writer.meets.add(consumer)
                elif after.kind == "add":
                    writer.meets |= set() if multiplied else {consumer}
                elif after.kind == "activation":
                    writer.activations.add(after.activation)
                elif after.kind == "other":
                    if after.function is None and total not in after.shape[1:]:
                        continue  # rotary angles ask for the type of the stream only
                    writer.functions.add(name)
                    data = [i for i in after.inputs if self.operations[i].weighted]
                    product |= name == "softmax" or (name in MULTIPLIES and len(data) > 1)
                    writer.multiplied |= product
                todo.append((consumer, *here, product))

    def _join(self, after: Operation, position: int, start: int, total: int) -> tuple[int, int]:
        """Return where units stand behind a concatenation; unmoved where other axes are joined."""
        shapes = {i: self.operations[i].shape for i in after.inputs}
        sizes = {i: shape for i, shape in shapes.items() if len(shape) == len(after.shape)}
        units = 1 if after.channels_first else len(after.shape) - 1
        if shapes[position][units:] == after.shape[units:] and after.shape[units] == total:
            return start, total  # there may be as many tokens as units
        for axis in range(1, len(after.shape)):
            joined = [shape[axis] for shape in sizes.values()]
            if sum(joined) == after.shape[axis] and shapes[position][axis : axis + 1] == (total,):
                ahead = list(sizes).index(position)
                return start + sum(joined[:ahead]), after.shape[axis]
        return start, total

    def interfaces(self) -> list[Interface]:
        """Return writers in groups that are added up, in the order the data meets them."""
        groups: list[list[Writer]] = []
        for writer in self.writers:
            joined = [g for g in groups if any(writer.meets & other.meets for other in g)]
            groups = [g for g in groups if g not in joined]
            groups.append([*(w for g in joined for w in g), writer])
        groups.sort(key=lambda g: g[0].operation)
        return [Interface(group, self._pin(group)) for group in groups]

    def _pin(self, group: list[Writer]) -> str:
        if any(writer.leaves for writer in group):
            return "its units are the network's output"
        if not any(writer.readings for writer in group):
            return "no layer reads its units"
        sums = {position for writer in group for position in writer.meets}
        for position in sums:
            operation = self.operations[position]
            data = [i for i in operation.inputs if self.operations[i].origin == "data"]
            if any(not self.operations[i].weighted for i in data):
                return "raw data is added to its units"
        if len({writer.units for writer in group}) > 1:
            return "layers of different widths are added"
        return ""

    def added(self, interface: Interface) -> list[Leg]:
        """Return parameters that are added to the units of an interface, as positions are."""
        sums = sorted({position for writer in interface.writers for position in writer.meets})
        units = interface.writers[0].units
        found = {leg for position in sums for leg in self._parameters_of(position, units)}
        return sorted(found, key=lambda leg: leg.parameter)

    def offsets(self, writer: Writer) -> Iterator[tuple[Leg, ...]]:
        """Yield a constant of a writer with all that must move for its samples to stay as they are.

        Positions that are added move the other way, and a class token that is joined along.
        """
        joined, added = list[Leg](), list[Leg]()
        for position in sorted(writer.meets):
            joins = self.operations[position].function in JOINS
            (joined if joins else added).extend(self._parameters_of(position, writer.units))
        for constant in writer.constants:
            for leg in added:
                yield constant, *joined, replace(leg, sign=-1)

    def _parameters_of(self, position: int, units: int) -> Iterator[Leg]:
        for name in self.operations[position].parameters:
            if self.shapes[name][-1:] == (units,):
                yield Leg(name, len(self.shapes[name]) - 1)

    def reader(self, reading: Reading) -> Leg | None:
        """Return the part of a layer that reads units, with sign −1; None where it has none."""
        operation = self.operations[reading.operation]
        if self._scales(operation) and operation.kind != "norm":
            return Leg(operation.parameters[0], 0, reading.start, sign=-1)
        if self.attention(operation) is not None:
            return Leg(f"{operation.path}.in_proj_weight", 1, sign=-1)
        found = self.matrix(operation) if operation.kind == "weight" else None
        if found is None:
            return None
        name, axis = found
        module = self.module(operation)
        shape = self.shapes[name]
        if isinstance(module, _ConvNd) and module.groups > 1:
            depthwise = module.groups == module.in_channels == module.out_channels
            return Leg(name, 0, reading.start, sign=-1) if depthwise else None
        width = shape[1 - axis]
        if width % reading.total:
            return None
        block = width // reading.total
        return Leg(name, 1 - axis, reading.start * block, block, block, sign=-1)


def _find_output(trace: Trace) -> set[int]:
    """Return the operation that made the network's main output."""
    main = main_tensor(trace.output)
    shape = () if main is None else tuple(main.shape)
    ends = [i for i, o in enumerate(trace.operations) if not o.consumers and o.shape == shape]
    return set(ends[-1:])


def name_layers(names: Iterable[str]) -> str:
    """Return layers for people, the first few of them."""
    each = list(dict.fromkeys(names))
    more = [f"{len(each) - SHOWN} more"] if len(each) > SHOWN else []
    return " + ".join([*each[:SHOWN], *more])
