"""What networks are trained to do, described by value: classes, or tokens.

A kind of task is a frozen dataclass, part of the key of a training; it trains and evaluates.
Nothing here imports torch before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lawscope.studies.datasets import TextData, samples_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lawscope.studies.plan import Training
    from lawscope.training.loop import Trained
    from lawscope.training.recorders import Note

AfterEpoch = Callable[[int], None]
FLOPS = 25e9
EVALUATED_WINDOWS = 256
# Measured on small models, beside what their weights cost: networks that go through a window token
# by token in Python wait for Python.
SLOW_STYLES: Mapping[str, float] = {"mamba": 40.0, "rwkv": 15.0}


class Task:
    """What a network is trained to do."""

    kind: ClassVar[str] = ""

    def stacks(self, training: Training) -> bool:
        """Return whether such networks can be trained as one batched program."""
        return False

    def train_stack(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch
    ) -> None:
        """Train several networks in place as one batched program."""
        raise NotImplementedError

    def train(
        self, training: Training, model: nn.Module, after_epoch: AfterEpoch, note: Note | None
    ) -> None:
        """Train one network in place, deterministically."""
        raise NotImplementedError

    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
        """Return loss and accuracy on some samples, in eval mode."""
        raise NotImplementedError

    def seconds(self, training: Training, weights: int) -> float:
        """Return roughly what the training takes on one core; ``weights`` are those of matrices."""
        raise NotImplementedError


@dataclass(frozen=True)
class Classification(Task):
    """Cross-entropy on classes, and the share of classes named rightly."""

    kind: ClassVar[str] = "classification"

    def stacks(self, training: Training) -> bool:
        """Feed-forward networks stack; a recorder looks at one network."""
        return training.network.kind == "feedforward" and not training.recorders

    def train_stack(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch
    ) -> None:
        from lawscope.training.stack import train_stack

        data = [samples_of(training.data) for training in trainings]
        xs, ys = [each.x for each in data], [each.y for each in data]
        recipes = [training.recipe for training in trainings]
        epochs = sorted({epoch for training in trainings for epoch in training.checkpoints})
        train_stack(models, xs, ys, recipes, after_epoch, up_to_date=epochs)

    def train(
        self, training: Training, model: nn.Module, after_epoch: AfterEpoch, note: Note | None
    ) -> None:
        from lawscope.training.loop import train

        data = samples_of(training.data)
        train(model, data.x, data.y, training.recipe, after_epoch, note)

    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
        from lawscope.training.loop import evaluate

        return evaluate(model, x, y)

    def seconds(self, training: Training, weights: int) -> float:
        """Multiply-adds of a pass from the weights, three times for a step."""
        positions = 1.0 if training.network.kind == "feedforward" else 64.0
        return 6 * positions * weights * training.data.count * training.recipe.epochs / FLOPS


@dataclass(frozen=True)
class LanguageModelling(Task):
    """Cross-entropy on the next token, or on hidden ones; an epoch of the recipe is one step."""

    kind: ClassVar[str] = "language"
    # The token that hides others from a masked language model; None: next tokens.
    mask: int | None = None

    def train(
        self, training: Training, model: nn.Module, after_epoch: AfterEpoch, note: Note | None
    ) -> None:
        from lawscope.training.language import Objective, train_language

        windows = samples_of(training.data).x
        train_language(model, windows, training.recipe, Objective(self.mask), after_epoch, note)

    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
        """Return cross-entropy and accuracy per token, on the first windows: that is enough."""
        from lawscope.training.language import Objective, evaluate_language

        return evaluate_language(model, x[:EVALUATED_WINDOWS], Objective(self.mask))

    def seconds(self, training: Training, weights: int) -> float:
        """Multiply-adds of the windows of all steps."""
        assert isinstance(training.data, TextData)
        slow = SLOW_STYLES.get(training.network.settings.get("style", ""), 1.0)
        tokens = training.recipe.batch_size * training.data.window * training.recipe.epochs
        return 6 * weights * tokens * slow / FLOPS
