"""The law does not depend on the dataset.

``lawscope study run separation/datasets``: figure 2 of He & Su 2023, first row, with MNIST beside
it. Feed-forward networks of depth 4, 8 and 20 trained with Adam on CIFAR-10 (green channel) and
MNIST, both at 10×10 pixels, 100 samples per class, for 600 epochs, three seeds. At ``cpu`` the
learning rates are the one the authors took and its neighbours. Both datasets must be on this
machine.
"""

from __future__ import annotations

from lawscope.studies.panels import Panels, Settings, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim, Question


def candidates(settings: Settings, dataset: str, depth: int) -> list[Training]:
    return family.feedforward(settings, family.DATA[dataset], depth=depth)


PANELS = Panels(candidates, dataset="datasets", depth="depths")


STUDY = family.he_su_study(
    title="CIFAR-10 and MNIST: the law holds there too",
    source="He & Su 2023, figure 2",
    paper="straight lines on CIFAR-10 at depth 4, 8 and 20",
    minutes={"smoke": 0.1, "cpu": 3.5, "paper": 3.5},
    settings=family.adam_presets(
        {"datasets": ["cifar10", "mnist"], "depths": [4, 8, 20]},
        cpu={"near": True},
        smoke={"depths": [3, 5]},
    ),
    departures={"cpu": family.NEAR},
    plan=PANELS.plan,
    measure=PANELS.measure,
    claims=(
        Claim(
            "on CIFAR-10 median r ≤ −0.98 at every depth, of networks that fit",
            "straight lines at depth 4, 8 and 20",
            family.chosen("{depth} layers", "r", dataset="cifar10"),
            lambda r: r <= -0.98,
            median=True,
        ),
    ),
    questions=(
        Question(
            "Is r ≤ −0.98 at every depth on MNIST too?",
            family.chosen("{depth} layers", "r", dataset="mnist"),
            yes_or_no(lambda r: r <= -0.98),
        ),
    ),
    figure=family.draw_panels(
        lambda panel: f"{family.NAMES[panel['dataset']]}, {panel['depth']} layers",
        "The law of data separation on other data",
        row="dataset",
    ),
)
