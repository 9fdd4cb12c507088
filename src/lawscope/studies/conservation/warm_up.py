"""SGD lowers the trace of the Hessian until a learning rate is stable that was not at the start.

``lawscope study run conservation/warm-up``: figure 3 of Ziyin et al. 2024. |u wᵀx − y|² with 24
inputs and outputs of unit variance, y = Vx + ε with V of rank one and norm 2 and unit noise, one
sample a step, 10 seeds. The stability condition S is Tr H = 2(|u|²TrΣ_x + d_y·wᵀΣ_x w), SGD being
stable in mean square where ηS < 2; the talk does not spell S out. Kaiming: variance 2/fan-in, so
that u is far larger than w; Xavier: 2/(fan-in + fan-out). S* is that of the noise equilibrium. The
sizes, which the talk does not give, were chosen on other seeds: with 8 to 16 inputs the large
rate throws some networks to a flatter place instead of diverging.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lawscope.lazy import np
from lawscope.studies.conservation._linear import (
    GD,
    SGD,
    Problem,
    descend,
    gaussian,
    trace_of_hessian,
)
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import collect, each_median, group_by, presets
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

KAIMING, XAVIER = "Kaiming", "Xavier"
SMALL, LARGE, WARM_UP = 0.001, 0.008, 5000
AT_ONCE, WARMED = "0.008 at once", "0.008 after 5000 steps at 0.001"
SETTINGS: dict[str, Any] = {
    "width": 24, "norm": 2.0, "steps": 40_000, "large": 10_000, "warm_up": WARM_UP, "every": 250,
    "seeds": 10,
}  # fmt: skip
SMOKE = {"steps": 200, "large": 100, "warm_up": 50, "every": 25, "seeds": 2}
NEAR = 0.05


def problem_of(settings: Any) -> Problem:
    width = settings["width"]
    u, w = np.random.default_rng(width).standard_normal((2, width))
    V = settings["norm"] * np.outer(u, w) / (np.linalg.norm(u) * np.linalg.norm(w))
    return gaussian(V, np.eye(width), np.eye(width))


def start(kind: str, width: int, seeds: int) -> list[Any]:
    """Return w and u of every seed."""
    fans = {KAIMING: (width, 1), XAVIER: ((width + 1) / 2,) * 2}[kind]
    drawn = [np.random.default_rng(seed).standard_normal((2, width)) for seed in range(seeds)]
    w, u = np.sqrt(2 / np.array(fans))[:, None, None] * np.array(drawn).swapaxes(0, 1)
    return [w[:, None, :], u[:, :, None]]


def measure(lab: Lab) -> Numbers:
    from lawscope.theory.equilibrium import deep_linear

    settings = lab.settings
    problem = problem_of(settings)
    best = deep_linear(problem.V, problem.inputs, problem.noise, 2).layers
    (star,) = trace_of_hessian(problem, *(each[None] for each in best))
    rates = {
        "0.001": [SMALL] * settings["steps"],
        AT_ONCE: [LARGE] * settings["large"],
        WARMED: [SMALL] * settings["warm_up"] + [LARGE] * settings["large"],
    }
    plans = [(SGD, kind, rate) for kind in (KAIMING, XAVIER) for rate in rates]
    plans += [(GD, kind, "0.001") for kind in (KAIMING, XAVIER)]
    rows = []
    for how, kind, rate in plans:
        lab.tell(f"{how}, {kind}, {rate}")
        steps, S, _ = descend(
            problem, start(kind, settings["width"], settings["seeds"]), rates[rate],
            lambda weights: trace_of_hessian(problem, *weights), settings["every"],
            np.random.default_rng(1) if how == SGD else None,
        )  # fmt: skip
        late = S[-max(1, len(S) // 5) :].mean(axis=0)
        for seed in range(settings["seeds"]):
            finite = bool(np.isfinite(S[:, seed]).all())
            rows.append({
                "how": how, "start": kind, "rate": rate, "seed": seed, "steps": steps,
                "S": [float(f"{v:.5g}") if np.isfinite(v) else None for v in S[:, seed]],
                "finite": float(finite), "end": float(late[seed]) if finite else None,
            })  # fmt: skip
    return {"rows": rows, "star": float(star)}


def at(how: str, start: str, rate: str, value: Any) -> Callable[[Numbers], dict[str, list[Any]]]:
    key = (how, start, rate)
    return collect("rows", f"{how}, {start}, {rate}", value,
                   where=lambda row: (row["how"], row["start"], row["rate"]) == key)  # fmt: skip


def over_equilibrium(*runs: tuple[str, str]) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return S at the end over that of the noise equilibrium."""

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        found = {}
        for how, kind in runs:
            (ends,) = at(how, kind, "0.001", "end")(numbers).values()
            found[f"{how}, {kind}"] = [end and end / numbers["star"] for end in ends]
        return found

    return read


