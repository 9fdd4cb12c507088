"""The commands to begin with: ``lawscope demo``, and ``lawscope init`` for a file to scan."""

from __future__ import annotations

import copy
import dataclasses
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import lawscope as ls
from lawscope.cli.shared import AsJson, Out, Threads, WhichMode, deliver
from lawscope.errors import LawscopeError
from lawscope.files import exists, write_whole
from lawscope.lazy import torch

# The batches in which the paper's authors measure, in the order in which they draw samples; of
# consequence in train mode only.
MEASURED_AT_ONCE = 100
# Those of the paper.
OPTIMIZERS = ("sgd", "momentum", "adam")
EXAMPLE = '''"""A network and its data, for: lawscope scan net.py

lawscope reads these names from this file:
  model   an nn.Module, or a function without arguments that returns one
  data    batches (x, y): a DataLoader, a Dataset, a list, or a function that returns one;
          dicts with "labels" (Hugging Face) work too, and so does data without labels
  loss    a function of output and labels, for laws that need gradients; may be left out
"""

import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(20, 64), nn.ReLU(),
    nn.Linear(64, 64), nn.ReLU(),
    nn.Linear(64, 64), nn.ReLU(),
    nn.Linear(64, 3),
)
# Trained weights go here, or on the command line: lawscope scan net.py --checkpoint weights.pt
# model.load_state_dict(torch.load("weights.pt", weights_only=True))


loss = nn.functional.cross_entropy


def data():
    """600 samples of three classes, in batches; put your own DataLoader here."""
    torch.manual_seed(0)
    y = torch.arange(600) % 3
    x = torch.randn(600, 20) + 2 * torch.eye(3, 20)[y]
    return list(zip(x.split(100), y.split(100)))
'''


def demo(
    depth: Annotated[int, typer.Option(help="Layers, classifier included.", min=3)] = 8,
    lr: Annotated[float, typer.Option(help="First learning rate.", min=0.0)] = 3e-3,
    optimizer: Annotated[str, typer.Option(help="adam, momentum or sgd.")] = "adam",
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 600,
    per_class: Annotated[
        int, typer.Option(help="Training samples per class, at most 500.", min=2, max=500)
    ] = 100,
    mode: WhichMode = "eval",
    seed: Annotated[
        int, typer.Option(help="Of samples, weights and batches.", min=0, max=2**32 - 1)
    ] = 0,
    threads: Threads = None,
    json_: AsJson = False,
    out: Out = None,
) -> None:
    """Train the papers' network on embedded Fashion-MNIST and measure it before and after.

    The 20-layer network of He & Su (2023), figure 1, measured as they did:
    lawscope demo --depth 20 --lr 3e-4 --mode train
    """
    from lawscope.capture.restore import MODES
    from lawscope.cli.scan import set_threads
    from lawscope.progress import progress
    from lawscope.training.loop import train
    from lawscope.training.recipe import Recipe
    from lawscope.zoo.images.arrays import as_inputs
    from lawscope.zoo.images.catalogue import load
    from lawscope.zoo.images.sampling import as_drawn, balanced
    from lawscope.zoo.networks.feedforward import feedforward

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
    recipe = Recipe(optimizer=optimizer, lr=lr, epochs=epochs, seed=seed)
    with progress(f"training {depth} layers", epochs, unit="epoch") as advance:
        outcome = train(model, x, y, recipe, after_epoch=lambda epoch: advance(1))
    if outcome.loss != outcome.loss:
        raise LawscopeError(f"The training diverged at --lr {lr:g}; try a smaller one.")
    order = torch.from_numpy(as_drawn(labels, seed)).split(MEASURED_AT_ONCE)
    report = ls.scan(
        model,
        [(x[rows], y[rows]) for rows in order],
        loss=torch.nn.functional.cross_entropy,
        control=untrained,
        name=f"{depth}-layer network on Fashion-MNIST 10×10",
        class_names=data.class_names,
        mode=mode,
        # All that it was trained on: of images it never saw these samples say nothing.
        whole=True,
    )
    trained = f"{optimizer}, lr {lr:g}, {epochs} epochs, {len(x)} samples, seed {seed}"
    outcomes = {"train_accuracy": outcome.accuracy, "train_loss": outcome.loss}
    settings = {**report.settings, "training": trained, **outcomes}
    deliver(dataclasses.replace(report, settings=settings), out, json_=json_)


def demo_imbalanced(
    common: Annotated[
        int, typer.Option(help="Training images of a common class.", min=2, max=500)
    ] = 500,
    rare: Annotated[int, typer.Option(help="Training images of a rare class.", min=1)] = 5,
    rare_classes: Annotated[
        int, typer.Option(help="How many of the ten classes are rare.", min=2, max=9)
    ] = 5,
    depth: Annotated[int, typer.Option(help="Layers, classifier included.", min=2)] = 4,
    lr: Annotated[float, typer.Option(help="First learning rate, of momentum.", min=0.0)] = 0.1,
    weight_decay: Annotated[
        float, typer.Option(help="Strong decay makes rare classes merge.", min=0.0)
    ] = 2e-2,
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 100,
    seeds: Annotated[int, typer.Option(help="Networks per training.", min=1)] = 3,
    threads: Threads = None,
    json_: AsJson = False,
    out: Out = None,
) -> None:
    """Train on rare classes, find which merged, oversample at the rate found, train again.

    A story on embedded Fashion-MNIST, about a minute: held-out accuracy of the rare classes before
    and after, for every seed, and beside it what equal shares give.
    """
    from rich.console import Console

    from lawscope.cli.scan import set_threads
    from lawscope.remedies.rescue import rescue_rare_classes

    # Layers of a hundred units are too small to share: a second thread only waits.
    set_threads(threads or 1)
    story = rescue_rare_classes(
        common=common,
        few=rare,
        rare_classes=rare_classes,
        depth=depth,
        lr=lr,
        weight_decay=weight_decay,
        epochs=epochs,
        seeds=seeds,
        tell=partial(Console(stderr=json_).print, highlight=False, markup=False),
    )
    if not json_:
        typer.echo()
    deliver(story, out, json_=json_)


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("net.py"),
) -> None:
    """Write an example of a file to scan: a network and its data, with comments."""
    if exists(path):
        raise LawscopeError(f"{path} is there already; give another name.")
    write_whole(EXAMPLE, path)
    typer.echo(f"{path} is written; change it to your network, then: lawscope scan {path}")
