"""A finished training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from lawscope.studies.plan import Training
from lawscope.studies.samples import Samples, samples_of
from lawscope.zoo.networks import build


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training as the store keeps it.

    Attributes:
        training: its settings.
        weights: state dictionary after each epoch kept; the last epoch is always there.
        loss: cross-entropy on the training data at the end, eval mode.
        accuracy: share of training samples classified rightly.
        test_accuracy: the same on test data; NaN without any.
        seconds: what it took, shared evenly over its stack.
    """

    training: Training
    weights: Mapping[int, Mapping[str, Tensor]]
    loss: float
    accuracy: float
    test_accuracy: float
    seconds: float

    def network(self, epoch: int | None = None) -> nn.Module:
        """The network after ``epoch`` epochs (default: the last), in eval mode."""
        last = self.training.recipe.epochs
        model = build(self.training.network.kind, **self.training.network.settings)
        model.load_state_dict(dict(self.weights[last if epoch is None else epoch]))
        return model.eval()

    @cached_property
    def samples(self) -> Samples:
        """Its training and test data as tensors."""
        return samples_of(self.training.data)
