"""SGD drives the sharpness up or down, by the inputs, the noise and the start; both predicted.

``lawscope study run conservation/sharpness``: |u wᵀx − y|² of Ziyin et al. 2024, y = u*w*ᵀx + ε
with 4 inputs and 3 outputs. Networks begin at a global minimum: at the flattest (least Tr H), and
with u times e^{±0.7} and w times e^{∓0.7}. Inputs have equal or unequal variances; noise is equal
in all outputs, or ten times as strong along u*, or across it. Predicted: Tr H and the largest
eigenvalue of H at the noise equilibrium over those at the start. SGD takes one sample a step, 5
seeds; ends are means over the last fifth of the steps. With equal noise the equilibrium *is* the
flattest minimum; other noise drives networks away from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lawscope.lazy import np
from lawscope.studies.conservation._linear import Problem, descend, gaussian, trace_of_hessian
from lawscope.studies.figures import COLOURS, grid, label_outside, legend_below, plain_axis
from lawscope.studies.panels import collect, each_median, presets, yes_or_no
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

INPUTS = {"equal inputs": (0.25, 0.25, 0.25, 0.25), "unequal inputs": (0.7, 0.2, 0.05, 0.05)}
NOISES = {"equal noise": 1.0, "noise along u": 10.0, "noise across u": 0.1}
STARTS = {"flattest": 0.0, "u large": 0.7, "w large": -0.7}
LABEL = "{inputs}, {noise}, {start}"
MOVES, NEAR = 0.1, 0.1
SETTINGS: dict[str, Any] = {"lr": 0.01, "steps": 40_000, "points": 40, "seeds": 5}
SMOKE = {"steps": 200, "points": 5, "seeds": 1}


def problem_of(inputs: str, noise: str) -> Problem:
    """Return y = u*w*ᵀx + ε; the noise has trace 3 and this many times the variance along u*."""
    u, w = np.array([1.0, 1.0, 0.5]), np.array([1.0, -0.5, 1.0, 0.5])
    along = np.outer(u, u) / (u @ u)
    covariance = NOISES[noise] * along + np.eye(3) - along
    return gaussian(np.outer(u, w), np.diag(INPUTS[inputs]), 3 * covariance / np.trace(covariance))


def flattest(problem: Problem) -> list[Any]:
    """Return w and u of the minimum with the least Tr H, the equilibrium of equal noise."""
    from lawscope.theory.equilibrium import deep_linear

    return list(deep_linear(problem.V, problem.inputs, np.eye(len(problem.V)), 2).layers)


def largest_eigenvalue(problem: Problem, w: Any, u: Any) -> Any:
    """Return the largest eigenvalue of 2E[JJᵀ], the Hessian at a minimum, of every network.

    J of output i is (wᵀx e_i, u_i x), so that blocks are wᵀΣw·I, u(Σw)ᵀ and |u|²Σ.
    """
    outgoing, incoming = u.shape[1], w.shape[2]
    row, column = w[:, 0], u[:, :, 0]
    H = np.zeros((len(w), outgoing + incoming, outgoing + incoming))
    seen = row @ problem.inputs
    H[:, :outgoing, :outgoing] = np.einsum("ri,ri->r", seen, row)[:, None, None] * np.eye(outgoing)
    H[:, :outgoing, outgoing:] = column[:, :, None] * seen[:, None, :]
    H[:, outgoing:, :outgoing] = H[:, :outgoing, outgoing:].swapaxes(1, 2)
    H[:, outgoing:, outgoing:] = (column**2).sum(axis=1)[:, None, None] * problem.inputs
    return 2 * np.linalg.eigvalsh(H)[:, -1]


def measure(lab: Lab) -> Numbers:
    from lawscope.theory.equilibrium import deep_linear

    settings, rows = lab.settings, []
    seeds, every = settings["seeds"], settings["steps"] // settings["points"]
    late = max(1, settings["points"] // 5)
    for inputs in INPUTS:
        for index, noise in enumerate(NOISES):
            lab.tell(f"{inputs}, {noise}")
            problem = problem_of(inputs, noise)

            def observe(weights: list[Any], problem: Problem = problem) -> Any:
                sharpness = (trace_of_hessian(problem, *weights),
                             largest_eigenvalue(problem, *weights))  # fmt: skip
                return np.stack(sharpness, axis=-1)

            best = deep_linear(problem.V, problem.inputs, problem.noise, 2).layers
            (star,) = observe([each[None] for each in best])
            w, u = flattest(problem)
            scales = np.exp(np.repeat(list(STARTS.values()), seeds))[:, None, None]
            rng = np.random.default_rng([index, len(inputs)])
            steps, found, _ = descend(
                problem, [w / scales, u * scales], [settings["lr"]] * settings["steps"], observe,
                every, rng,
            )  # fmt: skip
            for run, start in enumerate(np.repeat(list(STARTS), seeds)):
                first, end = found[0, run], found[-late:, run].mean(axis=0)
                rows.append({
                    "inputs": inputs, "noise": noise, "start": str(start), "seed": run % seeds,
                    "steps": steps, "path": np.round(found[:, run, 0], 4).tolist(),
                    "star": float(star[0]), "trace": float(end[0] / first[0]),
                    "trace_predicted": float(star[0] / first[0]),
                    "largest": float(end[1] / first[1]),
                    "largest_predicted": float(star[1] / first[1]),
                })  # fmt: skip
    return {"rows": rows}


def moves(row: Numbers) -> bool:
    """Return whether a change of more than 10 % is predicted."""
    return abs(math.log(row["trace_predicted"])) > MOVES


def off(name: str) -> Callable[[Numbers], float]:
    """Return the relative error of a prediction."""
    return lambda row: float(row[name] / row[f"{name}_predicted"] - 1)


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(len(INPUTS), len(NOISES), "Tr H under SGD; dashed: predicted", (2.9, 2.3))
    for line, inputs in zip(axes, INPUTS, strict=True):
        for axis, noise in zip(line, NOISES, strict=True):
            own = [r for r in numbers["rows"] if (r["inputs"], r["noise"]) == (inputs, noise)]
            for start, color in zip(STARTS, COLOURS, strict=False):
                for row in (r for r in own if r["start"] == start):
                    label = start if row["seed"] == 0 else None
                    axis.plot(row["steps"], row["path"], color=color, lw=0.7, label=label)
            axis.axhline(own[0]["star"], color="black", lw=1, ls="--")
            plain_axis(axis, f"{inputs}, {noise}")
    label_outside(axes, "step", "Tr H")
    legend_below(drawing)
    return drawing


STUDY = Study(
    title="SGD drives the sharpness up or down, as the noise equilibrium predicts",
    source="Ziyin et al. 2024, sharpness",
    paper="SGD can drive the sharpness both up and down, depending on Σ_x, Σ_ε and the start",
    minutes={"smoke": 0.05, "cpu": 1, "paper": 1},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "where the equilibrium is sharper than the start by 10 % or more, Tr H rises (end over "
            "start)",
            "SGD can drive the sharpness up",
            collect("rows", LABEL, "trace", where=lambda r: moves(r) and r["trace_predicted"] > 1),
            lambda ratio: ratio > 1,
        ),
        Claim(
            "where the equilibrium is flatter than the start by 10 % or more, Tr H falls (end over "
            "start)",
            "and down",
            collect("rows", LABEL, "trace", where=lambda r: moves(r) and r["trace_predicted"] < 1),
            lambda ratio: ratio < 1,
        ),
        Claim(
            "Tr H ends within 10 % of the predicted value (relative error)",
            "depending on Σ_x, Σ_ε and the start",
            collect("rows", LABEL, off("trace")),
            lambda error: abs(error) <= NEAR,
        ),
    ),
    questions=(
        Question(
            "Does the largest eigenvalue of H end within 10 % of its prediction too?",
            collect("rows", LABEL, off("largest")),
            yes_or_no(lambda error: abs(error) <= NEAR),
        ),
        Question(
            "From the flattest minimum, by how much does Tr H change? (end over start)",
            collect("rows", "{noise}", "trace", where=lambda row: row["start"] == "flattest"),
            each_median(),
        ),
    ),
    figure=figure,
)
