"""Where a study measures: trained networks with their data, and the law on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from lawscope.capture.restore import Mode
from lawscope.laws.collapse.law import collapse
from lawscope.laws.collapse.result import Collapse
from lawscope.laws.next_token.law import next_token
from lawscope.laws.next_token.result import NextToken
from lawscope.laws.separation.law import separation
from lawscope.laws.separation.result import Separation
from lawscope.studies.entry import Run
from lawscope.studies.plan import Training
from lawscope.studies.store import Store
from lawscope.studies.study import AUTHORS, NETWORK
from lawscope.zoo.images.sampling import as_drawn

BATCHES: dict[Mode, int] = {"eval": 500, "train": 100}
MODES: dict[str, Mode] = {AUTHORS: "train", NETWORK: "eval"}
# Seeds of the orders in which training samples come where BatchNorm sees them by batch.
ORDERS = (0, 1, 2)
WINDOWS_AT_ONCE = 64


@dataclass(eq=False)
class Lab:
    """What ``measure`` of a study is given; ``tell`` reports progress ("measuring 3 of 57")."""

    settings: Mapping[str, Any]
    runs: Store
    tell: Callable[[str], None] = lambda _: None
    protocol: str = NETWORK

    @property
    def mode(self) -> Mode:
        """Train mode as the authors measured, or eval mode."""
        return MODES[self.protocol]

    def run(self, training: Training) -> Run:
        return self.runs.run(training)

    def orders(self, training: Training, split: str = "train") -> tuple[int, ...]:
        """Return the orders in which samples are measured: one where the order changes nothing."""
        moved = self.mode == "train" and split == "train"
        return ORDERS if moved and has_batch_norm(self.run(training).network()) else ORDERS[:1]

    def separation(
        self, training: Training, *, epoch: int | None = None, order: int = 0,
        split: Literal["train", "test"] = "train", **settings: Any,
    ) -> Separation:  # fmt: skip
        """Measure the law of data separation on a trained network, on its own data.

        Test data keeps the order of its file; ``order`` is the seed of the order in which training
        samples come under the authors' protocol.
        """
        run = self.run(training)
        data, train = run.samples, split == "train"
        x, y = (data.x, data.y) if train else (data.x_test, data.y_test)
        batches = self.batches(x, y, order if train else None)
        # The data is all there is, as in the paper.
        settings = {"uncertainty": None, "mode": self.mode, **settings}
        return separation(self._network(run, epoch), batches, **settings)

    def collapse(self, training: Training, *, epoch: int | None = None) -> Collapse:
        """Neural collapse of a trained network on its own training data, repeats included."""
        run = self.run(training)
        data = self.batches(run.samples.x, run.samples.y)
        network = self._network(run, epoch)
        return collapse(network, data, uncertainty=None, mode=self.mode, progress=False)

    def next_token(
        self, training: Training, *, epoch: int | None = None, tokens: int, untrained: bool = False,
        **how: Any,
    ) -> NextToken:  # fmt: skip
        """Measure the law of next-token prediction on a trained language model, on held-out text.

        ``untrained`` measures the weights it began from beside it; checkpoint 0 must be kept.
        """
        run = self.run(training)
        windows = run.samples.x_test
        windows = windows[: max(1, tokens // windows.shape[1])]
        batches, control = windows.split(WINDOWS_AT_ONCE), run.network(0) if untrained else None
        return next_token(run.network(epoch), list(batches), control=control, progress=False, **how)

    @torch.no_grad()
    def logits(self, training: Training) -> tuple[Tensor, Tensor]:
        """Return the logits of a network on its test data, (n, K) in eval mode, and the labels."""
        run = self.run(training)
        network, parts = run.network(), run.samples.x_test.split(BATCHES["eval"])
        return torch.cat([network(part) for part in parts]), run.samples.y_test

    def batches(self, x: Tensor, y: Tensor, order: int | None = 0) -> list[Any]:
        """Return samples in batches, as the authors' script draws them in order, or large ones."""
        if self.mode == "train" and order is not None:
            rows = torch.from_numpy(as_drawn(y.numpy(), seed=order))
            x, y = x[rows], y[rows]
        size = BATCHES[self.mode]
        pairs = list(zip(torch.split(x, size), torch.split(y, size), strict=True))
        if x.is_floating_point():
            return pairs
        # Sentences: the mask keeps padding out of the mean over the tokens.
        return [{"input_ids": ids, "attention_mask": ids != 0, "labels": k} for ids, k in pairs]

    def _network(self, run: Run, epoch: int | None) -> nn.Module:
        """Return the network to measure, without dropout; train mode is for the BatchNorm."""
        network = run.network(epoch)
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            elif isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        return network


def has_batch_norm(network: nn.Module) -> bool:
    """Return whether train mode takes statistics of the batch anywhere."""
    return any(isinstance(module, BatchNorm) for module in network.modules())
