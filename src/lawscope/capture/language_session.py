"""A language model on the bench: text goes through, the stream of every block is handed over."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from lawscope.capture.enough_memory import enough_memory
from lawscope.capture.kept_memory import kept_memory
from lawscope.capture.language import Inputs, stream
from lawscope.capture.language_probe import LanguageModel, look
from lawscope.capture.own_weights import own_weights
from lawscope.capture.source import RandomState
from lawscope.capture.token_batches import Task, TokenBatch
from lawscope.capture.untouched import untouched
from lawscope.errors import LawscopeError

See = Callable[[int, Tensor], None]


class LanguageSession:
    """An opened language model with hooks on its blocks; made by :func:`open_language`.

    Attributes:
        found: what a first look at the model showed.
        names: "embedding", which is what enters the first block, and the paths of the blocks.
    """

    def __init__(self, model: nn.Module, found: LanguageModel) -> None:
        self.model, self.found = model, found
        self.names = ("embedding", *found.blocks.names)
        self._now: tuple[Sequence[int], See] | None = None

    def run(self, inputs: Inputs, shape: Sequence[int], see: See) -> None:
        """One forward pass.

        Args:
            inputs: positional and keyword inputs of the model.
            shape: (B, T) of the token ids.
            see: called with the position in ``names`` and the activations (B, T, d) as they
                appear; use them at once, they are not kept.

        Raises:
            LawscopeError: a block without such activations, or too little memory.
        """
        self._now = (shape, see)
        try:
            with _room_for(shape):
                self.model(*inputs[0], **inputs[1])
        finally:
            self._now = None

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Hooks are set inside, and gone after, whatever happens."""
        with ExitStack() as stack:
            blocks = self.found.blocks
            handle = blocks.entrance.register_forward_pre_hook(self._entrance, with_kwargs=True)
            stack.callback(handle.remove)
            for i, module in enumerate(blocks.modules, start=1):
                handle = module.register_forward_hook(self._output(i))
                stack.callback(handle.remove)
            yield

    def _entrance(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._hand_over(0, (args, kwargs))

    def _output(self, position: int) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, made: Any) -> None:
            self._hand_over(position, made)

        return hook

    def _hand_over(self, position: int, value: Any) -> None:
        if self._now is None:
            return
        shape, see = self._now
        hidden = stream(value, shape)
        if hidden is None:
            raise LawscopeError(
                f"Block '{self.names[position]}' gives no activations of shape (batch, tokens, d) "
                f"for a batch of {tuple(shape)} tokens."
            )
        see(position, hidden.detach())


@contextmanager
def open_language(
    model: nn.Module, example: TokenBatch, task: Task, every: int = 1
) -> Iterator[LanguageSession]:
    """Open a language model for measuring, and leave it exactly as it was.

    Args:
        model: already unwrapped.
        example: a batch to find the blocks with.
        task: what the model was trained for.
        every: hand over every so many-th block.

    Raises:
        LawscopeError: the model cannot be measured, or has fewer blocks than ``every``.
    """
    before = RandomState(None)
    try:
        with kept_memory(), untouched(model), own_weights(model) as first_run:
            with first_run, _room_for(example.ids.shape):
                found = look(model, example, task)
            _check_step(every, len(found.blocks.names))
            thinned = dataclasses.replace(found, blocks=found.blocks.thinned(every))
            session = LanguageSession(model, thinned)
            with session.hooks():
                yield session
    finally:
        before.restore()


def _check_step(every: int, blocks: int) -> None:
    if every > blocks:
        raise LawscopeError(
            f"every={every} leaves out all of the model's {blocks} blocks; take a smaller step."
        )


def _room_for(shape: Sequence[int]) -> AbstractContextManager[None]:
    """Too little memory for a forward pass becomes a sentence."""
    return enough_memory(
        f"a batch of {shape[0]} sequences of {shape[1]} tokens",
        "use a shorter window or smaller batches, load the model in a smaller dtype, or measure "
        "fewer blocks (every=2)",
    )
