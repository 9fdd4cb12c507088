"""Without BatchNorm the law is worse, and without ReLU there is none.

``lawscope study run separation/ablations``: a remark of He & Su 2023 and experiments of the
authors' repository, tried out. 8-layer feed-forward networks on Fashion-MNIST with Adam: as in the
paper, without BatchNorm, and linear (BatchNorm but no ReLU). Three learning rates and three seeds:
27 trainings of 600 epochs. All layers of a linear network together are one linear map, which need
not fit the training set: at ``cpu`` it does not.

The paper: the nonlinearity is vital, because D is roughly invariant under linear transformations.
"""

from __future__ import annotations

from operator import sub
from typing import Any

from lawscope.studies.figures import law_grid
from lawscope.studies.panels import Settings, choice, compare
from lawscope.studies.plan import Training
from lawscope.studies.separation import Figure
from lawscope.studies.separation._family import FEW_RATES, adam_presets, feedforward, he_su_study
from lawscope.studies.study import Claim, Numbers

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without BatchNorm": {"norm": False},
    "linear": {"nonlinear": False},
}
# What the paper calls the law and its absence, figure 5: r = −0.997 against −0.971.
ABSENT = 0.026


def candidates(settings: Settings, variant: str) -> list[Training]:
    return feedforward(settings, depth=settings["depth"], **VARIANTS[variant])


def excess_r(numbers: Numbers, variant: str, *, fitting: bool = True) -> dict[str, list[Any]]:
    """Return r minus that of the plain network, seed by seed."""
    ours, plain = (numbers[each]["chosen"] for each in (variant, "plain"))
    return {f"r, {variant} − plain": compare(ours, plain, "r", sub, fitting=fitting)}


def fall(numbers: Numbers) -> dict[str, list[Any]]:
    curves = [row["D"] for row in numbers["linear"]["chosen"]]
    return {"last D / first": [D and D[-1] / D[1] for D in curves]}


def figure(numbers: Numbers) -> Figure:
    chosen = {variant: numbers[variant]["chosen"] for variant in VARIANTS}
    row = [(f"{variant}, lr {rows[0]['lr']:g}", rows) for variant, rows in chosen.items()]
    return law_grid([row], "The law without BatchNorm and without ReLU")


STUDY = he_su_study(
    title="Without BatchNorm the law is worse; a linear network has none",
    source="He & Su 2023, text",
    paper="the nonlinearity is vital: D is roughly invariant under linear transformations",
    minutes={"smoke": 0.1, "cpu": 3.5, "paper": 4},
    settings=adam_presets(
        depth=8, seeds=3, cpu={"rates": FEW_RATES}, smoke={"depth": 5, "rates": [1e-3]}
    ),
    departures={"cpu": "8 layers instead of the authors' 20, 3 of 5 rates"},
    plan=lambda settings: [t for each in VARIANTS for t in candidates(settings, each)],
    measure=lambda lab: {each: choice(lab, candidates(lab.settings, each)) for each in VARIANTS},
    claims=(
        Claim(
            f"without BatchNorm the network fits and r is higher by {ABSENT} or more",
            "BatchNorm is inserted by default",
            lambda numbers: excess_r(numbers, "without BatchNorm"),
            lambda difference: difference >= ABSENT,
            figure="authors' repository",
        ),
        Claim(
            f"in the linear network, fitting or not, r is higher by {ABSENT} or more",
            "the nonlinearity is vital to the law",
            lambda numbers: excess_r(numbers, "linear", fitting=False),
            lambda difference: difference >= ABSENT,
        ),
        Claim(
            "in the linear network D does not fall from the first hidden layer to the last (ratio "
            "≥ 1)",
            "D is roughly invariant under linear transformations",
            fall,
            lambda ratio: ratio >= 1,
        ),
    ),
    figure=figure,
)
