"""A network on the bench: run the data through it and hand over activations as they appear."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lawscope.capture.batch_axis import is_ambiguous
from lawscope.capture.batches import Batch, spread
from lawscope.capture.eager import eager
from lawscope.capture.flow import Trace
from lawscope.capture.kept_memory import keep_freed_memory
from lawscope.capture.kinds import function_name
from lawscope.capture.outputs import main_tensor
from lawscope.capture.pooling import Pooling, check_pooling, loses_mask, pool
from lawscope.capture.source import RandomState, Source
from lawscope.capture.stations import Station, Stations, find_stations
from lawscope.capture.trace import hooked, main_input, trace
from lawscope.capture.untouched import MODES, Mode, untouched, unwrapped
from lawscope.errors import LawscopeError
from lawscope.progress import progress
from lawscope.statistics.own_precision import own_precision

EXAMPLE_SAMPLES = 11  # a number that few axes have
OTHER_SAMPLES = 13  # another, for a second look
T = TypeVar("T")


class Observer(Protocol):
    """Whoever wants to see activations: a law at work."""

    def wanted(self) -> Sequence[Station]:
        """Stations to see in the coming pass; none when done."""

    def begin_batch(self, labels: Tensor | None, size: int) -> None:
        """A batch is about to run."""

    def see(self, station: Station, features: Tensor) -> None:
        """Features of a station, shape (B, d); use them now, they are not kept."""

    def end_pass(self) -> None:
        """The data has gone through once."""


class Session:
    """An opened network with its data; made by :func:`open_session`.

    Attributes:
        stations: all that can be measured.
        passes: how often the data has gone through the network.
        samples: seen in one pass, once a pass is done.
        unmasked: operations whose tokens are pooled with their padding, for want of a mask.
        mode: of the network, "eval" or "train".
    """

    def __init__(
        self, model: nn.Module, source: Source, pooling: Pooling, mode: Mode, show: bool | None
    ) -> None:
        self.model, self.source, self._show = model, source, show
        self.pooling, self.mode = pooling, mode
        self.passes = 0
        self.samples = 0
        self.unmasked: set[int] = set()
        parameter = next(model.parameters(), next(model.buffers(), None))
        self.device = None if parameter is None else parameter.device
        self._accepted = _accepted(model)
        self.example = self._fitted(source.peek())
        seen = self.on_few(trace)
        again = self._with_other_samples() if is_ambiguous(seen) else None
        self.stations: Stations = find_stations(seen, again)
        self.output_shape = seen.output_shape
        self._overwrites = seen.overwrites

    @property
    def module_names(self) -> list[str]:
        """Every module path of the network."""
        return [name for name, _ in self.model.named_modules()]

    def measure(self, observers: Sequence[Observer], description: str = "measuring") -> None:
        """Run passes until no observer wants another."""
        while any(observer.wanted() for observer in observers):
            self._one_pass(observers, description)

    def _fitted(self, batch: Batch) -> Batch:
        """On the network's device, without named inputs it has no parameter for."""
        kwargs = batch.kwargs
        if self._accepted is not None:
            kwargs = {k: v for k, v in kwargs.items() if k in self._accepted} or kwargs
        return Batch(batch.args, kwargs, batch.labels).to(self.device)

    def _own(self, batch: Batch) -> Batch:
        """A copy where the network writes into its inputs: the data is the user's."""
        return batch.head(batch.size) if self._overwrites else batch

    def on_few(self, look: Callable[[nn.Module, Batch], T]) -> T:
        """``look`` at the network with a few samples, or the batch as it is if it insists.

        Always with copies: the network may overwrite its inputs, and the batch is still needed.
        """
        before = RandomState(None)
        try:
            if self.example.size > EXAMPLE_SAMPLES:
                try:
                    return look(self.model, self.example.head(EXAMPLE_SAMPLES))
                except Exception:  # a network may be made for one batch size only
                    before.restore()
            return look(self.model, self.example.head(self.example.size))
        finally:
            before.restore()

    def _with_other_samples(self) -> Trace | None:
        """A look with another number of samples than :meth:`on_few` takes, if there can be one."""
        before, size = RandomState(None), self.example.size
        few = self.example.head(min(size, OTHER_SAMPLES))
        try:
            return trace(self.model, few if size > EXAMPLE_SAMPLES else spread(few, size + 1))
        except Exception:  # a network may be made for one batch size only
            return None
        finally:
            before.restore()

    def _one_pass(self, observers: Sequence[Observer], description: str) -> None:
        wanted: dict[str, tuple[Station, list[Observer]]] = {}
        for observer in observers:
            for station in observer.wanted():
                wanted.setdefault(station.name, (station, []))[1].append(observer)
        reader = _Reader(self.model, wanted, self.pooling, self.unmasked)
        samples = 0
        with progress(description, self.source.batches, self._show) as advance, reader.reading():
            for batch in self.source:
                for observer in observers:
                    observer.begin_batch(batch.labels, batch.size)
                reader.run(self._own(self._fitted(batch)))
                samples += batch.size
                advance(1)
        self.passes += 1
        self.samples = samples
        with own_precision("cpu", *([] if self.device is None else [self.device.type])):
            for observer in observers:
                observer.end_pass()


