"""Has the network learned what it is measured on? Advice on one that has not would mislead."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from lawscope.arrays import IntArray
from lawscope.capture.outputs import find_logits
from lawscope.formatting import percent
from lawscope.statistics.distributed import gathered

# Of the way from chance to perfection that is well above chance.
WELL_ABOVE = 0.1


class AnswerCount:
    """How many samples a network classifies rightly, where its output is a score per class."""

    def __init__(self) -> None:
        self.right, self.samples, self.widths = 0, 0, set[int]()
        self.done = False

    def update(self, output: Any, labels: Tensor) -> None:
        """Add the answers to a batch; the class with the largest score is the answer."""
        scores = find_logits(output)
        self.samples += len(labels)
        if scores is None or scores.dim() != 2 or len(scores) != len(labels):
            self.widths.add(0)
            return
        self.widths.add(scores.shape[1])
        self.right += int((scores.argmax(dim=1).cpu() == labels.cpu()).sum())

    def finish(self, distributed: bool) -> None:
        """End with the first pass; further ones bring the same answers again."""
        if distributed and not self.done:
            self.right, self.samples = sum(gathered(self.right)), sum(gathered(self.samples))
            self.widths = set().union(*gathered(self.widths))
        self.done = True

    def accuracy(self, classes: IntArray, counts: IntArray) -> float:
        """Return the accuracy, NaN where the output does not score these classes.

        An output that is wider than the data has classes may be features: its accuracy counts
        where it is well above chance.
        """
        width = min(self.widths, default=0)
        if len(self.widths) != 1 or width < 2 or classes.min() < 0 or classes.max() >= width:
            return math.nan
        share = self.right / self.samples
        unsure = width > len(classes) and not is_well_above_chance(share, counts)
        return math.nan if unsure else share


def find_chance(counts: IntArray) -> float:
    """Return the accuracy of always naming the largest class."""
    return float(counts.max() / counts.sum())


def is_well_above_chance(accuracy: float, counts: IntArray) -> bool:
    """Return whether the accuracy is surely more than a tenth of the way from chance to 1."""
    chance = find_chance(counts)
    return accuracy_interval(accuracy, counts)[0] > chance + WELL_ABOVE * (1 - chance)


def accuracy_interval(accuracy: float, counts: IntArray) -> tuple[float, float]:
    """Return Wilson's 95 % interval of an accuracy on so many samples."""
    from scipy.stats import binomtest

    samples = int(counts.sum())
    ends = binomtest(round(accuracy * samples), samples).proportion_ci(method="wilson")
    return float(ends.low), float(ends.high)


def has_learned(accuracy: float, counts: IntArray, untrained: float = math.nan) -> bool | None:
    """Return whether the accuracy is well above chance and above that of the untrained network.

    None where the accuracy is not known.
    """
    if math.isnan(accuracy):
        return None
    if not is_well_above_chance(accuracy, counts):
        return False
    if math.isnan(untrained):
        return True
    return accuracy_interval(accuracy, counts)[0] > accuracy_interval(untrained, counts)[1]


def say_not_learned(accuracy: float, counts: IntArray) -> str:
    """Return the sentence that comes first where a network has not learned its data."""
    beside = f"always answering the largest class would give {percent(find_chance(counts))}"
    if is_well_above_chance(accuracy, counts):
        beside = "it classified about as many before it was trained"
    return (
        f"The network classifies {percent(accuracy)} of these samples correctly; {beside}. Check "
        "that the weights were loaded and that the data is scaled as in training."
    )
