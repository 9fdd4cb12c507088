"""Where a study measures: trained networks with their data, and the law on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from lawscope.capture.pooling import Pooling
from lawscope.capture.untouched import Mode
from lawscope.laws.collapse import collapse
from lawscope.laws.collapse_result import Collapse
from lawscope.laws.next_token import next_token
from lawscope.laws.next_token_result import NextToken
from lawscope.laws.separation import separation
from lawscope.laws.separation_result import Separation
from lawscope.studies.finished import Run
from lawscope.studies.plan import Training
from lawscope.zoo.sampling import as_drawn

BATCHES: dict[Mode, int] = {"eval": 500, "train": 100}
WINDOWS_AT_ONCE = 64


class Shelf(Protocol):
    """Where finished trainings are; reads one or raises."""

    def run(self, training: Training) -> Run:
        """The finished training."""
        ...


class Lab:
    """What ``measure`` of a study is given.

    Attributes:
        settings: of the preset, with ``seeds`` as asked for.
        tell: reports progress in words ("measuring 3 of 57").
        mode: in which networks are measured; ``settings["mode"]``, "eval" unless asked for.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        shelf: Shelf,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.tell = tell
        self.mode: Mode = settings.get("mode", "eval")
        self._shelf = shelf

    def run(self, training: Training) -> Run:
        """The finished training with its weights and accuracy."""
        return self._shelf.run(training)

    def separation(
        self,
        training: Training,
        *,
        epoch: int | None = None,
        split: str = "train",
        stations: str | Sequence[str] = "layers",
        pooling: Pooling = "mean",
        uncertainty: Literal["jackknife", "bootstrap"] | None = "jackknife",
    ) -> Separation:
        """The law of data separation on a trained network, on its own data."""
        run = self.run(training)
        data = run.samples
        pair = (data.x, data.y) if split == "train" else (data.x_test, data.y_test)
        return separation(
            run.network(epoch),
            self.batches(*pair),
            stations=stations,
            pooling=pooling,
            uncertainty=uncertainty,
            mode=self.mode,
        )

    def collapse(self, training: Training, *, epoch: int | None = None) -> Collapse:
        """Neural collapse of a trained network on its own training data, repeats included."""
        run = self.run(training)
        data = self.batches(run.samples.x, run.samples.y)
        return collapse(run.network(epoch), data, uncertainty=None, mode=self.mode, progress=False)

    def next_token(
        self,
        training: Training,
        *,
        epoch: int | None = None,
        tokens: int,
        untrained: bool = False,
        **how: Any,
    ) -> NextToken:
        """The law of next-token prediction on a trained language model, on held-out text.

        Args:
            training: of a language model.
            epoch: after so many steps; None: at the end.
            tokens: of text to measure, at most.
            untrained: measure the weights it began from beside it; checkpoint 0 must be kept.
            how: further settings of :func:`lawscope.next_token`.
        """
        run = self.run(training)
        windows = run.samples.x_test
        windows = windows[: max(1, tokens // windows.shape[1])]
        return next_token(
            run.network(epoch),
            list(windows.split(WINDOWS_AT_ONCE)),
            control=run.network(0) if untrained else None,
            progress=False,
            **how,
        )

    @torch.no_grad()
    def logits(self, training: Training) -> tuple[Tensor, Tensor]:
        """What a trained network says of its test data, (n, K) in eval mode, and the labels."""
        run = self.run(training)
        network, parts = run.network(), run.samples.x_test.split(BATCHES["eval"])
        return torch.cat([network(part) for part in parts]), run.samples.y_test

    def batches(self, x: Tensor, y: Tensor) -> list[Any]:
        """Samples in the batches to measure in: in train mode those of the authors' script."""
        if self.mode == "train":
            order = torch.from_numpy(as_drawn(y.numpy(), seed=0))
            x, y = x[order], y[order]
        size = BATCHES[self.mode]
        pairs = list(zip(torch.split(x, size), torch.split(y, size), strict=True))
        if x.is_floating_point():
            return pairs
        # Sentences: the mask keeps padding out of the mean over the tokens.
        return [{"input_ids": ids, "attention_mask": ids != 0, "labels": k} for ids, k in pairs]