@contextmanager
def open_session(
    model: nn.Module,
    data: Any,
    *,
    pooling: Pooling = "mean",
    mode: Mode = "eval",
    show: bool | None = None,
) -> Iterator[Session]:
    """Open a network for measuring, and leave it exactly as it was.

    Args:
        model: any module; wrappers of ``torch.compile`` and data parallelism are looked through.
        data: see :class:`~lawscope.capture.source.Source`.
        pooling: for activations that are sequences.
        mode: "train" lets BatchNorm use the statistics of each batch.
        show: progress bar, see :func:`~lawscope.progress.progress`.
    """
    check_pooling(pooling)
    if mode not in MODES:
        raise LawscopeError(f"mode={mode!r} is not known; choose 'eval' or 'train'.")
    inner = unwrapped(model)
    source = Source(data)
    keep_freed_memory()
    try:
        with untouched(inner, mode), eager():
            yield Session(inner, source, pooling, mode, show)
    finally:
        source.restore()


def _accepted(model: nn.Module) -> set[str] | None:
    """Names of the inputs that ``forward`` takes, or None when it takes any."""
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters}


class _Reader(TorchFunctionMode):
    """Hooks that turn one forward pass into features for observers."""

    def __init__(
        self,
        model: nn.Module,
        wanted: dict[str, tuple[Station, list[Observer]]],
        pooling: Pooling,
        unmasked: set[int],
    ) -> None:
        super().__init__()
        self.model, self.wanted, self.pooling, self.unmasked = model, wanted, pooling, unmasked
        self.by_call = {
            (s.place, s.path, s.function, s.call): s
            for s, _ in wanted.values()
            if s.place != "input"
        }
        self.functions = {s.function for s, _ in wanted.values() if s.place == "function"}
        self.operands = {s.function for s, _ in wanted.values() if s.place == "operand"}
        self.paths = {module: path for path, module in model.named_modules()}
        self.calls: dict[tuple[str, str, str], int] = {}
        self.stack: list[str] = []
        self.missing: set[str] = set()
        self.batch: Batch

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hooks are set inside, and gone after, whatever happens."""
        with ExitStack() as stack:
            if self.functions or self.operands:
                # The path of the module at work is needed, so every module is followed.
                stack.enter_context(hooked(self.model, self._enter, self._leave))
            for place, path, _, _ in {(p, path, "", 0) for p, path, _, _ in self.by_call}:
                module = self.model.get_submodule(path)
                if place == "output":
                    handle = module.register_forward_hook(self._output)
                elif place == "entrance":
                    handle = module.register_forward_pre_hook(self._entrance, with_kwargs=True)
                else:
                    continue
                stack.callback(handle.remove)
            yield

    def run(self, batch: Batch) -> None:
        """One forward pass; every wanted station must have been seen by its end."""
        self.batch, self.calls, self.stack = batch, {}, []
        self.missing = set(self.wanted)
        for station, _ in self.wanted.values():
            if station.place == "input":
                self._see(station, main_input(batch))
        if self.functions or self.operands:
            with self:
                self.model(*batch.args, **batch.kwargs)
        else:
            self.model(*batch.args, **batch.kwargs)
        if self.missing:
            name = min(self.missing, key=list(self.wanted).index)
            raise LawscopeError(
                f"Station '{name}' was asked for and never ran in a batch of {batch.size}; drop "
                "it from stations=, or feed data that reaches it in every batch."
            )

    def _count(self, place: str, path: str, function: str = "") -> Station | None:
        key = (place, path, function)
        self.calls[key] = self.calls.get(key, 0) + 1
        return self.by_call.get((place, path, function, self.calls[key]))  # type: ignore[arg-type]

    def _output(self, module: nn.Module, args: Any, output: Any) -> None:
        station = self._count("output", self.paths[module])
        tensor = main_tensor(output)
        if station is not None and tensor is not None:
            self._see(station, tensor)

    def _entrance(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        station = self._count("entrance", self.paths[module])
        if station is not None:
            self._see(station, main_input(Batch(args, kwargs, None)))

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append(self.paths[module])

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.stack.pop()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let the function run; read its result, or what it is given, where that is wanted."""
        name = function_name(func)
        if name in self.operands and self.stack:
            station = self._count("operand", self.stack[-1], name)
            if station is not None:
                self._see(station, args[0] if args else (kwargs or {})["input"])
        output = func(*args, **(kwargs or {}))
        if name in self.functions and self.stack and isinstance(output, Tensor):
            station = self._count("function", self.stack[-1], name)
            if station is not None:
                self._see(station, output)
        return output

    def _see(self, station: Station, activations: Tensor) -> None:
        self.missing.discard(station.name)
        # Statistics are no part of the network: keep function modes and autocast out of them.
        with torch._C.DisableTorchFunction(), own_precision(activations.device.type):
            features = self._rows(station, activations)
            for observer in self.wanted[station.name][1]:
                observer.see(station, features)

    def _rows(self, station: Station, activations: Tensor) -> Tensor:
        """Activations of a station as features, one row per sample."""
        batch = self.batch
        if not activations.is_floating_point():
            kind = "complex" if activations.is_complex() else "integer"
            raise LawscopeError(
                f"Station '{station.name}' gives {kind} activations ({activations.dtype}); drop it "
                "from stations=, or measure a station with real ones."
            )
        if station.batch_dim == 1 and activations.dim() > 1:
            activations = activations.transpose(0, 1)
        if activations.shape[0] != batch.size:
            raise LawscopeError(
                f"Station '{station.name}' gives activations of shape {tuple(activations.shape)} "
                f"for {batch.size} samples; one row per sample is needed, so drop it from "
                "stations=."
            )
        if station.reduce is not None:
            return station.reduce(activations, batch.mask)
        if station.sequence and activations.dim() == 3:
            if loses_mask(activations, self.pooling, batch.mask):
                self.unmasked.add(station.operation)
            return pool(activations, self.pooling, batch.mask)
        return activations if activations.dim() == 2 else activations.reshape(batch.size, -1)
