"""Equal classes: the optimum is a simplex, and features are classifiers up to scale.

``lawscope study run peeled/balanced``: the theorem on balanced training (001; 000, part I). The
program is solved for several numbers of classes K and energies, with its certificate. That features
of one class are equal is an outcome, not an assumption: for a small K the nonconvex problem with
several free features per class is descended from random starts as well. About 5 seconds on one
core; 5 starts, no network is trained.

The documents: any global minimiser has h_{k,i} = √(E_H/E_W)·w_k, and the w_k form a simplex
equiangular tight frame, cos = −1/(K−1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, INK, grid, plain_axis
from lawscope.studies.choice import every
from lawscope.studies.peeled._programs import SAME, nothing_to_train
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "classes": [2, 3, 4, 10, 100, 1000],
    "feature_energies": [5, 10],
    "weight_energy": 1,
    "free": {"classes": 4, "per_class": 5, "dimension": 8, "feature_energy": 5, "starts": 5},
    "pictured": 10,
    "seeds": 1,
}
CPU = PAPER
SMOKE = {
    **PAPER,
    "classes": [3, 10],
    "feature_energies": [5],
    "free": {**PAPER["free"], "starts": 1},
}
SMALLEST_GAP = 1e-8
SPREAD = 1e-4


def measure(lab: Lab) -> Numbers:
    """Every program's geometry, the free descent, and the cosines of one program as a picture."""
    settings = lab.settings
    programs = [
        solved(K, settings["weight_energy"], E_H)
        for K in settings["classes"]
        for E_H in settings["feature_energies"]
    ]
    lab.tell("descending from random starts")
    free = [
        descended(settings["weight_energy"], settings["free"], seed=start)
        for start in range(settings["free"]["starts"])
    ]
    return {"programs": programs, "free": free, "cosines": cosines(settings)}


def solved(K: int, E_W: float, E_H: float) -> Numbers:
    """The largest departures of one program from the theorem."""
    import numpy as np

    from lawscope.theory.layer_peeled.peel import peel

    found = peel([1.0] * K, E_W, E_H)
    W, H = found.weights(), found.features()
    norms = np.linalg.norm(W, axis=1)
    cosines = (W @ W.T / np.outer(norms, norms))[~np.eye(K, dtype=bool)]
    margin = K * (E_W * E_H) ** 0.5 / (K - 1)
    return {
        "classes": K,
        "feature_energy": E_H,
        "cosine": float(cosines.mean()),
        "cosine_error": float(np.abs(cosines + 1 / (K - 1)).max()),
        "duality_error": float(np.abs(H - (E_H / E_W) ** 0.5 * W).max() / E_H**0.5),
        "gap": found.gap,
        "loss_error": abs(found.loss / np.log1p((K - 1) * np.exp(-margin)) - 1),
    }


def descended(E_W: float, free: Mapping[str, Any], seed: int) -> Numbers:
    """Where free features end from one random start, against the certified optimum."""
    import numpy as np

    from lawscope.studies.peeled._descent import FreeModel
    from lawscope.theory.layer_peeled.peel import peel

    K, E_H = free["classes"], free["feature_energy"]
    loss, H = FreeModel(K, free["per_class"], free["dimension"], E_W, E_H).descend(seed)
    spread = H - H.mean(axis=1, keepdims=True)
    return {
        "excess": loss / peel([1.0] * K, E_W, E_H).loss - 1,
        "spread": float(np.linalg.norm(spread, axis=2).max() / E_H**0.5),
    }


def cosines(settings: Mapping[str, Any]) -> list[list[float]]:
    """Cosines between all classifiers of the pictured program."""
    from lawscope.theory.layer_peeled.peel import peel

    energies = settings["weight_energy"], settings["feature_energies"][0]
    found: list[list[float]] = peel([1.0] * settings["pictured"], *energies).cosines.tolist()
    return found


def largest(name: str) -> Any:
    """The largest of one number over all programs."""
    return lambda numbers: max(program[name] for program in numbers["programs"])


CLAIMS = (
    Claim(
        "classifiers form a simplex: every cosine is −1/(K−1) to 1e-6, for every K and energy",
        "a K-simplex equiangular tight frame",
        largest("cosine_error"),
        lambda error: bool(error <= SAME),
    ),
    Claim(
        "features are classifiers: h_k = √(E_H/E_W)·w_k to 1e-6",
        "h = C·w, C = √(E_H/E_W)",
        largest("duality_error"),
        lambda error: bool(error <= SAME),
    ),
    Claim(
        "the optimum is certified: gap ≤ 1e-8",
        "any global minimiser",
        largest("gap"),
        lambda gap: bool(gap <= SMALLEST_GAP),
    ),
    Claim(
        "features free to differ end equal within a class, to 1e-4 of their length, every start",
        "h depends only on the class membership",
        lambda numbers: [row["spread"] for row in numbers["free"]],
        every(lambda spread: spread <= SPREAD),
    ),
    Claim(
        "every start ends at the certified loss, to a relative 1e-6",
        "nonconvex but analytically tractable",
        lambda numbers: [row["excess"] for row in numbers["free"]],
        every(lambda excess: abs(excess) <= SAME),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """The cosine against K, and all cosines of one program."""
    drawing, ((left, right),) = grid(1, 2, "The Layer-Peeled Model for equal classes", (3.6, 3.0))
    energy = numbers["programs"][0]["feature_energy"]
    programs = [p for p in numbers["programs"] if p["feature_energy"] == energy]
    classes = [p["classes"] for p in programs]
    left.plot(classes, [-1 / (K - 1) for K in classes], "-", color=INK, lw=1, label="−1/(K−1)")
    left.plot(
        classes, [p["cosine"] for p in programs], "o", color=COLOURS[0], ms=5, label="the optimum"
    )
    left.set_xscale("log")
    left.set_xlabel("classes K", fontsize=8.5)
    left.set_ylabel("cosine between two classifiers", fontsize=8.5)
    left.legend(fontsize=7.5, frameon=False)
    plain_axis(left)
    image = right.imshow(numbers["cosines"], vmin=-1, vmax=1, cmap="RdBu_r")
    right.set_title(f"K = {len(numbers['cosines'])}", fontsize=9, color=INK)
    right.tick_params(labelsize=8)
    drawing.colorbar(image, ax=right).ax.tick_params(labelsize=8)
    return drawing


STUDY = Study(
    title="Equal classes: the optimum is a simplex, features equal their classifiers",
    source="001, theorem on balanced training",
    paper="cos = −1/(K−1), h = √(E_H/E_W)·w, equal within a class",
    minutes={"smoke": 0.03, "cpu": 0.1, "paper": 0.1},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=nothing_to_train,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
