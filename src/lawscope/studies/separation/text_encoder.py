"""In encoders of sentences the law is not seen.

``lawscope study run separation/text-encoder``: figure 14 of He & Su 2023. An encoder is trained to
tell good reviews from bad ones (SST-2, 500 sentences of each) and measured after every block: the
features of the first token, and the mean over the tokens. The embedding of the first token is the
same in every sentence, so it has no D and is left out, as in the paper.

``paper`` fine-tunes BERT-base (cased) with BERT's usual rates; its Hugging Face folder
``bert-base-cased`` must be in a data directory. ``cpu`` trains a small encoder of 6 blocks from
random weights instead, which is not a language model and does not try the claim. The environment
variable LAWSCOPE_ENCODER names a folder of pretrained weights to fine-tune in its place, such as
that of all-MiniLM-L6-v2, in both presets: then the claim is tried, if a network reaches 99 % of its
sentences. One that does not says nothing about the law, straight line or not. At BERT's rates and 4
epochs all-MiniLM-L6-v2, a fifth of its size, reached 89 %; an encoder that is named gets larger
rates and more epochs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lawscope as ls
from lawscope.studies.datasets import SentenceData
from lawscope.studies.figures import law_figure
from lawscope.studies.panels import Row, Settings, by_panel, measured, presets, sweep, yes_or_no
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._family import he_su_study
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question
from lawscope.training.recipe import Recipe

VARIABLE = "LAWSCOPE_ENCODER"
BERT = "bert-base-cased"
NAMES = {"first": "first token", "mean": "mean of the tokens"}
# Three epochs at the full rate, as BERT is usually tuned; the recipe lowers it after each third.
FINE_TUNING: dict[str, Any] = {"rates": [2e-5, 3e-5, 5e-5], "epochs": 9, "batch_size": 32}
NAMED: dict[str, Any] = {"rates": [5e-5, 1e-4, 3e-4], "epochs": 12, "batch_size": 32}
FROM_RANDOM: dict[str, Any] = {"rates": [3e-4, 1e-3], "epochs": 30, "batch_size": 64}
PAPER = {
    "encoder": BERT, "depth": 12, "per_class": 500, "length": 64, "training": FINE_TUNING,
    "training_of_named": NAMED, "seeds": 1,
}  # fmt: skip
CPU = {"encoder": "", "depth": 6, "length": 32, "training": FROM_RANDOM, "seeds": 3}
SMOKE = {**CPU, "encoder": None, "seeds": 1, "depth": 3, "per_class": 20}


def encoder(settings: Settings) -> str:
    """Return the folder to fine-tune, or nothing; ``smoke`` has None and never takes one."""
    if settings["encoder"] is None:
        return ""
    return os.environ.get(VARIABLE) or str(settings["encoder"])


def candidates(settings: Settings) -> list[Training]:
    folder = encoder(settings)
    named = folder and folder != settings["encoder"]
    how = settings["training_of_named" if named else "training"]
    training = Training(
        Network.of("pretrained-encoder", folder=folder)
        if folder
        else Network.of("text-encoder", depth=settings["depth"]),
        Recipe(epochs=how["epochs"], batch_size=how["batch_size"], weight_decay=0.0),
        SentenceData(folder, settings["length"], settings["per_class"]),
    )
    return sweep(training, how["rates"], settings["seeds"])


def measure(lab: Lab) -> Numbers:
    """Measure every network with both ways to make features of a sentence; nothing is chosen."""

    def row(pooling: str, training: Training) -> Numbers:
        if pooling == "first":
            places = find_outputs(lab, training)
            return measured(lab, training, stations=places, pooling="first")
        return measured(lab, training, stations="blocks")

    trainings = candidates(lab.settings)
    panels = [{"pooling": each, "chosen": [row(each, t)]} for each in NAMES for t in trainings]
    # The folder itself may be called "model".
    name = "/".join(Path(encoder(lab.settings)).parts[-2:])
    return {"encoder": name, "panels": panels}


def find_outputs(lab: Lab, training: Training) -> list[str]:
    """Return the blocks of a network without what enters the first of them."""
    run = lab.run(training)
    found = ls.stations(run.network(), run.samples.x[:2])
    return [station.name for station in found.granularity("blocks") if station.place == "output"]


def by_rate(panels: Sequence[Numbers]) -> list[Numbers]:
    """Return one panel for each way of pooling and learning rate, with its networks, by seed."""
    found: dict[tuple[str, float], Numbers] = {}
    for panel in panels:
        (row,) = panel["chosen"]
        pooling = panel["pooling"]
        found.setdefault((pooling, row["lr"]), {"pooling": pooling, "chosen": []})["chosen"].append(
            row
        )
    return list(found.values())


def label(panel: Row) -> str:
    return NAMES[panel["pooling"]]


def rates(panels: Sequence[Numbers]) -> dict[str, list[Any]]:
    """Return r by network, whether it fits or not."""

    def name(panel: Row) -> str:
        (row,) = panel["chosen"]
        return f"{label(panel)}, seed {row['seed']}, lr {row['lr']:g}"

    return by_panel(panels, name, "r", fitting=False)


def pretrained(numbers: Numbers) -> dict[str, list[Any]]:
    """Return r of the networks that fit, if they began from pretrained weights."""
    if not numbers["encoder"]:
        raise NotTried("a small encoder from random weights is not BERT")
    fitting = [panel for panel in numbers["panels"] if panel["chosen"][0]["fits"]]
    if {panel["pooling"] for panel in fitting} != set(NAMES):
        raise NotTried("no network fits 99 % of its sentences")
    return rates(fitting)


def figure(numbers: Numbers) -> Figure:
    """Draw one row of panels per way of pooling, one column per learning rate."""
    whose = numbers["encoder"] or "a small encoder trained from random weights"
    title = f"Sentences of SST-2 in {whose}"
    return law_figure(by_rate(numbers["panels"]), label, title, row="pooling", x="block index")


STUDY = he_su_study(
    title="A BERT-like encoder on two-class sentences: is the law seen?",
    source="He & Su 2023, figure 14",
    paper="no law in BERT, neither with the first token nor with the mean of the tokens",
    minutes={"smoke": 0.1, "cpu": 30, "paper": 180},
    settings=presets(PAPER, CPU, {**SMOKE, "training": {**FROM_RANDOM, "epochs": 1}}),
    departures={"cpu": "a small encoder from random weights, or the one named, instead of BERT"},
    plan=candidates,
    measure=measure,
    claims=(
        Claim(
            "no network that fits has a straight line (r > −0.9), with the first token and the "
            "mean of the tokens",
            "the law is not seen in BERT",
            pretrained,
            lambda r: r > -0.9,
        ),
    ),
    questions=(
        Question(
            "Is there a straight line (r ≤ −0.9) in the encoder at hand, whether it fits or not?",
            lambda numbers: rates(numbers["panels"]),
            yes_or_no(lambda r: r <= -0.9),
        ),
    ),
    figure=figure,
)
