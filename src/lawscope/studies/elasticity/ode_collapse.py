"""Class means of the L-model turn into a simplex ETF if β < 0 has no finite integral.

``lawscope study run elasticity/ode-collapse``: the corollary on neural collapse of Zhang et al.
2021, and its figure of genuine logits. The LE-ODE of the L-model, exact, K = 2 to 10 and 3 random
starts; γ = α − β = 1/√t throughout. Beside it the class means of the networks of
``elasticity/estimation`` with K = 3: largest |cos + 1/2|, and the share of their energy in the
direction of the ETF. Logits are centred, as softmax does not see what is added to all of them.

U grows as e^{(A−B)/K}, what disturbs the ETF as e^{(A+B/(K−1))/K}: their ratio is e^{−B/(K−1)}, and
B = ∫β must go to −∞. With β = −1/t it does, and so slowly that t = 10⁴ does not show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.lazy import np
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import CIFAR_THREE, SHAPES, of_world, thinned
from lawscope.studies.figures import COLOURS, plain_axis, wrapped
from lawscope.studies.panels import Settings, collect, group_by, medians, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

WORLDS = (SHAPES, CIFAR_THREE)
BETAS: dict[str, Callable[[Any], Any]] = {
    "β = −0.1": lambda t: -0.1 + 0 * t,
    "β = −0.5/√t": lambda t: -0.5 * (1 + t) ** -0.5,
    "β = −1/t": lambda t: -1 / (1 + t),
    "β = −1/t²": lambda t: -((1 + t) ** -2.0),
    "β = 0": lambda t: 0 * t,
    "β = +0.1/t": lambda t: 0.1 / (1 + t),
}
DIVERGENT, INTEGRABLE = ("β = −0.1", "β = −0.5/√t"), ("β = −1/t²",)
ETF, NEAR = 0.01, 0.8
EARLY = 1000  # step
THEORY: dict[str, Any] = {"classes": [2, 3, 5, 10], "times": [0, 1, 10, 100, 1000, 10_000]}
LABEL = "K = {K}, {beta}"


def plan(settings: Settings) -> list[Training]:
    worlds = networks.worlds_of(settings)
    chosen = [worlds[name] for name in WORLDS if name in worlds]
    return [training for world in chosen for training in networks.trainings_of(settings, world)]


def measure(lab: Lab) -> Numbers:
    seeds = range(min(3, lab.settings["seeds"]))
    curves = [
        {"K": K, "beta": beta, "seed": seed, **collapse(lab.settings["times"], K, rate, seed)}
        for K in lab.settings["classes"]
        for beta, rate in BETAS.items()
        for seed in seeds
    ]
    worlds = networks.worlds_of(lab.settings)
    genuine = [
        {"world": name, "seed": training.seed, **logits_of(networks.trajectory_of(lab, training))}
        for name in WORLDS
        if name in worlds
        for training in networks.trainings_of(lab.settings, worlds[name])
    ]
    return {"curves": curves, "genuine": genuine}


def collapse(times: list[float], K: int, beta: Callable[[Any], Any], seed: int) -> Numbers:
    X0 = np.random.default_rng([seed, K]).standard_normal((K, K))
    sde = ls.ElasticSDE(
        lambda t: (1 + t) ** -0.5 + beta(t), beta, K, model="L", X0=X0 - X0.mean(axis=1)[:, None]
    )
    found = sde.collapse(times)
    return {"times": times, "error": found.error.tolist(), "spread": found.norm_spread.tolist()}


def logits_of(record: Numbers) -> Numbers:
    """Return how far genuine class means are from an ETF along training, and where they end."""
    from lawscope.theory.elastic_sde.model import directions, measure_collapse, own_logits

    means = record["means"] - record["means"].mean(axis=-1, keepdims=True)
    K = means.shape[-1]
    error = measure_collapse(means).error
    energy = own_logits(means).sum(axis=-1) ** 2 / (K - 1) / (means**2).sum(axis=(1, 2))
    at = int(np.argmin(np.abs(record["step"] - min(EARLY, record["step"][-1] / 4))))
    late = slice(-max(1, len(error) // 20), None)
    # Two axes of the plane in which centred logits of three classes lie.
    plane = np.linalg.svd(directions(K))[2][:2]
    return {
        "steps": thinned(record["step"]), "error": thinned(error), "energy": thinned(energy),
        "early": float(error[at]), "late": float(error[late].mean()),
        "late_energy": float(energy[late].mean()),
        "paths": [[thinned(axis) for axis in (means[:, k] @ plane.T).T] for k in range(K)],
    }  # fmt: skip


def last_error(betas: tuple[str, ...]) -> Callable[[Numbers], Any]:
    return collect("curves", LABEL, lambda row: row["error"][-1],
                   where=lambda row: row["beta"] in betas and row["K"] > 2)  # fmt: skip


def figure(numbers: Numbers) -> Figure:
    worlds = group_by(numbers["genuine"], "world")
    title = "Towards a simplex ETF"
    drawing, _, places = wrapped(2 + len(worlds), title, (4.0, 3.1), columns=2)
    theory, along = places[:2]
    for beta, color in zip(BETAS, COLOURS, strict=False):
        for row in (r for r in numbers["curves"] if r["beta"] == beta and r["K"] == 3):
            label = beta if row["seed"] == 0 else None
            theory.plot(row["times"][1:], row["error"][1:], "o-", color=color, ms=3, lw=1,
                        label=label)  # fmt: skip
    plain_axis(theory, "LE-ODE, L-model, K = 3", legend=7, xscale="log", yscale="log")
    for index, (world, rows) in enumerate(worlds.items()):
        for row in rows:
            label = world if row is rows[0] else None
            along.plot(row["steps"], row["error"], color=COLOURS[index], lw=0.8, label=label)
        axis = places[2 + index]
        for path, color in zip(rows[0]["paths"], COLOURS, strict=False):
            axis.plot(*path, color=color, lw=1)
            axis.plot([path[0][-1]], [path[1][-1]], "o", color=color, ms=4)
        axis.set_aspect("equal", "datalim")
        plain_axis(axis, f"{world}: mean logits in their plane\nerror {rows[0]['late']:.2f}")
    networks.steps_axis(along, "trained networks: max |cos + 1/2|", legend=7, ylim=(0, 2))
    theory.set_xlabel("t", fontsize=8.5)
    along.set_xlabel("step", fontsize=8.5)
    return drawing


def approaches(world: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{world}: genuine class means approach an ETF: max |cos + 1/2| at the end is under "
            "half of that at step 1000, and under 0.8 (over its bar, the larger of the two)",
            "logits tend to form equiangular tight frames",
            of_world("genuine", world,
                     lambda r: max(2 * r["late"] / r["early"], r["late"] / NEAR)),
            lambda ratio: ratio < 1,
            figure="figure 1",
        ),
    )  # fmt: skip


def genuine_by_world(name: str) -> Callable[[Numbers], dict[str, list[float]]]:
    return collect("genuine", "{world}", name)


STUDY = Study(
    title="L-model: an ETF if ∫β = −∞; do trained networks approach one?",
    source="Zhang et al. 2021, neural collapse of the LE-ODE, figure 1",
    paper="γ > 0 and β < 0 from some T on: normalised class means form an ETF",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 60},
    settings=networks.family_presets(THEORY, smoke={"classes": [3], "times": [0, 1, 10]}),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "with β < 0 whose integral diverges (constant, −1/√t) the largest |cos + 1/(K−1)| is "
            "under 0.01 at t = 10⁴",
            "forms an ETF as t → ∞",
            last_error(DIVERGENT),
            lambda error: error < ETF,
            exact=True,
        ),
        Claim(
            "with β < 0 whose integral is finite (−1/t²) the largest |cos + 1/(K−1)| is under 0.01 "
            "at t = 10⁴",
            "β(t) < 0 from some T on is enough",
            last_error(INTEGRABLE),
            lambda error: error < ETF,
            exact=True,
        ),
        *approaches(SHAPES),
        *approaches(CIFAR_THREE),
    ),
    questions=(
        Question("Without β < 0 (0, +0.1/t), is there an ETF?",
                 last_error(("β = 0", "β = +0.1/t")), yes_or_no(lambda error: error < ETF)),
        Question("Are genuine class means an ETF at the end (error under 0.1)?",
                 genuine_by_world("late"), yes_or_no(lambda error: error < 0.1)),
        Question("What share of the energy of genuine class means lies along the ETF?",
                 genuine_by_world("late_energy"), medians),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)  # fmt: skip
