"""From descriptions to trained networks."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from lawscope.errors import LawscopeError
from lawscope.studies.finished import Run
from lawscope.studies.plan import Training
from lawscope.studies.samples import samples_of
from lawscope.training.fixed_classifier import fix_classifier
from lawscope.training.language import Objective, evaluate_language, train_language
from lawscope.training.loop import Trained, evaluate, train
from lawscope.training.stack import train_stack
from lawscope.zoo.networks import build
from lawscope.zoo.text import WINDOW

Weights = dict[str, Tensor]
LANGUAGE = "language"
EVALUATED_WINDOWS = 256
# Measured on small models, beside what their weights cost: networks that go through a window token
# by token in Python wait for Python.
SLOW_STYLES = {"mamba": 40.0, "rwkv": 15.0}


def execute(
    trainings: Sequence[Training],
    starts: Mapping[str, Run],
    tick: Callable[[int], None] = lambda epochs: None,
) -> list[Run]:
    """Train what is described, deterministically.

    Args:
        trainings: of equal ``shape``; feed-forward ones are trained as one stack.
        starts: finished trainings that these begin from, by key.
        tick: told of network-epochs done.

    Returns:
        One run per training, in order. A training that diverged has a loss of NaN.
    """
    stacked = trainings[0].network.kind == "feedforward"
    if len(trainings) > 1 and not stacked:
        # One after the other from drawing to end: dropout must not feel what was trained before.
        return [execute([training], starts, tick)[0] for training in trainings]
    begun = time.perf_counter()
    models = [_prepared(training, starts) for training in trainings]
    kept: list[dict[int, Weights]] = [{} for _ in models]

    def keep(epoch: int) -> None:
        for training, model, weights in zip(trainings, models, kept, strict=True):
            if epoch in training.checkpoints or epoch == training.recipe.epochs:
                weights[epoch] = copy.deepcopy(model.state_dict())

    keep(0)
    if stacked:
        _train_together(trainings, models, keep, tick)
    else:
        _train_alone(trainings[0], models[0], keep, tick)
    each = (time.perf_counter() - begun) / len(trainings)
    return [
        _finished(training, model, weights, each)
        for training, model, weights in zip(trainings, models, kept, strict=True)
    ]


def cost(training: Training) -> float:
    """Seconds on one core, roughly: to share work out and to tell how long it takes.

    Multiply-adds of one forward pass from the weights, three times for a step, at 25 GFlop/s.
    """
    model = build(training.network.kind, **training.network.settings)
    weights = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    if training.network.kind == LANGUAGE:
        style = training.network.settings.get("style", "")
        tokens = training.recipe.batch_size * (training.data.size or WINDOW)
        return 6 * weights * tokens * training.recipe.epochs * SLOW_STYLES.get(style, 1.0) / 25e9
    positions = 1.0 if training.network.kind == "feedforward" else 64.0
    samples = sum(training.data.sizes(classes=10))
    return 6 * positions * weights * samples * training.recipe.epochs / 25e9


def _prepared(training: Training, starts: Mapping[str, Run]) -> nn.Module:
    """The network before its first step: drawn from its seed, copied from its start."""
    torch.manual_seed(training.seed)
    model = build(training.network.kind, **training.network.settings)
    if training.start is not None:
        _copy(starts[training.start.key].network(), model, training.copied)
    if training.trained is not None:
        first, last = training.trained
        for index, child in enumerate(model.children()):
            child.requires_grad_(first <= index < last)
    if training.classifier == "simplex":
        fix_classifier(model)
    return model.train()


def _copy(source: nn.Module, target: nn.Module, layers: int | None) -> None:
    pairs = list(zip(source.children(), target.children(), strict=False))[:layers]
    for there, here in pairs:
        try:
            here.load_state_dict(there.state_dict())
        except RuntimeError as error:
            raise LawscopeError(
                "A network can only begin from one whose copied layers have the same shapes."
            ) from error


def _train_together(
    trainings: Sequence[Training],
    models: Sequence[nn.Module],
    keep: Callable[[int], None],
    tick: Callable[[int], None],
) -> None:
    def after_epoch(epoch: int) -> None:
        keep(epoch)
        tick(len(models))

    data = [samples_of(training.data) for training in trainings]
    train_stack(
        models,
        [each.x for each in data],
        [each.y for each in data],
        [training.recipe for training in trainings],
        after_epoch,
        up_to_date=sorted(set().union(*(training.checkpoints for training in trainings))),
    )


def _train_alone(
    training: Training,
    model: nn.Module,
    keep: Callable[[int], None],
    tick: Callable[[int], None],
) -> None:
    def after_epoch(epoch: int) -> None:
        keep(epoch)
        tick(1)

    data = samples_of(training.data)
    if training.network.kind == LANGUAGE:
        train_language(model, data.x, training.recipe, objective_of(training), after_epoch)
    else:
        train(model, data.x, data.y, training.recipe, after_epoch)


@torch.no_grad()
def _finished(
    training: Training, model: nn.Module, weights: dict[int, Weights], seconds: float
) -> Run:
    data = samples_of(training.data)
    outcome = _evaluated(training, model, data.x, data.y)
    test = math.nan
    if len(data.x_test):
        test = _evaluated(training, model, data.x_test, data.y_test).accuracy
    return Run(training, weights, outcome.loss, outcome.accuracy, test, seconds)


def _evaluated(training: Training, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
    """Loss and accuracy; of a language model on the first windows, which is enough."""
    if training.network.kind == LANGUAGE:
        return evaluate_language(model, x[:EVALUATED_WINDOWS], objective_of(training))
    return evaluate(model, x, y)


def objective_of(training: Training) -> Objective:
    """Next tokens; of a model that is not causal, tokens behind the mask, which is the last one."""
    causal = training.network.settings.get("causal", True)
    return Objective(None if causal else training.data.vocabulary)
