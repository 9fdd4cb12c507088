"""The demo: train the papers' network on embedded data, scan it untrained and trained."""

from __future__ import annotations

import copy

import torch

from lawscope.capture.untouched import MODES
from lawscope.errors import LawscopeError
from lawscope.laws.report import Report
from lawscope.laws.scan import scan
from lawscope.progress import progress
from lawscope.training.loop import train
from lawscope.training.recipe import OPTIMIZERS, Recipe
from lawscope.zoo.datasets import load
from lawscope.zoo.inputs import as_inputs
from lawscope.zoo.networks import feedforward
from lawscope.zoo.sampling import as_drawn, balanced

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
    """Train, measure, report; settings as in ``lawscope demo --help``.

    Raises:
        LawscopeError: a setting out of range, or a training that diverged.
    """
    if optimizer not in OPTIMIZERS:
        raise LawscopeError(
            f"--optimizer {optimizer} is not known; choose {', '.join(OPTIMIZERS)}."
        )
    if mode not in MODES:
        raise LawscopeError(f"--mode {mode} is not known; choose {' or '.join(MODES)}.")
    # Layers of a hundred units are too small to share: a second thread only waits.
    torch.set_num_threads(threads or 1)
    data = load("fashion-mnist-10x10")
    images, labels = balanced(data.x_train, data.y_train, per_class, seed)
    x, y = as_inputs(images), torch.from_numpy(labels)
    torch.manual_seed(seed)
    model = feedforward(depth)
    untrained = copy.deepcopy(model)
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], lr=lr, epochs=epochs, seed=seed)
    with progress(f"training {depth} layers", epochs) as advance:
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
    report.settings.update(
        training=f"{optimizer}, lr {lr:g}, {epochs} epochs, {len(x)} samples, seed {seed}",
        train_accuracy=outcome.accuracy,
        train_loss=outcome.loss,
    )
    return report
