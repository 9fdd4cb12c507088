"""On test data the law is still there, but fuzzy.

``lawscope study run separation/test-data``: figure 12 of He & Su 2023. The 8-layer network of
``separation/optimizers`` (Adam, Fashion-MNIST, learning rate chosen on training data), measured on
all 10 000 test images in the order of their file: 15 trainings of 600 epochs, three seeds. All of
Fashion-MNIST must be on this machine.
"""

from __future__ import annotations

from dataclasses import replace
from operator import sub, truediv

from lawscope.studies import panels
from lawscope.studies.datasets import ImageData
from lawscope.studies.figures import law_grid
from lawscope.studies.panels import RATES, Settings, by_panel, last_d
from lawscope.studies.plan import Training
from lawscope.studies.separation._family import between, he_su_study
from lawscope.studies.separation.optimizers import candidates
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question

# The same networks are looked at in separation/classwise and separation/pca.
SETTINGS = panels.presets(
    {"depth": 8, "rates": {"adam": RATES["adam"]}, "epochs": 600, "seeds": 3},
    smoke={"depth": 5, "rates": {"adam": [1e-3, 3e-3]}, "epochs": 3, "seeds": 1},
)
WHOLE = ImageData("fashion-mnist", size=10)


def plan(settings: Settings) -> list[Training]:
    return candidates(settings, "adam", settings["depth"])


def on_whole_data(settings: Settings) -> list[Training]:
    """Return the same networks with all test images, where the settings say so."""
    data = WHOLE if settings["whole"] else ImageData()
    return [replace(training, data=data) for training in plan(settings)]


def measure(lab: Lab) -> Numbers:
    trainings = on_whole_data(lab.settings)
    made = panels.choice(lab, trainings)
    chosen = [panels.training_of(row, trainings) for row in made["chosen"]]
    return {**made, "tested": [panels.measured(lab, each, split="test") for each in chosen]}


def figure(numbers: Numbers) -> Figure:
    row = [("training data", numbers["chosen"]), ("test data", numbers["tested"])]
    return law_grid([row], "The law of data separation on data not trained on")


STUDY = he_su_study(
    title="D on test data: a fuzzy version of the law",
    source="He & Su 2023, figure 12",
    paper="a fuzzy version of the law also exists in the test data",
    minutes={"smoke": 0.1, "cpu": 1.5, "paper": 1.5},
    settings={name: {**each, "whole": name != "smoke"} for name, each in SETTINGS.items()},
    plan=on_whole_data,
    measure=measure,
    claims=(
        Claim(
            "the line is less straight on test data than on training data (r higher)",
            "a fuzzy version of the law also exists in the test data",
            between("r on test − training data", "r", sub, "tested", "chosen"),
            lambda difference: difference > 0,
        ),
        Claim(
            "at the last layer D on test data is at least D on training data (ratio ≥ 1)",
            "fuzzy",
            between("final D on test / training data", last_d, truediv, "tested", "chosen"),
            lambda ratio: ratio >= 1,
        ),
    ),
    questions=(
        Question(
            "How straight is the line on test data?",
            lambda numbers: by_panel([{"chosen": numbers["tested"]}], "r on test data", "r"),
            panels.medians,
        ),
    ),
    figure=figure,
)