def change(row: Numbers) -> float | None:
    """Return S at the end over S at the start."""
    return row["end"] and float(row["end"] / row["S"][0])


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 2, "The stability condition S = Tr H along training", (4.4, 3.0))
    panels = {"0.001": axes[0][0], AT_ONCE: axes[0][1], WARMED: axes[0][1]}
    shown = (r for r in numbers["rows"] if r["rate"] == "0.001" or r["start"] == KAIMING)
    for index, (run, own) in enumerate(group_by(shown, "how", "start", "rate").items()):
        for row in own:
            label = (run[2] if run[2] != "0.001" else ", ".join(run[:2])) if row is own[0] else None
            axis, style = panels[run[2]], "--" if run[0] == GD else "-"
            values = [float("nan") if v is None else v for v in row["S"]]
            axis.plot(row["steps"], values, style, color=COLOURS[index], lw=0.7, label=label)
    titles = ("lr 0.001", "Kaiming, SGD (lines end where it diverges)")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.axhline(numbers["star"], color="black", lw=1, ls=":", label="S*")
        plain_axis(axis, title, legend=7, yscale="log")
        axis.set_ylim(numbers["star"] / 4, 50 * numbers["star"])
    label_outside(axes, "step", "S")
    return drawing


STUDY = Study(
    title="Warm-up: SGD makes a learning rate stable that diverges at once",
    source="Ziyin et al. 2024, figure 3",
    paper="η = 0.008 diverges; after 5000 steps at 0.001 it does not; both inits reach one S",
    minutes={"smoke": 0.05, "cpu": 1, "paper": 1},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "SGD from Kaiming with lr 0.008 at once diverges (0: it does, 1: it does not)",
            "when the learning rate (0.008) is too large, SGD diverges",
            at(SGD, KAIMING, AT_ONCE, lambda row: int(row["finite"])),
            lambda finite: finite == 0,
        ),
        Claim(
            "after 5000 steps at 0.001, SGD from Kaiming with lr 0.008 does not diverge (0: it "
            "does, 1: it does not)",
            "the training remains stable",
            at(SGD, KAIMING, WARMED, lambda row: int(row["finite"])),
            lambda finite: finite == 1,
        ),
        Claim(
            "SGD from Kaiming at least halves S",
            "SGD training improves the stability condition",
            at(SGD, KAIMING, "0.001", change),
            lambda ratio: ratio <= 0.5,
        ),
        Claim(
            "gradient descent from Kaiming changes S by less than 25 %",
            "the stability condition of GD changes only slightly",
            at(GD, KAIMING, "0.001", change),
            lambda ratio: abs(ratio - 1) < 0.25,
        ),
        Claim(
            "SGD from Xavier changes S by less than 25 %",
            "that of SGD with a Xavier init increases only slightly",
            at(SGD, XAVIER, "0.001", change),
            lambda ratio: abs(ratio - 1) < 0.25,
        ),
        Claim(
            "SGD from Kaiming and from Xavier reach one S: within 5 % of the predicted one",
            "both converge to the same stability condition because the equilibrium is unique",
            over_equilibrium((SGD, KAIMING), (SGD, XAVIER)),
            lambda ratio: abs(ratio - 1) <= NEAR,
        ),
    ),
    questions=(
        Question(
            "Where does gradient descent end? (S over the predicted one)",
            over_equilibrium((GD, KAIMING), (GD, XAVIER)),
            each_median(),
        ),
    ),
    figure=figure,
)
