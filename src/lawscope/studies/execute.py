"""From descriptions to trained networks."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from lawscope.errors import LawscopeError
from lawscope.studies.datasets import samples_of
from lawscope.studies.entry import Run, build_network
from lawscope.studies.plan import Training
from lawscope.studies.registry import PREPARATIONS, import_families
from lawscope.training.optimizers import OPTIMIZERS
from lawscope.training.recorders import Record, Records

# Weights by the epoch after which they are.
Kept = dict[int, dict[str, Tensor]]


def execute(
    trainings: Sequence[Training],
    starts: Mapping[str, Run],
    tick: Callable[[int], None] = lambda epochs: None,
) -> list[Run]:
    """Train networks of equal shape, deterministically; ``tick`` gets the network-epochs done.

    One that diverged has a loss of NaN.
    """
    task = trainings[0].task
    if trainings[0].recipe.optimizer not in OPTIMIZERS:
        import_families()
    if len(trainings) > 1 and not task.stacks(trainings[0]):
        # One after the other from drawing to end: dropout must not feel what was trained before.
        return [execute([training], starts, tick)[0] for training in trainings]
    begun = time.perf_counter()
    models = [_prepare(training, starts) for training in trainings]
    kept: list[Kept] = [{} for _ in models]
    data = samples_of(trainings[0].data)
    records = Records(trainings[0].recorders, data.x, data.y)

    def keep(epoch: int) -> None:
        for training, model, weights in zip(trainings, models, kept, strict=True):
            if epoch in training.kept:
                weights[epoch] = copy.deepcopy(model.state_dict())

    def after_epoch(epoch: int) -> None:
        keep(epoch)
        tick(len(models))

    keep(0)
    note = records.note if trainings[0].recorders else None
    own = task.train(trainings, models, after_epoch, note) or [{} for _ in models]
    seconds = (time.perf_counter() - begun) / len(trainings)
    runs = zip(
        trainings, models, kept, [{**records.tensors(), **each} for each in own], strict=True
    )
    return [_evaluate(*each, seconds) for each in runs]


def estimate_seconds(training: Training) -> float:
    """Return roughly what a training takes on one core: to share work out."""
    model = build_network(training.network)
    weights = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    return training.task.seconds(training, weights)


def _prepare(training: Training, starts: Mapping[str, Run]) -> nn.Module:
    """Make the network before its first step: drawn from its seed, copied from its start."""
    torch.manual_seed(training.seed)
    model = build_network(training.network)
    if training.start is not None:
        source = starts[training.start.key].network().children()
        for there, here in list(zip(source, model.children(), strict=False))[: training.copied]:
            try:
                here.load_state_dict(there.state_dict())
            except RuntimeError as error:
                raise LawscopeError(
                    "A network can only begin from one whose copied layers have the same shapes."
                ) from error
    if training.trained is not None:
        first, last = training.trained
        for index, child in enumerate(model.children()):
            child.requires_grad_(first <= index < last)
    if training.prepare:
        PREPARATIONS.find(training.prepare)(model)
    return model.train()


@torch.no_grad()
def _evaluate(
    training: Training,
    model: nn.Module,
    kept: Kept,
    records: Mapping[str, Record],
    seconds: float,
) -> Run:
    data, evaluate = samples_of(training.data), training.task.evaluate
    outcome = evaluate(model, data.x, data.y)
    test = evaluate(model, data.x_test, data.y_test).accuracy if len(data.x_test) else math.nan
    return Run(training, kept, outcome.loss, outcome.accuracy, test, seconds, records)
