"""In encoders of sentences the law is not seen.

``lawscope study run separation/text-encoder``: figure 14 of 003. An encoder in the manner of BERT
is trained to tell good reviews from bad ones (SST-2, 500 sentences of each) and measured after
every block: the features of the first token, and the mean over the tokens. The embedding of the
first token is the same in every sentence, so it has no D and is left out, as in the paper.

``paper`` fine-tunes BERT-base (cased) with BERT's usual rates; its Hugging Face folder
``bert-base-cased`` must be in a data directory. ``cpu`` trains a small encoder of 6 blocks from
nothing instead, which is no language model. The environment variable LAWSCOPE_ENCODER names a
folder to fine-tune in its place, such as that of all-MiniLM-L6-v2, in both presets. One trial with
that folder (lr 5e-5, 4 epochs, 89 % of the training sentences right) gave r = −0.976 with the first
token and −0.963 with the mean.

A network that does not fit its sentences tells nothing about the law, straight line or not.

The paper: no law, neither with the first token nor with the mean.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import every, measured, of_fitting, sweep
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

VARIABLE = "LAWSCOPE_ENCODER"
NAMES = {"first": "first token", "mean": "mean of the tokens"}
# Three epochs at the full rate, as BERT is usually tuned; the recipe lowers it after each third.
FINE_TUNING: dict[str, Any] = {"rates": [2e-5, 3e-5, 5e-5], "epochs": 9, "batch_size": 32}
FROM_NOTHING: dict[str, Any] = {"rates": [3e-4, 1e-3], "epochs": 30, "batch_size": 64}

PAPER: dict[str, Any] = {
    "encoder": "bert-base-cased",
    "depth": 12,
    "per_class": 500,
    "length": 64,
    "training": FINE_TUNING,
    "seeds": 1,
}
CPU = {**PAPER, "encoder": "", "depth": 6, "length": 32, "training": FROM_NOTHING}
SMOKE = {
    **CPU,
    "encoder": None,
    "depth": 3,
    "per_class": 20,
    "training": {**FROM_NOTHING, "epochs": 1},
}


def encoder(settings: Mapping[str, Any]) -> str:
    """The folder to fine-tune, or nothing; ``smoke`` has None and never takes one."""
    if settings["encoder"] is None:
        return ""
    return os.environ.get(VARIABLE) or str(settings["encoder"])


def candidates(settings: Mapping[str, Any]) -> list[Training]:
    """One network for each learning rate and seed; with a folder it is fine-tuned, not drawn."""
    folder = encoder(settings)
    how = FINE_TUNING if folder else settings["training"]
    training = Training(
        Network.of("pretrained-encoder", folder=folder)
        if folder
        else Network.of("text-encoder", depth=settings["depth"]),
        Recipe(epochs=how["epochs"], batch_size=how["batch_size"], weight_decay=0.0),
        Data(
            f"sst2:{folder}" if folder else "sst2",
            size=settings["length"],
            per_class=settings["per_class"],
        ),
    )
    return sweep(training, how["rates"], settings["seeds"])


def measure(lab: Lab) -> Numbers:
    """Every network with both ways to make features of a sentence; nothing is chosen."""
    trainings = candidates(lab.settings)
    panels = []
    for pooling in NAMES:
        for training in trainings:
            row = (
                measured(lab, training, stations=block_outputs(lab, training), pooling="first")
                if pooling == "first"
                else measured(lab, training, stations="blocks")
            )
            panels.append({"pooling": pooling, "chosen": [row]})
    return {"encoder": Path(encoder(lab.settings)).name, "panels": panels}


def block_outputs(lab: Lab, training: Training) -> list[str]:
    """The blocks of a network without what enters the first of them."""
    from lawscope.capture.discover import stations

    run = lab.run(training)
    found = stations(run.network(), run.samples.x[:2])
    return [station.name for station in found.granularity("blocks") if station.place == "output"]


def rs(numbers: Numbers, pooling: str) -> list[Any]:
    """The r of every network with one way of pooling, None for one that does not fit."""
    panels = [panel for panel in numbers["panels"] if panel["pooling"] == pooling]
    return of_fitting(panels, "r")


def absent(pooling: str) -> Claim:
    """The claim for one way to make features of a sentence."""
    return Claim(
        f"with the {NAMES[pooling]} every network fits its training set and none has a straight "
        "line (every r > −0.9)",
        "the law is not seen in BERT",
        lambda numbers: rs(numbers, pooling),
        every(lambda r: r > -0.9),
    )


def figure(numbers: Numbers) -> Figure:
    """One row of panels per way of pooling, one column per network."""
    rows: dict[str, list[tuple[str, list[Numbers]]]] = {}
    for panel in numbers["panels"]:
        first = panel["chosen"][0]
        title = f"{NAMES[panel['pooling']]}, lr {first['lr']:g}, seed {first['seed']}"
        rows.setdefault(panel["pooling"], []).append((title, panel["chosen"]))
    whose = numbers["encoder"] or "a small encoder trained from nothing"
    drawn = law_grid(list(rows.values()), f"Sentences of SST-2 in {whose}")
    for axis in drawn.axes[-len(rows["mean"]) :]:
        axis.set_xlabel("block index", fontsize=8.5)
    return drawn


STUDY = Study(
    title="A BERT-like encoder on two-class sentences: the law is not seen",
    source="003, figure 14",
    paper="no law in BERT, neither with the first token nor with the mean of the tokens",
    minutes={"smoke": 0.1, "cpu": 2, "paper": 180},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=candidates,
    measure=measure,
    claims=(absent("first"), absent("mean")),
    figure=figure,
)
