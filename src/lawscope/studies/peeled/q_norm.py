"""With another norm on the features there is no neural collapse.

``lawscope study run peeled/q-norm``: "what happens without the ansatz?" (Fang et al. 2021):
features bounded by (1/K)Σ‖h_k‖_q^q ≤ E_H. Equal classes, K = 3, 4, 5, E_W = 1, E_H = 5, p = K,
q = 1.5, 2, 3, 4; local searches from 20 starts against the best configuration with neural collapse:
features and classifiers along a simplex, turned so that its q-norm is the least found. About 12
seconds on one core; nothing is trained. Nothing certifies a local minimum, but one below collapse
is enough to show that collapse is not optimal.

The paper: for K ≥ 3, p ≥ K and every q ≠ 2 neural collapse does not emerge; for q = 2 it does.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import Settings, collect, group_by, presets
from lawscope.studies.peeled._programs import SAME, for_each, pairs_of
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Study

PAPER: dict[str, Any] = {
    "classes": [3, 4, 5], "exponents": [1.5, 2, 3, 4], "weight_energy": 1, "feature_energy": 5,
    "starts": 20, "seeds": 0,
}  # fmt: skip
SMOKE = {"classes": [3], "exponents": [2, 3], "starts": 3}


def measure(lab: Lab) -> Numbers:
    return {"searches": for_each(lab, searched, classes="classes", q="exponents")}


def searched(settings: Settings, classes: int, q: float) -> Numbers:
    """Return the losses of all starts over that of neural collapse, minus 1, the best first."""
    from lawscope.theory.layer_peeled.q_norm import peel_q_norm

    energies = settings["weight_energy"], settings["feature_energy"]
    found = peel_q_norm([1.0] * classes, q, *energies, starts=settings["starts"])
    excess = sorted(float(loss / found.collapsed_loss - 1) for loss in found.losses)
    return {
        "collapsed_loss": found.collapsed_loss,
        "excess": excess,
        "below": sum(each < -SAME for each in excess),
        "cosines": sorted(pairs_of(found.cosines)),
    }


def best(*, euclidean: bool) -> Any:
    """Read the best loss over that of collapse, minus 1, for q = 2 or for the others."""
    return collect(
        "searches", "K = {classes}, q = {q:g}", lambda search: search["excess"][0],
        where=lambda search: (search["q"] == 2) == euclidean,
    )  # fmt: skip


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 2, "Another norm on the features, equal classes", (3.8, 3.0))
    left, right = axes[0]
    classes = group_by(numbers["searches"], "classes")
    for (K, mine), color in zip(classes.items(), COLOURS, strict=False):
        exponents, excess = zip(*((s["q"], s["excess"][0]) for s in mine), strict=True)
        left.plot(exponents, excess, "o-", color=color, ms=4, lw=1, label=f"K = {K}")
        for search in mine:
            places = [search["q"]] * len(search["cosines"])
            right.plot(places, search["cosines"], "o", color=color, ms=3.5)
        right.axhline(-1 / (K - 1), color=color, lw=0.8, ls=":")
    left.axhline(0, color="grey", lw=0.8)
    plain_axis(left, "best loss over that of collapse, minus 1", legend=7.5)
    plain_axis(right, "cosines between classifiers (dotted: simplex)")
    label_outside(axes, "q", "")
    return drawing


STUDY = Study(
    title="Features bounded in another norm: neural collapse only for q = 2",
    source="Fang et al. 2021, what happens without the ansatz?",
    paper="for q ≠ 2 neural collapse does not emerge",
    minutes={"smoke": 0.05, "cpu": 0.5, "paper": 0.5},
    settings=presets(PAPER, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "for q ≠ 2 a start ends below the best neural collapse by more than 1e-6 of its loss "
            "(best loss over that of collapse, minus 1)",
            "for q ≠ 2 neural collapse does not emerge",
            best(euclidean=False),
            lambda excess: bool(excess < -SAME),
        ),
        Claim(
            "for q = 2 the best start ends at neural collapse, to 1e-6 of its loss",
            "for q = 2 it does",
            best(euclidean=True),
            lambda excess: bool(abs(excess) <= SAME),
        ),
    ),
    figure=figure,
)
