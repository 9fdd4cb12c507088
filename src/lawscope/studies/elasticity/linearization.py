"""The talk's approximations, measured on trained networks: near the start they hold, late not.

``lawscope study run elasticity/linearization``: "Justifications for linearization" of Zhang et al.
2021, on the networks of ``elasticity/estimation`` at steps from 0 to the end, on 60 test images a
class. With φ_k the mean logits of class k, q_k = softmax(φ_k), J_k = diag(q_k) − q_k q_kᵀ,
Θ_kl = J̄_k J̄_lᵀ from the mean Jacobians, and D_k the change of φ_k per step and rate:

- decoupling: |(1/K) Σ_l Θ_kl (e_l − q_l) − D|/|D|;
- linearised: rms|softmax(X) − q − J(X − φ)| / rms|e − softmax(X)|;
- residue R = Ψ + Jφ, Ψ_k = e_k − q_k: constant near the start, |R − Ψ(u)|/|Ψ(u)| with
  Ψ(u)_k = e_k − 1/K, and vanishing late, |R|/|Ψ(u)|.

The derivative of e − softmax is −J, so the drift is Θ(−JX + R); equations (15) and (18) of the
slides as we can read them have +J. The bars come from a first run on other networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lawscope.lazy import Tensor, nn, torch
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import of_world
from lawscope.studies.elasticity.emergence import WORLDS, plan
from lawscope.studies.figures import COLOURS, label_outside, legend_below, plain_axis, wrapped
from lawscope.studies.panels import each_median, group_by, medians, middle
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study

PLATEAU = 0.99  # of ln K: the loss before anything is learned
CONVERGED = 0.01
NAMES = {
    "decoupled": "decoupling, relative error",
    "linear": "linearised softmax, relative error",
    "constant": "residue against its first value",
    "residue": "size of the residue",
    "share": "|R|/|Jφ|",
}


def measure(lab: Lab) -> Numbers:
    rows = []
    for name, world in networks.with_checkpoints(lab.settings, WORLDS).items():
        for training in networks.trainings_of(lab.settings, world):
            lab.tell(f"{name}, seed {training.seed}")
            run = lab.run(training)
            x, y = networks.probe_of(run.samples, lab.settings["images"])
            for step in sorted(training.kept):
                found = approximate(run.network(step).double(), x.double(), y)
                rows.append({"world": name, "seed": training.seed, "step": step, **found})
    return {"steps": rows}


def approximate(model: nn.Module, x: Tensor, y: Tensor) -> Numbers:
    """Return the errors of the approximations on images x with as many of each class."""
    logits = model(x)
    K = logits.shape[1]
    own = nn.functional.one_hot(y, K).to(logits)
    means = (own / own.sum(dim=0)).T @ logits  # φ, (K, K)
    weights = list(model.parameters())

    def slopes(value: Tensor) -> Tensor:
        found = torch.autograd.grad(value, weights, retain_graph=True)
        return torch.cat([each.flatten() for each in found])

    jacobian = torch.stack([slopes(value) for value in means.flatten()])  # (K·K, weights)
    D = -jacobian @ slopes(nn.functional.cross_entropy(logits, y))
    theta = jacobian @ jacobian.T
    X, phi = logits.detach(), means.detach()
    q, p, eye = (
        nn.functional.softmax(phi, dim=1),
        nn.functional.softmax(X, dim=1),
        torch.eye(K).to(X),
    )
    J = torch.diag_embed(q) - q[:, :, None] * q[:, None, :]
    psi, flat = eye - q, eye - 1 / K
    moved = torch.einsum("kij,kj->ki", J, phi)
    R = psi + moved
    linear = q[y] + torch.einsum("nij,nj->ni", J[y], X - phi[y])

    def drift_error(force: Tensor) -> float:
        return float((theta @ force.flatten() / K - D).norm() / D.norm())

    return {
        "loss": float(nn.functional.cross_entropy(X, y)),
        "decoupled": drift_error(psi),
        "other_sign": drift_error(R + moved),
        "linear": float((p - linear).norm() / (own - p).norm()),
        "constant": float((R - flat).norm() / flat.norm()),
        "residue": float(R.norm() / flat.norm()),
        "share": float(R.norm() / moved.norm()),
    }


def worst(world: str, name: str, stage: Callable[[Numbers], bool]) -> Callable[[Numbers], Any]:
    """Return the largest number of each network in a stage of its training."""

    def read(numbers: Numbers) -> dict[str, list[float]]:
        of_world("steps", world, name)(numbers)
        found: dict[int, list[float]] = {}
        for row in numbers["steps"]:
            if row["world"] == world and stage(row):
                found.setdefault(row["seed"], []).append(row[name])
        if not found:
            raise NotTried("no network is in this stage at a step kept")
        return {world: [max(values) for values in found.values()]}

    return read


def early(row: Numbers) -> bool:
    return bool(row["loss"] > PLATEAU * math.log(3))


def late(row: Numbers) -> bool:
    return bool(row["loss"] < CONVERGED)


def at_the_end(name: str) -> Callable[[Numbers], dict[str, list[float]]]:
    def read(numbers: Numbers) -> dict[str, list[float]]:
        worlds = group_by(numbers["steps"], "world").items()
        last = {world: max(row["step"] for row in rows) for world, rows in worlds}
        return {w: [r[name] for r in rows if r["step"] == last[w]] for w, rows in worlds}

    return read


def figure(numbers: Numbers) -> Figure:
    title = "Approximations along training: networks (dots) and their median (lines)"
    drawing, axes, places = wrapped(len(NAMES), title, (3.1, 2.6))
    worlds = group_by(numbers["steps"], "world")
    for axis, (name, words) in zip(places, NAMES.items(), strict=True):
        for (world, rows), color in zip(worlds.items(), COLOURS, strict=False):
            for row in rows:
                axis.plot([row["loss"]], [row[name]], "o", color=color, ms=2.5, alpha=0.6)
            steps = sorted({row["step"] for row in rows})
            line = [
                [middle(r[key] for r in rows if r["step"] == step) for step in steps]
                for key in ("loss", name)
            ]
            axis.plot(*line, color=color, lw=1, label=world)
        plain_axis(axis, words, xscale="log", yscale="log")
        axis.invert_xaxis()
    label_outside(axes, "loss (falls to the right)", "")
    legend_below(drawing)
    return drawing


def claims_of(world: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{world}: decoupling is off by less than 5 % near the start (loss above 0.99 ln 3)",
            "decoupling in an expectation",
            worst(world, "decoupled", early),
            lambda error: error < 0.05,
        ),
        Claim(
            f"{world}: the linearised softmax is off by less than 0.1 % near the start (loss above "
            "0.99 ln 3)",
            "linearised around the mean",
            worst(world, "linear", early),
            lambda error: error < 0.001,
        ),
        Claim(
            f"{world}: the residue is constant to 1 % near the start (loss above 0.99 ln 3)",
            "around initialisation: constant residue",
            worst(world, "constant", early),
            lambda error: error < 0.01,
        ),
        Claim(
            f"{world}: at convergence (loss under 0.01) the residue is under 1 % of the first",
            "around convergence: vanishing residue",
            worst(world, "residue", late),
            lambda size: size < 0.01,
        ),
    )


STUDY = Study(
    title="Decoupled, linearised drift: exact near the start, relative errors → 1 late",
    source="Zhang et al. 2021, justifications for linearization",
    paper="the drift decouples and is linear; the residue is constant early and vanishes late",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 60},
    settings=networks.family_presets({"images": 60}, smoke={"images": 10}),
    plan=plan,
    measure=measure,
    claims=tuple(claim for world in WORLDS for claim in claims_of(world)),
    questions=(
        Question("How large is the relative error of decoupling at the end?",
                 at_the_end("decoupled"), medians),
        Question("How large is the relative error of the linearised softmax at the end?",
                 at_the_end("linear"), medians),
        Question("How large is the residue at the end, of its first value?",
                 at_the_end("residue"), medians),
        Question("How large is the residue beside the linear term, |R|/|Jφ|, at the end?",
                 at_the_end("share"), medians),
        Question(
            "With +J, as the slides seem to have it, how far off is the drift, over all steps?",
            lambda numbers: {"other sign": [row["other_sign"] for row in numbers["steps"]],
                             "−J": [row["decoupled"] for row in numbers["steps"]]},
            each_median(),
        ),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)  # fmt: skip
