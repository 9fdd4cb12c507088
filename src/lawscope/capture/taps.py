"""Taps: what is read at a station and as which rows, and the reader that hands it to observers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from lawscope.capture.attention import FUSED, attend_in_parts
from lawscope.capture.kinds import function_name
from lawscope.capture.outputs import find_stream, main_tensor
from lawscope.capture.pooling import Pooling, loses_mask, pool, pool_maps
from lawscope.capture.stations import Place, Station
from lawscope.capture.trace import hooked
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError
from lawscope.precision import without_autocast

What = Literal["output", "input", "output gradient", "output jacobian"]
GRADIENTS: tuple[What, ...] = ("output gradient", "output jacobian")
MOST_PROBES = 64  # of more outputs random sums are taken
Rows = Literal["samples", "positions", "raw"]
Reduce = Callable[[Tensor, Tensor | None], Tensor]
Location = tuple[Place, str, str, int]  # and module path, function, call


@dataclass(frozen=True)
class Tap:
    """What an observer reads at a station.

    Attributes:
        station: where.
        what: its "output", the "input" of its module or function, the "output gradient": that of
            the loss with respect to the output; or the "output jacobian": that of each of the
            network's outputs in turn, with which it is seen many times in a batch.
        rows: "samples", one pooled row each, (B, d); "positions", one per token or pixel, batch
            first, (B·T, d); or "raw", as it is.
        pooling: of sequences and maps, for "samples".
        reduce: makes rows (B, d) of activations and mask, instead of the pooling.
    """

    station: Station
    what: What = "output"
    rows: Rows = "samples"
    pooling: Pooling = "auto"
    reduce: Reduce | None = None

    @property
    def location(self) -> Location:
        """Where the tensor passes by."""
        place = self.station.place
        if self.what == "input":
            inputs: dict[Place, Place] = {"output": "entrance", "function": "operand"}
            inputs["projection"] = "projected"
            place = inputs.get(place, place)
        return place, self.station.path, self.station.function, self.station.call


class Observer:
    """Whoever wants to see activations: a law at work. Every method may be left as it is."""

    def taps(self) -> Sequence[Tap]:
        """Return what to read in the coming pass; nothing when done."""
        return ()

    def wants_pass(self) -> bool:
        """Return whether it wants the coming pass: one without taps may, for batches and output."""
        return bool(self.taps())

    def passes(self) -> int:
        """Return how often the data has to go through; a training loop shows it once."""
        return 1

    def wants_batch(self) -> bool:
        """Return whether it wants the coming batch of a training loop that it watches."""
        return True

    def begin_batch(self, batch: Batch) -> None:
        """Get ready for a batch that is about to run."""

    def see(self, tap: Tap, rows: Tensor) -> None:
        """Take in what a tap gave; use it now, it is not kept."""

    def see_output(self, output: Any) -> None:
        """Take in what the network returned for the batch."""

    def end_batch(self) -> None:
        """Finish with a batch: everything it gave has been seen."""

    def end_pass(self) -> None:
        """Finish with a pass: the data has gone through once."""

    def step(self, optimizer: Optimizer) -> None:
        """Note that the optimizer has made a step; only where a training loop is watched."""


class OnePass(Observer):
    """An observer that is done when its ``wanted`` taps have been read in one pass."""

    wanted: Sequence[Tap] = ()
    done = False

    def taps(self) -> Sequence[Tap]:
        return () if self.done else self.wanted

    def end_pass(self) -> None:
        self.done = True


class Reader(TorchFunctionMode):
    """Hooks that turn one forward pass, and its backward pass, into rows for observers.

    Operations whose padding was pooled, for want of a mask, are added to ``unmasked``.
    """

    def __init__(self, model: nn.Module, observers: Sequence[Observer], unmasked: set[int]) -> None:
        super().__init__()
        self.model, self.unmasked = model, unmasked
        self.observers: dict[Tap, list[Observer]] = {}
        self.active = [observer for observer in observers if observer.wants_pass()]
        for observer in observers:
            for tap in observer.taps():
                self.observers.setdefault(tap, []).append(observer)
        self.taps: dict[Location, list[Tap]] = {}
        for tap in self.observers:
            self.taps.setdefault(tap.location, []).append(tap)
        self.functions = {f for place, _, f, _ in self.taps if place in ("function", "operand")}
        inside = {path for place, path, _, _ in self.taps if place in ("projection", "projected")}
        self.attentions = inside  # modules whose projections are read
        self.functions |= {FUSED} if inside else set()
        self.paths = {module: path for path, module in model.named_modules()}
        self.gradients = any(tap.what == "output gradient" for tap in self.observers)
        self.jacobians = any(tap.what == "output jacobian" for tap in self.observers)
        # What to do with a tensor whose gradient is wanted; by default its place in the graph is
        # kept until the loss is known.
        self.catch: Callable[[Tap, Tensor], None] = self._keep_edge
        self.edges: list[tuple[Tap, GradientEdge, Tensor, int]] = []
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.stack: list[str] = []
        self.missing: dict[Location, str] = {}
        self.open = False  # between the beginning and the end of a forward pass
        self.batch: Batch

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Set hooks inside, and take them off after, whatever happens."""
        with ExitStack() as stack:
            if self.functions:
                # The path of the module at work is needed, so every module is followed.
                stack.enter_context(hooked(self.model, self._enter, self._leave))
            for place, path in {(place, path) for place, path, _, _ in self.taps}:
                module = self.model.get_submodule(path)
                if place == "output":
                    handle = module.register_forward_hook(self._output)
                elif place == "entrance":
                    handle = module.register_forward_pre_hook(self._entrance, with_kwargs=True)
                else:
                    continue
                stack.callback(handle.remove)
            yield

    def run(self, batch: Batch) -> Any:
        """Run a batch and return the network's output; every tap must have been seen by its end."""
        self.begin(batch)
        with self if self.functions else nullcontext():
            output = self.model(*batch.args, **batch.kwargs)
        self.end()
        return output

    def begin(self, batch: Batch) -> None:
        self.batch, self.calls, self.stack, self.edges = batch, Counter(), [], []
        self.open = True
        self.missing = {location: taps[0].station.name for location, taps in self.taps.items()}
        if ("input", "", "", 1) in self.taps:
            self._arrive(("input", "", "", 1), lambda tap: batch.main)

    def end(self) -> None:
        """Check that every station ran."""
        self.open = False
        for name in self.missing.values():
            raise LawscopeError(
                f"Station '{name}' was asked for and never ran in a batch of {self.batch.size}; "
                "drop it from stations=, or feed data that reaches it in every batch."
            )

    def backward_outputs(self, outputs: Tensor) -> None:
        """Hand over the gradients of each of the network's outputs (B, …) in turn."""
        for probe in make_probes(outputs[0]):
            self.backward((outputs * probe).sum(), "output jacobian")

    def backward(self, loss: Tensor, what: What = "output gradient") -> None:
        """Hand over the gradients of a loss; nobody's ``.grad`` is touched."""
        edges = [entry for entry in self.edges if entry[0].what == what]
        if edges:
            inputs = [edge for _, edge, _, _ in edges]
            again = what == "output jacobian"  # others come after it
            grads: Sequence[Tensor | None] = torch.autograd.grad(
                loss, inputs, allow_unused=True, retain_graph=again
            )
            for (tap, _, tensor, version), grad in zip(edges, grads, strict=True):
                if grad is None and tensor._version != version:
                    raise LawscopeError(
                        f"Station '{tap.station.name}' is overwritten in place, so that its "
                        "gradient is lost; measure the station that overwrites it."
                    )
                self.hand_over(tap, torch.zeros_like(tensor) if grad is None else grad)

    def hand_over(self, tap: Tap, tensor: Tensor) -> None:
        """Give the rows of a tensor to the observers of a tap."""
        # Statistics are not part of the network: keep function modes and autocast out of them.
        with torch._C.DisableTorchFunction(), torch.no_grad(), without_autocast():
            rows = self._rows(tap, tensor.detach())
            for observer in self.observers[tap]:
                observer.see(tap, rows)

    def _keep_edge(self, tap: Tap, tensor: Tensor) -> None:
        if not tensor.requires_grad:
            raise LawscopeError(
                f"Station '{tap.station.name}' has no gradient: the network computes it without "
                "autograd."
            )
        # The edge, not the tensor, which may be overwritten in place and then stand for another.
        self.edges.append((tap, get_gradient_edge(tensor), tensor.detach(), tensor._version))

    def _arrive(self, location: Location, find: Callable[[Tap], Tensor | None]) -> None:
        """Hand over what has come to a location, once for every way of reading it."""
        # Checkpointed activations are computed again in the backward pass.
        for tap in self.taps.get(location, ()) if self.open else ():
            with torch._C.DisableTorchFunction():
                tensor = find(tap)
            if tensor is None:
                continue
            self.missing.pop(location, None)
            if tap.what in GRADIENTS:
                with torch._C.DisableTorchFunction():
                    self.catch(tap, tensor)
            else:
                self.hand_over(tap, tensor)

    def _count(self, place: str, path: str, function: str = "") -> int:
        self.calls[place, path, function] += 1
        return self.calls[place, path, function]

    def _apart(self, location: Location, output: Any) -> Any:
        """Return a copy of an output whose gradient is wanted, for the network to go on with."""
        # A view, as a linear layer's output of a sequence, leaves the graph when overwritten.
        taps = self.taps.get(location, ()) if self.open else ()
        wanted = any(tap.what in GRADIENTS for tap in taps)
        return output.clone() if wanted and isinstance(output, Tensor) else output

    def _output(self, module: nn.Module, args: Any, output: Any) -> Any:
        path = self.paths[module]
        location: Location = ("output", path, "", self._count("output", path))
        self._arrive(location, lambda tap: self._find(tap, output, main_tensor(output)))
        return self._apart(location, output)

    def _entrance(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        path = self.paths[module]
        location: Location = ("entrance", path, "", self._count("entrance", path))
        given = Batch(args, kwargs, None)
        main = given.main if given.inputs else None
        self._arrive(location, lambda tap: self._find(tap, (args, kwargs), main))

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append(self.paths[module])

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if self.stack:  # empty where somebody's hook failed before the module was entered
            self.stack.pop()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, function_name(func)
        if name not in self.functions or not self.stack:
            return func(*args, **kwargs)
        path = self.stack[-1]
        if name == FUSED and path in self.attentions:
            call = self._count("projection", path)

            def project(part: str, entered: Tensor, made: Tensor) -> Tensor:
                self._arrive(("projected", path, part, call), lambda tap: entered)
                self._arrive(("projection", path, part, call), lambda tap: made)
                apart: Tensor = self._apart(("projection", path, part, call), made)
                return apart

            return attend_in_parts(func, args, kwargs, project)
        call = self._count("function", path, name)
        first = args[0] if args else kwargs.get("input")
        self._arrive(("operand", path, name, call), lambda tap: first)
        output = func(*args, **kwargs)
        self._arrive(("function", path, name, call), lambda tap: main_tensor(output))
        return self._apart(("function", path, name, call), output)

    def _find(self, tap: Tap, value: Any, main: Tensor | None) -> Tensor | None:
        """Return the main tensor of inputs or outputs; the stream of tokens at its stations."""
        if not tap.station.stream:
            return main
        shape = (self.batch.size,) if self.batch.tokens is None else self.batch.tokens.shape
        found = find_stream(value, shape)
        if found is None:
            raise LawscopeError(
                f"Block '{tap.station.name}' gives no activations of shape (batch, tokens, d) for "
                f"a batch of {tuple(shape)} tokens."
            )
        return found

    def _rows(self, tap: Tap, tensor: Tensor) -> Tensor:
        """Return activations, or gradients, as the rows that a tap asks for."""
        station, batch = tap.station, self.batch
        whole = not (tensor.is_floating_point() or tensor.is_complex())
        if tap.rows == "raw" and tap.what == "input" and whole:
            return tensor  # as an embedding reads it
        if not tensor.is_floating_point():
            kind = "complex" if tensor.is_complex() else "integer"
            raise LawscopeError(
                f"Station '{station.name}' gives {kind} activations ({tensor.dtype}); drop it "
                "from stations=, or measure a station with real ones."
            )
        if not tensor.numel():
            raise LawscopeError(
                f"Station '{station.name}' has no features: its activations have shape "
                f"{tuple(tensor.shape)}; name the other stations with stations=."
            )
        if tap.rows == "raw":
            return tensor
        if station.batch_dim == 1 and tensor.dim() > 1:
            tensor = tensor.transpose(0, 1)
        if tensor.shape[0] != batch.size:
            raise LawscopeError(
                f"Station '{station.name}' gives activations of shape {tuple(tensor.shape)} "
                f"for {batch.size} samples; one row per sample is needed, so drop it from "
                "stations=."
            )
        if tap.rows == "positions":
            if station.channels_first and tensor.dim() > 2:
                tensor = tensor.flatten(2).transpose(1, 2)
            return tensor.reshape(-1, tensor.shape[-1])
        if tap.reduce is not None:
            return tap.reduce(tensor, batch.mask)
        pooling = station.choose_pooling(tap.pooling)
        if station.sequence and tensor.dim() == 3:
            if loses_mask(tensor, pooling, batch.mask):
                self.unmasked.add(station.operation)
            return pool(tensor, pooling, batch.mask)
        return tensor if tensor.dim() == 2 else pool_maps(tensor, pooling)


def make_probes(output: Tensor) -> Iterator[Tensor]:
    """Yield directions v of an output, of its shape, whose mean of vvᵀ is the identity.

    Of K ≤ 64 numbers each by itself, times √K, which is exact. Of more, 64 draws of random signs,
    always the same, for which it is so on average.
    """
    count = output.numel()
    generator = torch.Generator().manual_seed(0)
    for number in range(min(count, MOST_PROBES)):
        if count <= MOST_PROBES:
            probe = torch.zeros(count, device="cpu")
            probe[number] = count**0.5
        else:
            probe = torch.randint(2, (count,), generator=generator, device="cpu") * 2.0 - 1
        yield probe.view(output.shape).to(output)
