"""Observers for tests: what a tap gives, kept."""

import torch

from lawscope.capture.session import Session
from lawscope.capture.taps import Observer
from lawscope.data.source import Source


class Keep(Observer):
    """Keeps the rows of its taps, of one pass or of a loop that it is attached to."""

    def __init__(self, *taps):
        self._taps, self.rows, self.done = taps, {tap: [] for tap in taps}, False
        self.batches, self.ended, self.steps = [], 0, 0

    def taps(self):
        return () if self.done else self._taps

    def begin_batch(self, batch):
        self.batches.append(batch)

    def see(self, tap, rows):
        self.rows[tap].append(rows.clone())

    def end_batch(self):
        self.ended += 1

    def end_pass(self):
        self.done = True

    def step(self, optimizer):
        self.steps += 1

    def all(self, tap=None):
        """Everything one tap gave."""
        return torch.cat(self.rows[self._taps[0] if tap is None else tap])


def read(model, data, *taps, loss=None, **settings):
    """What the taps give in one pass over the data."""
    session, keep = Session(model, Source(data), **settings), Keep(*taps)
    session.run([keep], loss)
    return keep
