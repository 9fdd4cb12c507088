"""The learning-rate sweep of figure 1 through the engine, against a plain loop."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

import lawscope as ls
from benchmarks.row import Row, at_least, seconds
from lawscope.studies.datasets import samples_of
from lawscope.studies.plan import Training
from lawscope.studies.separation.optimizers import STUDY
from lawscope.zoo.networks.catalogue import build

SLICE_EPOCHS, BAR = 10, 4.0


def plain_loop(training: Training, epochs: int) -> None:
    """One network the way one writes it: torch's default optimiser, one batch after the other."""
    recipe, data = training.recipe, samples_of(training.data)
    model = build(training.network.kind, **training.network.settings)
    rules = {
        "sgd": lambda p: torch.optim.SGD(p, lr=recipe.lr, weight_decay=5e-4),
        "momentum": lambda p: torch.optim.SGD(p, lr=recipe.lr, momentum=0.9, weight_decay=5e-4),
        "adam": lambda p: torch.optim.Adam(p, lr=recipe.lr, weight_decay=5e-4),
    }
    optimizer = rules[recipe.optimizer](model.parameters())
    for _ in range(epochs):
        for rows in torch.randperm(len(data.x)).split(recipe.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data.x[rows]), data.y[rows]).backward()
            optimizer.step()


def loop_seconds(plan: list[Training]) -> float:
    """A slice of each kind of network, faster of one and all threads, scaled to the whole plan."""
    kinds = Counter((t.network, t.recipe.optimizer) for t in plan)
    first = {(t.network, t.recipe.optimizer): t for t in plan}
    total = 0.0
    for kind, networks in kinds.items():
        best = float("inf")
        for threads in (1, os.cpu_count() or 1):
            torch.set_num_threads(threads)
            plain_loop(first[kind], 1)
            best = min(best, seconds(lambda kind=kind: plain_loop(first[kind], SLICE_EPOCHS)))
        total += networks * best * first[kind].recipe.epochs / SLICE_EPOCHS
    return total


def rows() -> Iterator[Row]:
    """The whole sweep, processes started and results stored and measured, against the loop."""
    plan = list(STUDY.plan(STUDY.settings["cpu"]))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def sweep() -> None:
            ls.studies.run(
                "separation/optimizers", preset="cpu", store=place / "store", out=place / "out"
            )

        ours = seconds(sweep)
    theirs = loop_seconds(plan)
    yield at_least(
        f"separation/optimizers, {len(plan)} trainings of 600 epochs, measured and stored",
        ours,
        f"plain loop, one at a time (slice of {SLICE_EPOCHS} epochs)",
        theirs,
        BAR,
    )
