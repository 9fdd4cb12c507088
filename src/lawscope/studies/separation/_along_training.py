"""The law at the checkpoints of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lawscope.studies.choice import choice, measured, training_of
from lawscope.studies.plan import Training
from lawscope.studies.study import Numbers

if TYPE_CHECKING:
    from lawscope.studies.lab import Lab

LAW = ("D", "D_interval", "r", "rho", "interval", "verdict")


def along(lab: Lab, trainings: list[Training]) -> list[Numbers]:
    """Choose one network per seed by its end, and measure it at every checkpoint.

    Returns:
        The chosen networks, each with ``history``: the law after each epoch kept, first to last.
    """
    return [
        {**row, "history": history(lab, training_of(row, trainings))}
        for row in choice(lab, trainings)["chosen"]
    ]


def history(lab: Lab, training: Training) -> list[Numbers]:
    """The law after each epoch kept, except where D has no logarithm or training diverged."""
    epochs = sorted({*training.checkpoints, training.recipe.epochs})
    rows = [(epoch, measured(lab, training, epoch=epoch)) for epoch in epochs]
    return [
        {"epoch": epoch, **{name: row[name] for name in LAW}}
        for epoch, row in rows
        if row["D"] is not None and all(row["D"])
    ]
