"""Networks in lock-step on single images, against a loop that trains one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.row import Row, at_least, interleaved
from lawscope.training.lockstep import train_lockstep
from lawscope.training.recipe import Recipe
from lawscope.zoo.images.arrays import as_inputs
from lawscope.zoo.images.shapes import draw_shapes
from lawscope.zoo.networks.catalogue import build

NETWORKS, STEPS, REPEATS, BAR = 20, 100, 5, 2.5


def rows() -> Iterator[Row]:
    """One core; both draw their samples and take the same number of steps, nothing is recorded."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pixels, labels = draw_shapes(200)
    x, y = as_inputs(pixels, flatten=False), torch.from_numpy(labels)
    recipe = Recipe("sgd", 0.005, STEPS, 1, 0.0)
    models = [build("lenet") for _ in range(NETWORKS)]

    def lockstep() -> None:
        same = [x] * NETWORKS, [y] * NETWORKS, [recipe] * NETWORKS
        train_lockstep(models, *same, (x[:3], y[:3]), STEPS + 1)

    def one_by_one() -> None:
        for model in models:
            optimizer = torch.optim.SGD(model.parameters(), lr=recipe.lr)
            for row in torch.randint(len(x), (STEPS, 1)):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[row]), y[row]).backward()
                optimizer.step()

    ours, theirs = interleaved(lockstep, one_by_one, REPEATS)
    torch.set_num_threads(threads)
    yield at_least(
        f"{NETWORKS} convolutional networks in lock-step, {STEPS} steps on single images, one core",
        ours,
        "plain loop, one network after the other",
        theirs,
        BAR,
    )
