"""Without BatchNorm the law is worse, and without ReLU there is none.

``lawscope study run separation/ablations``: remarks of 003, tried out. 8-layer feed-forward
networks on Fashion-MNIST with Adam: as in the paper, without BatchNorm, and linear (BatchNorm but
no ReLU). Three learning rates and three seeds: 27 trainings of 600 epochs. All layers of a linear
network together are one linear map, which need not fit the training set: at ``cpu`` it does not.

The paper: the nonlinearity is vital, because D is roughly invariant under linear transformations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, of_fitting, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._over_seeds import differences
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {"depth": 8, "rates": RATES["adam"], "epochs": 600, "seeds": 3}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3]}
SMOKE = {**PAPER, "depth": 5, "rates": [1e-3], "epochs": 2, "seeds": 3}
VARIANTS: dict[str, dict[str, bool]] = {
    "plain": {},
    "without BatchNorm": {"norm": False},
    "linear": {"nonlinear": False},
}
# What the paper calls the law and its absence, figure 5: r = −0.997 against −0.971.
ABSENT = 0.026
# A linear network may still turn D a little: D is only roughly invariant.
SHARE = 0.2


def candidates(settings: Mapping[str, Any], variant: str) -> list[Training]:
    """The networks of one variant, one for each learning rate and seed."""
    training = Training(
        Network.of("feedforward", depth=settings["depth"], **VARIANTS[variant]),
        Recipe(epochs=settings["epochs"]),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all variants."""
    return [training for variant in VARIANTS for training in candidates(settings, variant)]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every variant, beside all candidates."""
    return {variant: choice(lab, candidates(lab.settings, variant)) for variant in VARIANTS}


def worse(numbers: Numbers, variant: str, *, fitting: bool = True) -> list[float | None]:
    """How much r exceeds that of the plain network, seed by seed."""
    plain = numbers["plain"]["chosen"]
    return differences(numbers[variant]["chosen"], plain, "r", fitting=fitting)


def fall(row: Numbers) -> float:
    """Fall of log D from the first hidden layer to the last.

    Example:
        >>> round(fall({"D": [9.0, 8.0, 4.0, 2.0]}), 3)
        1.386
    """
    return math.log(row["D"][1] / row["D"][-1])


def share_of_fall(numbers: Numbers) -> list[float]:
    """Fall of log D inside the linear network over that inside the plain one, seed by seed."""
    pairs = zip(numbers["linear"]["chosen"], numbers["plain"]["chosen"], strict=True)
    return [fall(linear) / fall(plain) for linear, plain in pairs]


CLAIMS = (
    Claim(
        "the plain network fits its training set and has r ≤ −0.98 for every seed",
        "r = −0.997",
        lambda numbers: of_fitting([numbers["plain"]], "r"),
        every(lambda r: r <= -0.98),
    ),
    Claim(
        f"without BatchNorm the network fits and r is worse by {ABSENT} or more, for every seed of "
        "≥ 3",
        "BatchNorm is inserted by default",
        lambda numbers: worse(numbers, "without BatchNorm"),
        every(lambda difference: difference >= ABSENT),
    ),
    Claim(
        f"in the linear network, fitting or not, r is worse by {ABSENT} or more, for every seed of "
        "≥ 3",
        "the nonlinearity is vital to the law",
        lambda numbers: worse(numbers, "linear", fitting=False),
        every(lambda difference: difference >= ABSENT),
    ),
    Claim(
        "from its first to its last hidden layer the linear network lowers log D by less than "
        f"{SHARE:.0%} of what the plain one does, every seed",
        "D is roughly invariant under linear transformations",
        share_of_fall,
        every(lambda share: abs(share) < SHARE),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One panel per variant; further seeds faintly behind the first."""
    row = [
        (f"{variant}, lr {numbers[variant]['chosen'][0]['lr']:g}", numbers[variant]["chosen"])
        for variant in VARIANTS
    ]
    return law_grid([row], "The law without BatchNorm and without ReLU")


STUDY = Study(
    title="Without BatchNorm the law is worse; a linear network has none",
    source="003, text",
    paper="the nonlinearity is vital: D is roughly invariant under linear transformations",
    minutes={"smoke": 0.1, "cpu": 3.5, "paper": 4},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
