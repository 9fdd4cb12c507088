"""Which activations are sequences of tokens."""

from __future__ import annotations

from lawscope.capture.flow import Operation

_PER_TOKEN = ("weight", "norm", "embedding")


def is_sequence(operations: list[Operation], position: int, shape: tuple[int, ...]) -> bool:
    """Whether an activation of this shape, batch included, is (tokens, channels) per sample.

    Three axes are, unless channels come before positions, or the rows mean nothing by
    themselves: no weight has worked on them yet, and everything that reads them flattens them
    first, as an MLP does with an image.

    Args:
        operations: the data flow.
        position: of the operation that made the activation.
        shape: of the activation.
    """
    if len(shape) != 3 or operations[position].channels_first:
        return False
    return not _only_flattened(operations, position) or _weighted(operations, position)


def _only_flattened(operations: list[Operation], start: int) -> bool:
    """Whether every way from here meets a flattening before a weight, and some way does."""
    flattened, ahead, met = False, [start], {start}
    while ahead:
        for reader in operations[ahead.pop()].consumers:
            if operations[reader].flattens:
                flattened = True
            elif operations[reader].kind in _PER_TOKEN:
                return False
            elif reader not in met:
                met.add(reader)
                ahead.append(reader)
    return flattened


def _weighted(operations: list[Operation], start: int) -> bool:
    """Whether a weight has worked on what comes here."""
    behind, met = [start], {start}
    while behind:
        here = operations[behind.pop()]
        if here.kind == "weight":
            return True
        behind.extend(source for source in here.inputs if source not in met)
        met.update(here.inputs)
    return False
