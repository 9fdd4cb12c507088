"""The settings of one training."""

from __future__ import annotations

from dataclasses import dataclass

from lawscope.training.optimizers import find_optimizer


@dataclass(frozen=True)
class Recipe:
    """Settings of one training (He & Su 2023, appendix)."""

    optimizer: str = "adam"  # as registered in ``training.optimizers``
    lr: float = 3e-4  # the first; see ``drops``, for language models ``train_language``
    epochs: int = 600  # how often all samples are seen; for language models the number of steps
    batch_size: int = 128  # samples per step; the last, smaller batch of an epoch is used too
    weight_decay: float = 5e-4  # added to the gradient; with AdamW taken off the weights
    seed: int = 0  # of the order of the samples

    def __post_init__(self) -> None:
        find_optimizer(self.optimizer)

    def drops(self) -> list[int]:
        """Return the epochs after which the rate is divided by ten: one third and two thirds."""
        return [epoch for epoch in (self.epochs // 3, 2 * self.epochs // 3) if epoch > 0]
