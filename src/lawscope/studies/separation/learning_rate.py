"""The law holds for every learning rate that trains well.

``lawscope study run separation/learning-rate``: figure 2 of He & Su 2023, second row. A 9-layer
feed-forward network trained on Fashion-MNIST with SGD at lr 0.01, 0.03 and 0.1, 600 epochs, three
seeds: 9 trainings. Nothing is chosen here.
"""

from __future__ import annotations

from lawscope.studies.panels import Panels, Settings, measured, presets, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._family import chosen, draw_panels, he_su_study
from lawscope.studies.study import Claim, Lab, Numbers
from lawscope.training.recipe import Recipe


def candidates(settings: Settings, lr: float) -> list[Training]:
    network = Network.of("feedforward", depth=settings["depth"])
    training = Training(network, Recipe(optimizer="sgd", epochs=settings["epochs"]))
    return sweep(training, [lr], settings["seeds"])


def measure(lab: Lab) -> Numbers:
    cells = {lr: candidates(lab.settings, lr) for lr in lab.settings["rates"]}
    rows = {lr: [measured(lab, each) for each in trainings] for lr, trainings in cells.items()}
    return {"panels": [{"lr": lr, "chosen": each} for lr, each in rows.items()]}


STUDY = he_su_study(
    title="SGD with lr 0.01, 0.03, 0.1: the law holds for each",
    source="He & Su 2023, figure 2",
    paper="holds for each of the three learning rates",
    minutes={"smoke": 0.1, "cpu": 1.5, "paper": 1.5},
    settings=presets(
        {"depth": 9, "rates": [0.01, 0.03, 0.1], "epochs": 600, "seeds": 3},
        smoke={"depth": 4, "epochs": 2, "seeds": 2},
    ),
    plan=Panels(candidates, lr="rates").plan,
    measure=measure,
    claims=(
        Claim(
            "median r ≤ −0.98 with every learning rate, of networks that fit",
            "the law holds for each learning rate",
            chosen("lr {lr:g}", "r"),
            lambda r: r <= -0.98,
            median=True,
        ),
    ),
    figure=draw_panels("SGD", "The law of data separation with several learning rates"),
)
