"""Equal classes: the optimum is a simplex, and features are classifiers up to scale.

``lawscope study run peeled/balanced``: the theorem on balanced training (Fang et al. 2021). The
program is solved for several numbers of classes K and energies, with its certificate. That features
of one class are equal is an outcome, not an assumption: for a small K the nonconvex problem with
several free features per class is descended from random starts as well. About 5 seconds on one
core; 5 starts, no network is trained.
"""

from __future__ import annotations

from typing import Any

import lawscope as ls
from lawscope.lazy import np
from lawscope.studies.figures import COLOURS, INK, grid, plain_axis
from lawscope.studies.panels import Settings, collect, presets
from lawscope.studies.peeled._programs import SAME, for_each
from lawscope.studies.study import Check, Claim, Figure, Lab, Numbers, Study

PAPER: dict[str, Any] = {
    "classes": [2, 3, 4, 10, 100, 1000], "feature_energies": [5, 10], "weight_energy": 1,
    "free": {"classes": 4, "per_class": 5, "dimension": 8, "feature_energy": 5, "starts": 5},
    "pictured": 10, "seeds": 0,
}  # fmt: skip
SMOKE = {"classes": [3, 10], "feature_energies": [5], "free": {**PAPER["free"], "starts": 1}}
LABEL, STARTS = "K = {classes}", "free features"


def measure(lab: Lab) -> Numbers:
    settings, E_W = lab.settings, lab.settings["weight_energy"]
    found = for_each(lab, solved, classes="classes", feature_energy="feature_energies")
    lab.tell("descending from random starts")
    ends = [descended(settings["free"], E_W, seed) for seed in range(settings["free"]["starts"])]
    pictured = ls.peel([1.0] * settings["pictured"], E_W, settings["feature_energies"][0])
    return {"programs": found, "free": ends, "cosines": pictured.cosines.tolist()}


def solved(settings: Settings, classes: int, feature_energy: float) -> Numbers:
    """Compute the largest departures of one program from the theorem."""
    K, E_W, E_H = classes, settings["weight_energy"], feature_energy
    found = ls.peel([1.0] * K, E_W, E_H)
    W, H = found.weights(), found.features()
    norms = np.linalg.norm(W, axis=1)
    cosines = (W @ W.T / np.outer(norms, norms))[~np.eye(K, dtype=bool)]
    margin = K * (E_W * E_H) ** 0.5 / (K - 1)
    return {
        "cosine": float(cosines.mean()),
        "cosine_error": float(np.abs(cosines + 1 / (K - 1)).max()),
        "duality_error": float(np.abs(H - (E_H / E_W) ** 0.5 * W).max() / E_H**0.5),
        "gap": found.gap,
        "loss_error": abs(found.loss / np.log1p((K - 1) * np.exp(-margin)) - 1),
    }


def descended(free: Settings, E_W: float, seed: int) -> Numbers:
    """Where free features end from one random start, against the certified optimum."""
    from scipy.optimize import minimize

    from lawscope.theory.layer_peeled.local_search import on_bound

    K, n, p, E_H = (free[name] for name in ("classes", "per_class", "dimension", "feature_energy"))
    start = np.random.default_rng(seed).standard_normal(K * (1 + n) * p)
    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-12}
    how: Any = {"jac": True, "method": "L-BFGS-B", "options": options}
    end = minimize(free_loss, start, (free, E_W), **how)
    H = on_bound(end.x[K * p :], K * n * E_H)[0].reshape(K, n, p)
    spread = H - H.mean(axis=1, keepdims=True)
    return {
        "excess": float(end.fun) / ls.peel([1.0] * K, E_W, E_H).loss - 1,
        "spread": float(np.linalg.norm(spread, axis=2).max() / E_H**0.5),
    }


def free_loss(flat: Any, free: Settings, E_W: float) -> tuple[float, Any]:
    """Mean cross-entropy of classifiers and one free feature per sample, and its slope.

    Both constraints are active at the optimum, so scaling the variables onto them loses nothing,
    and what is left is a smooth problem without constraints.
    """
    from scipy.special import log_softmax

    from lawscope.theory.layer_peeled.local_search import on_bound

    K, n, p, E_H = (free[name] for name in ("classes", "per_class", "dimension", "feature_energy"))
    W, pull_weights = on_bound(flat[: K * p].reshape(K, p), K * E_W)
    H, pull_features = on_bound(flat[K * p :].reshape(K * n, p), K * n * E_H)
    labels = np.repeat(np.arange(K), n)
    logs = log_softmax(H @ W.T, axis=1)
    slope = (np.exp(logs) - np.eye(K)[labels]) / len(labels)
    loss = -logs[np.arange(len(labels)), labels].mean()
    return float(loss), np.concatenate([pull_weights(slope.T @ H), pull_features(slope @ W)])


def figure(numbers: Numbers) -> Figure:
    drawing, ((left, right),) = grid(1, 2, "The Layer-Peeled Model for equal classes", (3.6, 3.0))
    energy = numbers["programs"][0]["feature_energy"]
    programs = [p for p in numbers["programs"] if p["feature_energy"] == energy]
    classes, found = zip(*((p["classes"], p["cosine"]) for p in programs), strict=True)
    left.plot(classes, [-1 / (K - 1) for K in classes], "-", color=INK, lw=1, label="−1/(K−1)")
    left.plot(classes, found, "o", color=COLOURS[0], ms=5, label="the optimum")
    left.set_xlabel("classes K", fontsize=8.5)
    left.set_ylabel("cosine between two classifiers", fontsize=8.5)
    plain_axis(left, legend=7.5, xscale="log")
    image = right.imshow(numbers["cosines"], vmin=-1, vmax=1, cmap="RdBu_r")
    right.set_title(f"K = {len(numbers['cosines'])}", fontsize=9, color=INK)
    right.tick_params(labelsize=8)
    drawing.colorbar(image, ax=right).ax.tick_params(labelsize=8)
    return drawing


STUDY = Study(
    title="Equal classes: the optimum is a simplex, features equal their classifiers",
    source="Fang et al. 2021, theorem on balanced training",
    paper="cos = −1/(K−1), h = √(E_H/E_W)·w, equal within a class",
    minutes={"smoke": 0.03, "cpu": 0.1, "paper": 0.1},
    settings=presets(PAPER, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "classifiers form a simplex: every cosine is −1/(K−1) to 1e-6 (largest error)",
            "a K-simplex equiangular tight frame",
            collect("programs", LABEL, "cosine_error"),
            lambda error: bool(error <= SAME),
        ),
        Claim(
            "features are classifiers: h_k = √(E_H/E_W)·w_k to 1e-6 (largest error)",
            "h = C·w, C = √(E_H/E_W)",
            collect("programs", LABEL, "duality_error"),
            lambda error: bool(error <= SAME),
        ),
        Claim(
            "features free to differ end equal within a class, to 1e-4 of their length",
            "h depends only on the class membership",
            collect("free", STARTS, "spread"),
            lambda spread: bool(spread <= 1e-4),
        ),
    ),
    checks=(
        Check(
            "the optimum is certified: gap at most 1e-8",
            collect("programs", LABEL, "gap"),
            lambda gap: bool(gap <= 1e-8),
        ),
        Check(
            "the loss is that of the closed form, to a relative 1e-6",
            collect("programs", LABEL, "loss_error"),
            lambda error: bool(error <= SAME),
        ),
        Check(
            "every start ends at the certified loss, to a relative 1e-6",
            collect("free", STARTS, "excess"),
            lambda excess: bool(abs(excess) <= SAME),
        ),
    ),
    figure=figure,
)
