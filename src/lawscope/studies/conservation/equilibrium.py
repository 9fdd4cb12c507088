"""SGD from every initialisation meets at one charge; gradient descent keeps what it began with.

``lawscope study run conservation/equilibrium``: the example (uwx − y)² of Ziyin et al. 2024, with
y = 1 as on the slide and with y = 2x + ε, and rank-one maps with inputs and noise of unequal
variance: C* = |w|² − |u|² from ``theory.equilibrium``. Three starts, u e^{s} and w e^{−s} times
random numbers with s = −1, 0, 1, of each of 5 seeds; C at the end is its mean over the last fifth
of the steps. Steps and rates were tried on other seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lawscope.lazy import np
from lawscope.studies.conservation._linear import GD, SGD, Problem, charge, descend, gaussian
from lawscope.studies.figures import COLOURS, grid, label_outside, legend_below, plain_axis
from lawscope.studies.panels import brief, collect, group_by, medians, presets
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

SLIDE, SCALAR = "(uwx − 1)²", "(uwx − y)²"
VECTOR, MATRIX = "(u·wᵀx − y)²", "|u wᵀx − y|²"
STARTS = (-1.0, 0.0, 1.0)
NEAR, KEPT = 0.05, 0.9
SETTINGS: dict[str, Any] = {"lr": 0.01, "steps": 60_000, "points": 60, "seeds": 5}
SMOKE = {"steps": 600, "points": 6, "seeds": 1}
LABEL = "{problem}"


def problems() -> dict[str, tuple[Problem, float]]:
    """Return each problem with C* = |w|² − |u|²."""
    from lawscope.theory.equilibrium import deep_linear, rank_one

    def draw(n: int, rng: np.random.Generator) -> Any:
        return rng.standard_normal((n, 1)), np.ones((n, 1))

    # y = 1 is all noise: the best map is 0, and so is the only balanced point.
    slide = Problem(np.zeros((1, 1)), np.eye(1), np.eye(1), draw)
    beta, inputs = np.array([[1.5, 0.5, -0.5]]), np.diag([1.0, 0.5, 0.25])
    output, noise = np.array([[1.0], [0.5]]), np.diag([1.0, 0.2])
    V = output @ beta
    two = deep_linear(V, inputs, noise, 2).norms
    return {
        SLIDE: (slide, 0.0),
        SCALAR: (gaussian([[2.0]], np.eye(1), np.eye(1)), rank_one([2.0], np.eye(1)).charge),
        VECTOR: (gaussian(beta, inputs, np.eye(1)), rank_one(beta[0], inputs).charge),
        MATRIX: (gaussian(V, inputs, noise), float(two[0] ** 2 - two[1] ** 2)),
    }


def measure(lab: Lab) -> Numbers:
    settings, rows = lab.settings, []
    every = settings["steps"] // settings["points"]
    late = max(1, settings["points"] // 5)
    for name, (problem, star) in problems().items():
        for seed in range(settings["seeds"]):
            rng = np.random.default_rng([seed, len(name)])
            layers = starts(problem, rng)
            for how in (SGD, GD):
                lab.tell(f"{name}, {how}, seed {seed}")
                steps, C, _ = descend(
                    problem, layers, [settings["lr"]] * settings["steps"],
                    lambda weights: charge(*weights), every, rng if how == SGD else None,
                )  # fmt: skip
                size = sum((each**2).sum(axis=(1, 2)) for each in layers)
                rows.append({
                    "problem": name, "how": how, "seed": seed, "star": star,
                    "steps": steps, "charges": np.round(C.T, 6).tolist(), "size": size.tolist(),
                    "end": C[-late:].mean(axis=0).tolist(),
                })  # fmt: skip
    return {"rows": rows}


def starts(problem: Problem, rng: Any) -> list[Any]:
    """Return w and u at the starts, w·e^{−s} and u·e^{s}, each (starts, …)."""
    outputs, inputs = problem.V.shape
    scales = np.exp(STARTS)[:, None, None]
    # Away from 0, which is a saddle.
    w, u = (rng.choice([-1, 1], n) * rng.uniform(0.7, 1.3, n) for n in (inputs, outputs))
    return [w[None, None] / scales, u[None, :, None] * scales]


def distances(row: Numbers) -> list[float]:
    """Return |C − C*| at the end over |θ|² at the start, of every start."""
    return [abs(C - row["star"]) / size for C, size in zip(row["end"], row["size"], strict=True)]


def spread_left(row: Numbers) -> float:
    """Return the range of C over the starts, at the end over that at the beginning."""
    first = [each[0] for each in row["charges"]]
    return float((max(row["end"]) - min(row["end"])) / (max(first) - min(first)))


def by(how: str, value: Callable[[Numbers], Any]) -> Callable[[Numbers], dict[str, list[Any]]]:
    return collect("rows", LABEL, value, where=lambda row: row["how"] == how)


def figure(numbers: Numbers) -> Figure:
    problems_ = group_by(numbers["rows"], "problem")
    drawing, axes = grid(2, len(problems_), "Charges from three starts", (2.8, 2.3))
    for line, how in zip(axes, (SGD, GD), strict=True):
        for axis, (name, rows) in zip(line, problems_.items(), strict=True):
            own = [row for row in rows if row["how"] == how]
            for row in own:
                for values, color, s in zip(row["charges"], COLOURS, STARTS, strict=False):
                    label = f"from u e^s, w e^−s, s = {brief(int(s))}" if row is own[0] else None
                    axis.plot(row["steps"], values, color=color, lw=0.7, label=label)
            axis.axhline(own[0]["star"], color="black", lw=1, ls="--", label="predicted C*")
            plain_axis(axis, f"{name}, {how}", yscale="symlog")
            axis.locator_params("x", nbins=4)
    label_outside(axes, "step", "|w|² − |u|²")
    legend_below(drawing, ncols=4)
    return drawing


STUDY = Study(
    title="SGD from all initialisations meets at the predicted charge, gradient descent does not",
    source="Ziyin et al. 2024, theorem 4.3",
    paper="a unique and attractive fixed point under SGD; under GD C is conserved",
    minutes={"smoke": 0.05, "cpu": 2, "paper": 2},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "SGD ends at the predicted C*: |C − C*| is at most 5 % of |θ|² at the start, from "
            "every start",
            "a unique and attractive λ* for every exponential symmetry",
            by(SGD, distances),
            lambda distance: distance <= NEAR,
        ),
        Claim(
            "SGD forgets its start: the range of C over the starts falls to 5 % or less",
            "under SGD solutions are independent of initialisation",
            by(SGD, spread_left),
            lambda left: left <= NEAR,
        ),
        Claim(
            "gradient descent does not forget its start: at least 90 % of the range of C over the "
            "starts is left",
            "under GD the learned solution is dependent on the initialisation",
            by(GD, spread_left),
            lambda left: left >= KEPT,
        ),
    ),
    questions=(
        Question(
            "How far from C* does gradient descent end? (|C − C*| over |θ|² at the start)",
            by(GD, distances),
            medians,
        ),
    ),
    figure=figure,
)
