"""On test data the law is still there, but fuzzy.

``lawscope study run separation/test-data``: figure 12 of He & Su 2023. The 8-layer network of
``separation/optimizers`` (Adam, Fashion-MNIST, learning rate chosen on training data), measured on
samples it has not seen: 5 trainings of 600 epochs that the two studies share; one seed. The
embedded Fashion-MNIST has 1000 test images.
"""

from __future__ import annotations

from operator import sub, truediv

from lawscope.studies import panels
from lawscope.studies.figures import law_grid
from lawscope.studies.panels import RATES, Settings, by_panel, last_d
from lawscope.studies.plan import Training
from lawscope.studies.separation._family import between, he_su_study
from lawscope.studies.separation.optimizers import candidates
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question

# The same networks are looked at in separation/classwise and separation/pca.
SETTINGS = panels.presets(
    {"depth": 8, "rates": {"adam": RATES["adam"]}, "epochs": 600, "seeds": 1},
    smoke={"depth": 5, "rates": {"adam": [1e-3, 3e-3]}, "epochs": 3},
)
ONE_SEED = {"cpu": "one seed instead of three"}


def plan(settings: Settings) -> list[Training]:
    return candidates(settings, "adam", settings["depth"])


def measure(lab: Lab) -> Numbers:
    trainings = plan(lab.settings)
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
    minutes={"smoke": 0.1, "cpu": 0.5, "paper": 0.5},
    settings=SETTINGS,
    departures={"cpu": "1000 of 10 000 test images, one seed instead of three"},
    plan=plan,
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
            panels.brief,
        ),
    ),
    figure=figure,
)
