"""The demo: train the papers' network on embedded data, scan it untrained and trained."""

from __future__ import annotations

import copy
import dataclasses

import torch

from lawscope.capture.restore import MODES
from lawscope.cli.scan import set_threads
from lawscope.errors import LawscopeError
from lawscope.laws.report import Report
from lawscope.laws.scan import scan
from lawscope.progress import progress
from lawscope.training.loop import train
from lawscope.training.recipe import OPTIMIZERS, Recipe
from lawscope.zoo.images.arrays import as_inputs
from lawscope.zoo.images.catalogue import load
from lawscope.zoo.images.sampling import as_drawn, balanced
from lawscope.zoo.networks.feedforward import feedforward

# The batches in which the paper's authors measure, in the order in which they draw samples; of
# consequence in train mode only.
MEASURED_AT_ONCE = 100


def run_demo(
    *,
    depth: int,
    lr: float,
    optimizer: str,
    epochs: int,
    per_class: int,
    mode: str,
    seed: int,
    threads: int | None = None,
) -> Report:
    """Train, measure, report; settings as in ``lawscope demo --help``."""
    if optimizer not in OPTIMIZERS:
        raise LawscopeError(
            f"--optimizer {optimizer} is not known; choose {', '.join(OPTIMIZERS)}."
        )
    if mode not in MODES:
        raise LawscopeError(f"--mode {mode} is not known; choose {' or '.join(MODES)}.")
    # Layers of a hundred units are too small to share: a second thread only waits.
    set_threads(threads or 1)
    data = load("fashion-mnist-10x10")
    images, labels = balanced(data.x_train, data.y_train, per_class, seed)
    x, y = as_inputs(images), torch.from_numpy(labels)
    torch.manual_seed(seed)
    model = feedforward(depth)
    untrained = copy.deepcopy(model)
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], lr=lr, epochs=epochs, seed=seed)
    with progress(f"training {depth} layers", epochs, unit="epoch") as advance:
        outcome = train(model, x, y, recipe, after_epoch=lambda epoch: advance(1))
    if outcome.loss != outcome.loss:
        raise LawscopeError(f"The training diverged at --lr {lr:g}; try a smaller one.")
    order = torch.from_numpy(as_drawn(labels, seed)).split(MEASURED_AT_ONCE)
    report = scan(
        model,
        [(x[rows], y[rows]) for rows in order],
        control=untrained,
        name=f"{depth}-layer network on Fashion-MNIST 10×10",
        class_names=data.class_names,
        mode=mode,
    )
    trained = f"{optimizer}, lr {lr:g}, {epochs} epochs, {len(x)} samples, seed {seed}"
    outcomes = {"train_accuracy": outcome.accuracy, "train_loss": outcome.loss}
    settings = {**report.settings, "training": trained, **outcomes}
    return dataclasses.replace(report, settings=settings)
