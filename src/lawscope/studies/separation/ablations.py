"""Without BatchNorm the law is worse, and without ReLU there is none.

``lawscope study run separation/ablations``: a remark of He & Su 2023 and experiments of the
authors' repository, tried out. 8-layer feed-forward networks on Fashion-MNIST with Adam: as in the
paper, without BatchNorm, and linear (BatchNorm but no ReLU). Three learning rates and three seeds:
27 trainings of 600 epochs. All layers of a linear network together are one linear map, which need
not fit the training set: at ``cpu`` it does not.
"""

from __future__ import annotations

from operator import sub
from typing import Any

from lawscope.studies.figures import law_grid
from lawscope.studies.panels import Row, Settings, choice, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim, Figure, Numbers, Question

BARE = "without BatchNorm"
VARIANTS: dict[str, Any] = {"plain": {}, BARE: {"norm": False}, "linear": {"nonlinear": False}}
# What the paper calls the law and its absence, figure 5: r = −0.997 against −0.971.
ABSENT = 0.026


def candidates(settings: Settings, variant: str) -> list[Training]:
    return family.feedforward(settings, depth=settings["depth"], **VARIANTS[variant])


def fall(row: Row) -> Any:
    return row["D"] and row["D"][-1] / row["D"][1]


def figure(numbers: Numbers) -> Figure:
    chosen = {variant: numbers[variant]["chosen"] for variant in VARIANTS}
    row = [(f"{variant}, lr {rows[0]['lr']:g}", rows) for variant, rows in chosen.items()]
    return law_grid([row], "The law without BatchNorm and without ReLU")


STUDY = family.he_su_study(
    title="Without BatchNorm the law is worse; a linear network has none",
    source="He & Su 2023, text",
    paper="the nonlinearity is vital: D is roughly invariant under linear transformations",
    minutes={"smoke": 0.1, "cpu": 3.5, "paper": 20},
    settings=family.adam_presets(
        {"depth": 20},
        cpu={"depth": 8, "near": True},
        smoke={"depth": 5, "rates": [1e-3]},
    ),
    departures={"cpu": f"8 layers instead of the authors' 20, {family.NEAR}"},
    plan=lambda settings: [t for each in VARIANTS for t in candidates(settings, each)],
    measure=lambda lab: {each: choice(lab, candidates(lab.settings, each)) for each in VARIANTS},
    claims=(
        Claim(
            f"in the linear network, fitting or not, r is higher than in the plain one by {ABSENT} "
            "or more",
            "the nonlinearity is vital to the law",
            family.between("r, linear − plain", "r", sub, "linear", "plain", fitting=False),
            lambda difference: difference >= ABSENT,
        ),
        Claim(
            "in the linear network D does not fall from the first hidden layer to the last (ratio "
            "≥ 1)",
            "D is roughly invariant under linear transformations",
            family.chosen("last D / first", fall, "linear", fitting=False),
            lambda ratio: ratio >= 1,
        ),
    ),
    questions=(
        Question(
            f"Without BatchNorm, tried in the authors' repository: does the network fit, with an r "
            f"higher than the plain one's by {ABSENT} or more?",
            family.between(f"r, {BARE} − plain", "r", sub, BARE, "plain"),
            yes_or_no(lambda difference: difference >= ABSENT),
        ),
    ),
    figure=figure,
)
