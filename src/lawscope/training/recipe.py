"""The settings of one training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
# Those for classifiers; AdamW is for language models.
OPTIMIZERS: dict[str, Optimizer] = {"sgd": "sgd", "momentum": "momentum", "adam": "adam"}
MOMENTUM = 0.9


@dataclass(frozen=True)
class Recipe:
    """Settings of one training (He & Su 2023, appendix).

    Attributes:
        optimizer: plain SGD, SGD with momentum 0.9, Adam, or AdamW for language models.
        lr: first learning rate, divided by 10 at one third and at two thirds of the epochs; for
            language models see :func:`lawscope.training.language.train_language`.
        epochs: how often all samples are seen; for language models the number of steps.
        batch_size: samples per step; the last, smaller batch of an epoch is used too.
        weight_decay: as torch means it, added to the gradient; with AdamW taken off the weights.
        seed: of the order of the samples.
    """

    optimizer: Optimizer = "adam"
    lr: float = 3e-4
    epochs: int = 600
    batch_size: int = 128
    weight_decay: float = 5e-4
    seed: int = 0

    def drops(self) -> list[int]:
        """Return the epochs after which the learning rate is divided by ten."""
        return [epoch for epoch in (self.epochs // 3, 2 * self.epochs // 3) if epoch > 0]
