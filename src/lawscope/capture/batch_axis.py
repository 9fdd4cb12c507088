"""Which axis of an activation counts samples."""

from __future__ import annotations

from collections.abc import Iterator

from lawscope.capture.flow import Seen, Trace

Shape = tuple[int, ...]


def is_ambiguous(found: Trace) -> bool:
    """Whether an axis other than the first has as many entries as there are samples.

    Then one look cannot tell tokens from samples: a batch of 8 sequences of 8 tokens.
    """
    return any(found.batch in shape[1:] for shape in _shapes(found))


def _shapes(found: Trace) -> Iterator[Shape]:
    yield found.input_shape
    for seen in found.seen:
        yield seen.shape
        if seen.input_shape is not None:
            yield seen.input_shape


class BatchAxis:
    """Finds the axis of samples: as long as the batch, in both of two looks where there are two.

    Args:
        found: a look at the network.
        again: another, with a different number of samples, where the first is ambiguous.
    """

    def __init__(self, found: Trace, again: Trace | None = None) -> None:
        self.found, self.again = found, again
        seen = [] if again is None else again.seen
        self._seen_again = {(s.path, s.function, s.call): s for s in seen}

    def of_input(self) -> int | None:
        """Axis of the raw data, or None when no axis counts samples."""
        again = None if self.again is None else self.again.input_shape
        return self._axis(self.found.input_shape, again)

    def of(self, seen: Seen) -> int | None:
        """Axis of what a module or an activation gave."""
        again = self._same(seen)
        return self._axis(seen.shape, None if again is None else again.shape)

    def of_entrance(self, seen: Seen) -> int | None:
        """Axis of what entered a module."""
        if seen.input_shape is None:
            return None
        again = self._same(seen)
        return self._axis(seen.input_shape, None if again is None else again.input_shape)

    def _same(self, seen: Seen) -> Seen | None:
        return self._seen_again.get((seen.path, seen.function, seen.call))

    def _axis(self, shape: Shape, again: Shape | None) -> int | None:
        """Samples come first, or second where tokens come first."""
        axes = [axis for axis in (0, 1) if len(shape) >= axis + 2]
        fitting = [axis for axis in axes if shape[axis] == self.found.batch]
        if self.again is not None and again is not None and len(again) == len(shape):
            fitting = [axis for axis in fitting if again[axis] == self.again.batch]
        return fitting[0] if fitting else None
