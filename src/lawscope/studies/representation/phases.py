"""The phases of a layer: Table 1 on synthetic layers, and where layers of trained networks are.

``lawscope study run representation/phases``: Theorem 2 and Table 1 of Ziyin, Chuang et al. 2024.
Synthetic layers of 32 units with random bases are made from the relations that define a phase;
exponents (p, q) of H_a ~ z^p, G_b ~ z^q are then fitted as on any network, and the name of the
phase must come out. The master theorem is tried on layers of random spectra that have one, two or
three of the six alignments and nothing else. Then the layers of fully connected networks (ReLU and
tanh, decay 0, 0.001, 0.01) and of a small residual network, trained on 5000 images of Fashion-MNIST
at 10×10, on the test images; 3 seeds, from 10 on. A layer has a phase only if it is within 0.3 of
its point in the (p, q) plane and both exponents have R² above 0.7 (an exponent of 0: a commutator
with Z below 0.2). Layers whose H and G are rotated at random must have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

from lawscope.formatting import fixed, many
from lawscope.lazy import np
from lawscope.studies.figures import COLOURS, grid, plain_axis
from lawscope.studies.panels import collect, presets
from lawscope.studies.plan import Training
from lawscope.studies.representation import _layers as layers
from lawscope.studies.representation import _networks as networks
from lawscope.studies.representation._layers import RELATIONS, name_phase
from lawscope.studies.representation._networks import FULLY_CONNECTED, HIDDEN, RELU, RESIDUAL, TANH
from lawscope.studies.study import Check, Claim, Figure, Lab, Numbers, Question, Study

# Table 1 as printed: α, β, δ of H^α ∝ Z^β ∝ G^δ, backward and forward; None is not in the law.
PRINTED = {
    "4": ((1, 0, 1), (1, 1, -1)),
    "5": ((3, 3, 1), (1, 2, 1)),
    "6": ((1, 2, 1), (1, 3, 3)),
    "7": ((-1, 1, 1), (1, 0, 1)),
    "8": ((2, 2, 1), (1, 2, 2)),
    "9": ((1, 0, 0), (0, 0, 1)),
    "backward CRH": ((1, 1, 1), (1, 2, None)),
    "forward CRH": ((None, 2, 1), (1, 1, 1)),
}
FLAT = ("1", "2", "3")
EXACT, EQUAL = 1e-6, 1e-9
UNITS = 32
SETTINGS: dict[str, Any] = {**networks.PAPER, "decays": networks.DECAYS, "rotations": 40}
SMOKE = {**networks.SMOKE, "decays": [0.01], "rotations": 2}


def cells(settings: Any) -> dict[str, tuple[tuple[str, ...], list[Training]]]:
    return {
        **{
            f"{kind}, decay {decay:g}": (HIDDEN, networks.mlps(settings, kind, decay))
            for kind in (RELU, TANH)
            for decay in settings["decays"]
        },
        RESIDUAL: (FULLY_CONNECTED[RESIDUAL], networks.residual_networks(settings)),
    }


def plan(settings: Any) -> list[Training]:
    return [training for _, each in cells(settings).values() for training in each]


def synthesise(name: str, seed: int) -> Numbers:
    """Return what is found on a synthetic layer of a phase."""
    from lawscope.theory.representation import PHASES, fit_exponents, make_layer

    fit = fit_exponents(*make_layer(name, UNITS, seed))
    label = PHASES.classify(
        fit.p, fit.q, fit.r2_p, fit.r2_q,
        commutator_h=fit.commutator_h, commutator_g=fit.commutator_g,
    )  # fmt: skip
    powers = ((fit.p, fit.q + 1), (fit.p + 1, fit.q))
    error = 0.0
    for (alpha, beta, delta), (h, g) in zip(PRINTED[name], powers, strict=True):
        found = [exponent * power for exponent, power in ((alpha, h), (beta, 1.0), (delta, g))
                 if exponent is not None]  # fmt: skip
        error = max(error, max(found) - min(found))
    return {"phase": name, "seed": seed, "p": fit.p, "q": fit.q, "label": label.phase,
            "error": error}  # fmt: skip


def flatten(name: str, seed: int) -> Numbers:
    """Return how far from flat z must be for the relations of a phase, by solving for them."""
    from lawscope.theory.representation import PHASES, make_related_layer

    W, _, _ = make_related_layer(PHASES[name].relations, UNITS, seed)
    s = np.linalg.svd(W, compute_uv=False)
    return {"phase": name, "seed": seed, "spread": float(np.log(s[0] / s[-1]))}


def prove(relations: tuple[str, ...], seed: int) -> Numbers:
    """Return which alignments a layer has that was made to have some."""
    from lawscope.theory.representation import compute_alignments, make_related_layer

    W, H_a, G_b = make_related_layer(relations, UNITS, seed)
    found = compute_alignments(W, H_a, G_b, measure="cosine")
    spectra = [np.linalg.eigvalsh(each) for each in (W.T @ W, H_a, G_b)]
    flat = max(float(np.ptp(values / values[-1])) for values in spectra)
    sides = {relation.split()[0] for relation in relations}
    return {
        "relations": list(relations), "seed": seed, "two_sides": len(sides) == 2,
        "held": [name for name in RELATIONS if found[name] > 1 - EQUAL],
        "smallest": min(found.values()), "third": min(
            found[name] for name in RELATIONS if name.split()[0] in sides
        ), "unevenness": flat,
    }  # fmt: skip


def rotate(seed: int) -> Numbers:
    """Return the label of a layer whose H and G have nothing to do with W."""
    from scipy.stats import ortho_group

    from lawscope.theory.representation import PHASES, fit_exponents, make_layer

    W, H_a, G_b = make_layer("8", UNITS, seed)
    P, Q = (ortho_group.rvs(UNITS, random_state=1000 * seed + i) for i in (1, 2))
    fit = fit_exponents(W, Q @ H_a @ Q.T, P @ G_b @ P.T)
    label = PHASES.classify(
        fit.p, fit.q, fit.r2_p, fit.r2_q,
        commutator_h=fit.commutator_h, commutator_g=fit.commutator_g,
    )  # fmt: skip
    return {"seed": seed, "p": fit.p, "q": fit.q, "label": label.phase}


def measure(lab: Lab) -> Numbers:
    seeds = networks.seeds_of(lab.settings)
    lab.tell("synthetic layers")
    synthetic = [synthesise(name, seed) for name in PRINTED for seed in seeds]
    flat = [flatten(name, seed) for name in FLAT for seed in seeds]
    tried = [
        prove(relations, seed)
        for size in (1, 2, 3)
        for relations in combinations(RELATIONS, size)
        for seed in seeds
    ]
    trained = []
    for kind, (names, trainings) in cells(lab.settings).items():
        for training in trainings:
            lab.tell(f"{kind}, seed {training.seed}")
            for epoch in (0, training.recipe.epochs):
                for row in layers.measure_layers(lab, training, names, epoch=epoch):
                    kept = ("layer", "state", "phase", "reason", "nearest", "distance", "p", "q",
                            "r2_p", "r2_q", "alpha")  # fmt: skip
                    own = {name: row[name] for name in kept}
                    trained.append(
                        {"kind": kind, "seed": training.seed, "trained": epoch > 0, **own}
                    )
    return {
        "synthetic": synthetic, "flat": flat, "theorem": tried, "layers": trained,
        "rotated": [rotate(seed) for seed in range(lab.settings["rotations"])],
    }  # fmt: skip


def of_theorem(
    value: str, where: Callable[[Any], bool]
) -> Callable[[Numbers], dict[str, list[float]]]:
    return collect("theorem", "layers", value, where=where)


def canonical(numbers: Numbers) -> dict[str, list[float]]:
    """Return the share of layers of trained networks that have all six alignments, by seed."""
    own = [row for row in numbers["layers"] if row["trained"]]
    shares = []
    for seed in sorted({row["seed"] for row in own}):
        states = [row["state"] for row in own if row["seed"] == seed]
        shares.append(states.count("CRH") / len(states))
    return {"layers": shares}


def count(trained: bool) -> Callable[[Numbers], dict[str, int]]:
    """Return how many layers have which label."""

    def read(numbers: Numbers) -> dict[str, int]:
        own = [row for row in numbers["layers"] if row["trained"] == trained]
        return dict(Counter(name_phase(row["phase"]) for row in own))

    return read


def label(row: Any) -> str:
    return name_phase(row["phase"])


def write_counts(found: dict[str, int]) -> str:
    """Write counts of labels, the most frequent first."""
    (name, most), *rest = sorted(found.items(), key=lambda item: -item[1])
    return "; ".join([f"{name}: {many(most, 'layer')}", *(f"{name}: {n}" for name, n in rest)])


def table(numbers: Numbers) -> list[list[str]]:
    """Return (p, q) of every trained layer, its R² and its phase, by seed."""
    rows = [["network", "layer", "seed", "p", "R²", "q", "R²", "nearest", "distance", "phase"]]
    for row in numbers["layers"]:
        if row["trained"]:
            values = (row[name] for name in ("p", "r2_p", "q", "r2_q"))
            cells_ = ["—" if value is None else fixed(value, 2) for value in values]
            distance = "—" if row["distance"] is None else fixed(row["distance"], 2)
            rows.append([row["kind"], row["layer"], str(row["seed"]), *cells_,
                         row["nearest"] or "—", distance, row["phase"] or "none"])  # fmt: skip
    return rows


def figure(numbers: Numbers) -> Figure:
    kinds = list(dict.fromkeys(row["kind"] for row in numbers["layers"]))
    title = "Phases in the plane of exponents\n"
    title += "squares: synthetic layers of each phase; filled circles: layers that are in a phase"
    drawing, axes = grid(1, 2, title, (4.4, 3.9))
    points = {row["phase"]: (row["p"], row["q"]) for row in numbers["synthetic"]}
    for axis, trained in zip(axes[0], (False, True), strict=True):
        for name, (p, q) in points.items():
            axis.plot([p], [q], "s", color="#b4b9be", ms=5)
            axis.annotate(name, (p, q), textcoords="offset points", xytext=(4, 3), fontsize=7)
        for kind, color in zip(kinds, COLOURS, strict=False):
            own = [
                row for row in numbers["layers"]
                if (row["kind"], row["trained"]) == (kind, trained) and row["p"] is not None
            ]  # fmt: skip
            for row in own:
                label = kind if row is own[0] and not trained else None
                face = color if row["phase"] else "none"
                axis.plot([row["p"]], [row["q"]], "o", color=color, mfc=face, ms=4, label=label)
        plain_axis(axis, "trained" if trained else "untrained", legend=0 if trained else 6,
                   xlim=(-1.4, 2.6), ylim=(-1.4, 2.6), xlabel="p of H_a ~ z^p",
                   ylabel="q of G_b ~ z^q")  # fmt: skip
    return drawing


STUDY = Study(
    title="Phases: Table 1 on synthetic layers, the master theorem, layers of trained networks",
    source="Ziyin, Chuang et al. 2024, Theorem 2 and Table 1",
    paper="each scaling relationship can be a phase; −1 ≤ α, β, δ ≤ 3",
    minutes={"smoke": 0.1, "cpu": 7, "paper": 7},
    settings=presets(SETTINGS, smoke=SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "on synthetic layers of phases 4 to 9 and of the backward and the forward CRH "
            "exponents are those of the table (largest difference)",
            "the reciprocal polynomial relations of Table 1",
            collect("synthetic", label, "error"),
            lambda error: error <= EXACT,
            figure="Table 1",
            exact=True,
        ),
        Claim(
            "phases 1, 2 and 3 are possible only where Z is a multiple of a projection (spread of "
            "ln z)",
            "H̃⁰ ∝ Z̃ ∝ G̃⁰ in phases 1, 2, 3",
            collect("flat", label, "spread"),
            lambda spread: spread <= EXACT,
            figure="Table 1",
            exact=True,
        ),
        Claim(
            "two alignments of a side give the third (smallest cosine of the side)",
            "if any two forward (backward) alignments hold, all forward (backward) alignments hold",
            of_theorem("third", lambda row: len(row["relations"]) == 2 and not row["two_sides"]),
            lambda cosine: cosine >= 1 - EQUAL,
            figure="Theorem 2.1",
            exact=True,
        ),
        Claim(
            "one alignment of each side and any further one give all six (smallest cosine)",
            "if (any) one more relation holds, then all six alignments hold",
            of_theorem("smallest", lambda row: len(row["relations"]) == 3 and row["two_sides"]),
            lambda cosine: cosine >= 1 - EQUAL,
            figure="Theorem 2.3",
            exact=True,
        ),
        Claim(
            "all six alignments make H, G and Z multiples of a projection (spread of their "
            "spectra)",
            "E[hhᵀ] ∝ E[ggᵀ] ∝ Z ∝ P, where P is an orthogonal projection matrix",
            of_theorem("unevenness", lambda row: len(row["relations"]) == 3 and row["two_sides"]),
            lambda spread: spread <= EXACT,
            figure="Theorem 2.4",
            exact=True,
        ),
        Claim(
            "in trained networks fewer than half of the layers have all six alignments (share of "
            "those whose excess is certainly above 0.1)",
            "CRH is more like to be violated than hold",
            canonical,
            lambda share: share < 0.5,
        ),
    ),
    questions=(
        Question("Which phases are layers of trained networks in?", count(True), write_counts),
        Question("Before training, which phases are layers in?", count(False), write_counts),
        Question(
            "Which phases are nearest to layers without one?",
            lambda numbers: dict(
                Counter(
                    name_phase(row["nearest"]) for row in numbers["layers"]
                    if row["trained"] and not row["phase"] and row["nearest"]
                )
            ),
            write_counts,
        ),
    ),
    checks=(
        Check(
            "synthetic layers of every phase with a slope get its name",
            collect("synthetic", label, lambda row: int(row["label"] == row["phase"])),
            lambda right: right == 1,
        ),
        Check(
            "layers whose H and G are rotated at random get none",
            collect("rotated", "rotated", lambda row: int(row["label"] is None)),
            lambda none: none == 1,
        ),
    ),
    figure=figure,
    table=table,
    departures=networks.DEPARTURES,
)  # fmt: skip
