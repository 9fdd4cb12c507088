"""Observers in somebody's own training loop: hooks on its forward, backward and optimizer step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from lawscope.capture.taps import Observer, Reader, Tap
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError


class Watch:
    """What observers see of a loop that somebody else drives; made by ``Session.attach``."""

    def __init__(self, reader: Reader, observers: Sequence[Observer]) -> None:
        self.samples = 0
        self._reader, self._observers = reader, observers
        self._labels: Tensor | None = None
        self._paused = False
        self._running = False  # a forward pass that is watched is under way
        self._functions = ExitStack()  # inside, the reader follows functions
        self._unfinished = False  # a batch has begun and not ended
        self._awaited: list[RemovableHandle] = []  # gradients of the latest forward pass
        reader.catch = self._await_gradient

    def labels(self, labels: Tensor) -> None:
        """Name the labels of the next batch."""
        self._labels = labels

    @contextmanager
    def pause(self) -> Iterator[None]:
        """See nothing inside, as while the network is being validated."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    @contextmanager
    def hooks(self, optimizer: Optimizer | None) -> Iterator[None]:
        model = self._reader.model
        with ExitStack() as stack:
            # Before the reader's own, which may be on the network itself.
            begin = model.register_forward_pre_hook(self._begin, with_kwargs=True)
            stack.callback(begin.remove)
            stack.enter_context(self._reader.hooks())
            end = model.register_forward_hook(self._end, always_call=True)
            stack.callback(end.remove)
            if optimizer is not None:
                stack.callback(optimizer.register_step_post_hook(self._step).remove)
            stack.callback(self._forget_gradients)
            # An interrupt inside a forward pass does not come by the hook at its end.
            stack.enter_context(self._functions)
            yield
            self._finish()

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._paused or self._running:
            return
        self._finish()
        # All are asked: an observer may count the batches.
        wanted = [observer.wants_batch() for observer in self._observers]
        if not any(wanted):
            self._labels = None
            return
        batch = Batch(tuple(args), dict(kwargs), self._labels)
        self._labels, self._running, self._unfinished = None, True, True
        for observer in self._observers:
            observer.begin_batch(batch)
        self._reader.begin(batch)
        if self._reader.functions:
            self._functions.enter_context(self._reader)

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        if not self._running:
            return
        self._running = False
        self._functions.close()
        if output is None:  # the forward pass has failed
            self._reader.open = self._unfinished = False
            return
        self._reader.end()
        for observer in self._observers:
            observer.see_output(output)
        self.samples += self._reader.batch.size
        if not self._awaited:
            self._finish()

    def _await_gradient(self, tap: Tap, tensor: Tensor) -> None:
        if not torch.is_grad_enabled():
            return
        if not tensor.requires_grad:
            raise LawscopeError(
                f"Station '{tap.station.name}' has no gradient: nothing before it is trained."
            )

        def arrived(gradient: Tensor) -> None:
            if handle not in self._awaited:
                return  # of an earlier forward pass
            self._awaited.remove(handle)
            self._reader.hand_over(tap, gradient)
            if not self._awaited:
                self._finish()

        handle: RemovableHandle = tensor.register_hook(arrived)
        self._awaited.append(handle)

    def _step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._finish()
        for observer in self._observers:
            observer.step(optimizer)

    def _finish(self) -> None:
        """End the batch, if one is under way; what has not come by now is not waited for."""
        self._forget_gradients()
        if self._unfinished and not self._running:
            self._unfinished = False
            for observer in self._observers:
                observer.end_batch()

    def _forget_gradients(self) -> None:
        for handle in self._awaited:
            handle.remove()
        self._awaited.clear()
