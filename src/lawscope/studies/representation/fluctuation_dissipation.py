"""Dissipation balances fluctuation: a particle, then the weights of a network under SGD.

``lawscope study run representation/fluctuation-dissipation``: the route to the hypothesis in Ziyin,
Chuang et al. 2024. First the Einstein relation of the overdamped particle. Then fully connected
networks without biases (100–64–64–64–64–10, ReLU and tanh) on 5000 images of Fashion-MNIST at 10×10
under SGD with a constant rate 0.05, batches of 16, weight decay 0.01: 10 000 steps, ten times the
relaxation time 1/(2ηλ), and another 8000 over which everything is averaged; after that 400 steps of
gradient descent on all images with rate 0.02, towards a local minimum. 3 seeds, from 10 on; the
settings were found on others. With a rate of 0.1 gradient descent is at the edge of stability and
never at rest; with decay 0.001 it would take ten times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from lawscope.formatting import number
from lawscope.lazy import np, torch
from lawscope.studies.datasets import ImageData, samples_of
from lawscope.studies.figures import COLOURS, grid, plain_axis
from lawscope.studies.panels import collect, each_median, medians, middle, presets, yes_or_no
from lawscope.studies.representation import _networks as networks
from lawscope.studies.representation._descent import Batches, begin
from lawscope.studies.representation._networks import RELU, TANH
from lawscope.studies.study import Check, Claim, Figure, Lab, Numbers, Question, Study

KINDS = (RELU, TANH)
HIDDEN_LAYERS = (1, 2, 3)
EINSTEIN, STATIONARY, EXACT = 0.01, 0.05, 1e-8
ALIGNED, FITS = 0.95, 0.1
SIDES = {"forward": "Z_b + c₁G_b = c₂H_b", "backward": "Z_a + c₃H_a = c₄G_a"}
SETTINGS: dict[str, Any] = {
    "per_class": 500, "batch": 16, "lr": 0.05, "decay": 0.01, "burn_in": 10_000, "steps": 8000,
    "descent_lr": 0.02, "descent": 400, "particles": 20_000, "times": 30.0,
    "frictions": [1.0, 1.0, 2.0, 0.5], "intervals": [0.01, 0.1, 0.25, 2.0], "seeds": 3,
}  # fmt: skip
SMOKE = {
    "per_class": 10, "burn_in": 5, "steps": 20, "descent": 5, "frictions": [1.0, 0.5],
    "intervals": [0.1, 2.0], "seeds": 1,
}  # fmt: skip


SMALLER = (
    "fully connected networks of 64 units on images of 10×10; Theorem 1 has assumptions that SGD "
    "need not meet"
)


def simulate(friction: float, step: float, seed: int, settings: Any) -> Numbers:
    """Simulate x ← (1 − μh)x + √(Dh) ξ with D = 1; return D over what two relations say."""
    from lawscope.theory.representation import einstein_diffusion

    rng = np.random.default_rng(seed)
    x = np.zeros(settings["particles"])
    steps = round(settings["times"] / friction / step)
    squares = 0.0
    for index in range(steps):
        x = (1 - friction * step) * x + np.sqrt(step) * rng.standard_normal(len(x))
        # The first third forgets where the particles began.
        squares += float(np.mean(x**2)) if index >= steps // 3 else 0.0
    moment = squares / (steps - steps // 3)
    return {
        "friction": friction, "step": friction * step, "seed": seed,
        "talk": 1 / (friction * moment),
        "exact": 1 / einstein_diffusion(friction, moment, step),
    }  # fmt: skip


def follow(kind: str, lab: Lab) -> list[Numbers]:
    """Train the networks of all seeds; return what is stationary about their hidden layers."""
    settings, seeds = lab.settings, list(networks.seeds_of(lab.settings))
    samples = samples_of(ImageData(per_class=settings["per_class"]))
    batches = Batches(samples.x, samples.y, seeds, settings["batch"])
    stack = begin(seeds, kind)
    rate, decay = settings["lr"], settings["decay"]
    for _ in range(settings["burn_in"]):
        stack.step(stack.look(*batches.draw()), rate, decay)
    before = [W @ W.mT for W in stack.weights]
    sums: list[dict[str, Any]] = [{} for _ in stack.weights]
    for _ in range(settings["steps"]):
        found = stack.look(*batches.draw())
        weights = list(stack.weights)
        moves = stack.step(found, rate, decay)
        for index in HIDDEN_LAYERS:
            W, F = weights[index], moves[index]
            moments = moments_of(W, found.inputs[index], found.gradients[index])
            for name, value in {**moments, "noise": F @ F.mT}.items():
                sums[index][name] = sums[index].get(name, 0) + value / settings["steps"]
    for index in HIDDEN_LAYERS:
        moved = stack.weights[index] @ stack.weights[index].mT - before[index]
        sums[index]["drift"] = moved / (rate * settings["steps"])
    everything = batches.all()
    descended = [float(v) for v in stack.look(*everything).loss]
    for _ in range(settings["descent"]):
        stack.step(stack.look(*everything), settings["descent_lr"], decay)
    found = stack.look(*everything)
    rows = []
    for at, seed in enumerate(seeds):
        for index in HIDDEN_LAYERS:
            ended = moments_of(stack.weights[index], found.inputs[index], found.gradients[index])
            rows.append(
                {
                    "kind": kind, "seed": seed, "layer": index + 1, "loss": descended[at],
                    **balance_of({n: v[at].numpy() for n, v in sums[index].items()}, rate, decay),
                    **{f"end_{name}": value for name, value in
                       minimum_of({n: v[at].numpy() for n, v in ended.items()}).items()},
                    "gradient": float(
                        torch.linalg.norm(ended["gradient"][at] + decay * stack.weights[index][at])
                        / torch.linalg.norm(decay * stack.weights[index][at])
                    ),
                }
            )  # fmt: skip
    return rows


def moments_of(W: Any, h: Any, g: Any) -> dict[str, Any]:
    """Return the matrices of a layer over the samples of a batch, of every network."""
    n, out = h.shape[2], W @ h
    return {
        "cross": g @ out.mT / n, "gradient": g @ h.mT / n,
        "Z_a": W.mT @ W, "H_a": h @ h.mT / n, "G_a": W.mT @ (g @ g.mT / n) @ W,
        "Z_b": W @ W.mT, "H_b": out @ out.mT / n, "G_b": g @ g.mT / n,
    }  # fmt: skip


def balance_of(means: dict[str, Any], rate: float, decay: float) -> Numbers:
    """Return how far averages over time are from the balances."""
    from lawscope.theory.representation import align, fit_stationary, fluctuation_dissipation

    C, Z = means["cross"], means["Z_b"]
    noise = {"learning_rate": rate, "noise": means["noise"]}
    symmetric = -(C + C.T) / 2
    return {
        "cosine": float(-(C * Z).sum() / np.linalg.norm(C) / np.linalg.norm(Z)),
        "with_noise": align(symmetric + rate * means["noise"] / 2, Z, "cosine"),
        "noise": float(np.linalg.norm(rate * means["noise"]) / np.linalg.norm(2 * decay * Z)),
        "residual": fluctuation_dissipation(C, Z, decay, **noise),
        "identity": fluctuation_dissipation(C, Z, decay, **noise, drift=means["drift"]),
        "forward": fit_stationary(Z, means["G_b"], means["H_b"]).residual,
        "backward": fit_stationary(means["Z_a"], means["H_a"], means["G_a"]).residual,
    }


def minimum_of(means: dict[str, Any]) -> Numbers:
    """Return the six alignments near a minimum, and −C against Z at one instant."""
    from lawscope.theory.representation import align, fit_stationary

    C, Z = means["cross"], means["Z_b"]
    pairs = {"RGA": ("H", "G"), "RWA": ("H", "Z"), "GWA": ("G", "Z")}
    found = {
        f"{side} {name}": align(means[f"{one}_{end}"], means[f"{other}_{end}"])
        for side, end in (("backward", "a"), ("forward", "b"))
        for name, (one, other) in pairs.items()
    }
    return {
        "cosine": float(-(C * Z).sum() / np.linalg.norm(C) / np.linalg.norm(Z)),
        "alignments": found,
        "forward": fit_stationary(Z, means["G_b"], means["H_b"]).residual,
        "backward": fit_stationary(means["Z_a"], means["H_a"], means["G_a"]).residual,
    }


def measure(lab: Lab) -> Numbers:
    particles = []
    for friction, step in zip(lab.settings["frictions"], lab.settings["intervals"], strict=True):
        lab.tell(f"particle with μh = {friction * step:g}")
        particles += [
            simulate(friction, step, seed, lab.settings) for seed in networks.seeds_of(lab.settings)
        ]
    rows = []
    for kind in KINDS:
        lab.tell(f"{kind} networks under SGD")
        rows += follow(kind, lab)
    return {"particles": particles, "layers": rows}


def of_layers(name: Any) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return a number of every hidden layer and seed, by activation."""
    return collect("layers", "{kind}", name)


def of_particles(name: Any, slow: bool = False) -> Callable[[Numbers], dict[str, list[Any]]]:
    return collect(
        "particles", "μh = {step:g}", name, where=lambda row: not slow or row["step"] <= 0.01
    )


def weakest(numbers: Numbers) -> dict[str, int]:
    """Return how often an alignment is the smallest near a minimum, the most frequent first."""
    alignments = (row["end_alignments"] for row in numbers["layers"])
    names = Counter(min(each, key=lambda name: each[name]) for each in alignments)
    return dict(names.most_common())


def both_sides(prefix: str) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return the residual of Theorem 1 of every layer, the larger of its two sides."""
    return of_layers(lambda row: max(row[prefix + side] for side in SIDES))


def table(numbers: Numbers) -> list[list[str]]:
    """Return the balances of every hidden layer, median over seeds."""
    names = {
        "cosine": "cos(−C, Z)", "with_noise": "with noise", "noise": "‖ηE[FFᵀ]‖/‖2λZ‖",
        "residual": "residual", "identity": "with drift", "forward": SIDES["forward"],
        "backward": SIDES["backward"], "end_forward": "forward, near a minimum",
        "end_backward": "backward, near a minimum",
    }  # fmt: skip
    rows = [["network", "layer", *names.values()]]
    for kind in KINDS:
        for layer in sorted({row["layer"] for row in numbers["layers"]}):
            own = [r for r in numbers["layers"] if (r["kind"], r["layer"]) == (kind, layer)]
            rows.append([kind, str(layer), *(number(middle(r[n] for r in own)) for n in names)])
    return rows


def figure(numbers: Numbers) -> Figure:
    drawing, ((einstein, balance, theorem),) = grid(1, 3, "Dissipation and fluctuation", (3.5, 2.9))
    for name, words, color in (
        ("talk", "D/(μ⟨x²⟩)", COLOURS[1]), ("exact", "D/(μ(2 − μh)⟨x²⟩)", COLOURS[0]),
    ):  # fmt: skip
        rows = numbers["particles"]
        x, y = [row["step"] for row in rows], [row[name] for row in rows]
        einstein.plot(x, y, "o", color=color, ms=4, label=words)
    plain_axis(einstein, "particle", legend=7, xscale="log", xlabel="μh")
    marks = {
        "cosine": "1 − cos(−C, Z)", "with_noise": "1 − cos(−C + noise, Z)",
        "residual": "residual of the balance",
    }  # fmt: skip
    for axis, names in (
        (balance, marks),
        (theorem, {"forward": SIDES["forward"], "backward": SIDES["backward"]}),
    ):
        for name, color in zip(names, COLOURS, strict=False):
            for row in numbers["layers"]:
                first = row is numbers["layers"][0]
                value = 1 - row[name] if names[name].startswith("1") else row[name]
                place = row["layer"] + (0.1 if row["kind"] == TANH else -0.1)
                style = "^" if row["kind"] == TANH else "o"
                label = names[name] if first else None
                axis.plot([place], [value], style, color=color, ms=4, label=label)
        axis.set_xticks(sorted({row["layer"] for row in numbers["layers"]}))
        axis.set_xlabel("layer (circles ReLU, triangles tanh)", fontsize=8)
    plain_axis(balance, "averages over time", yscale="log")
    # Room above the points for the legend.
    balance.set_ylim(top=10 * balance.get_ylim()[1])
    balance.legend(fontsize=7, frameon=False, loc="upper right")
    plain_axis(theorem, "Theorem 1: relative residual", legend=7)
    theorem.set_ylim(0, None)
    return drawing


STUDY = Study(
    title="Einstein's relation of a particle, and its like for the weights under SGD",
    source="Ziyin, Chuang et al. 2024, Theorem 1 and equation 8",
    paper="dissipation balances fluctuation; Z_b + c₁G_b = c₂H_b; at a minimum Z ∝ G ∝ H",
    minutes={"smoke": 0.05, "cpu": 3, "paper": 3},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "for noise ⟨ξ(t)ξ(t′)⟩ = 2δ(t − t′), D = μ⟨x²⟩ to 2 % (μh = 0.01; ratio)",
            "D = μ⟨x²⟩ (Einstein 1905)",
            of_particles(lambda row: row["talk"] / 2, slow=True),
            lambda ratio: abs(ratio - 1) <= 0.02,
            exact=True,
        ),
        Claim(
            "at stationarity dissipation balances fluctuation: E[g_b h_bᵀ + h_b g_bᵀ] + 2λZ_b = "
            "ηE[FFᵀ], averaged over time, the rest at most 0.05 of 2λZ_b",
            "at stationarity, the rate of dissipation must balance with the fluctuation",
            of_layers("residual"),
            lambda residual: residual <= STATIONARY,
        ),
        Claim(
            "averaged over time, cos(−E[g_b h_bᵀ], WWᵀ) is at least 0.95 in every hidden layer",
            "cov(g, h) is well aligned with WWᵀ",
            of_layers("cosine"),
            lambda cosine: cosine >= ALIGNED,
            figure="section C.7",
        ),
        Claim(
            "stationary: Z_b + c₁G_b = c₂H_b and Z_a + c₃H_a = c₄G_a with positive constants, the "
            "rest at most 0.1 of Z (larger of the two)",
            "there exist real-valued constants c₁ … c₄ > 0 such that",
            both_sides(""),
            lambda residual: residual <= FITS,
            figure="Theorem 1",
        ),
        Claim(
            "near a local minimum all six alignments are at least 0.9 (the smallest)",
            "if at a local minimum, WWᵀ ∝ E[g_b g_bᵀ] ∝ E[h_b h_bᵀ], WᵀW ∝ E[h_a h_aᵀ] ∝ "
            "E[g_a g_aᵀ]",
            of_layers(lambda row: min(row["end_alignments"].values())),
            lambda smallest: smallest >= 0.9,
            figure="equation 8",
        ),
    ),
    questions=(
        Question(
            "With unit noise, ⟨ξξ⟩ = δ, how large is D/(μ⟨x²⟩)?",
            of_particles("talk"),
            each_median(),
        ),
        Question(
            "How large is the noise ηE[FFᵀ] beside 2λZ?", of_layers("noise"), medians,
        ),
        Question(
            "Is −E[g_b h_bᵀ] + ηE[FFᵀ]/2 closer to Z than −E[g_b h_bᵀ]?",
            of_layers(lambda row: row["with_noise"] - row["cosine"]),
            yes_or_no(lambda difference: difference > 0),
        ),
        Question(
            "What is left of Theorem 1, averaged over time?", both_sides(""), medians,
        ),
        Question(
            "What is left of Theorem 1 near a local minimum?", both_sides("end_"), medians,
        ),
        Question(
            "Near a local minimum, how large is |∇ℓ + λW|/|λW|?", of_layers("gradient"), medians,
        ),
        Question(
            "Near a local minimum, is E[g_b h_bᵀ] aligned with WWᵀ (cosine at least 0.95)?",
            of_layers("end_cosine"),
            yes_or_no(lambda cosine: cosine >= ALIGNED),
        ),
        Question(
            "Which alignments are the weakest near a local minimum, in how many layers?",
            weakest,
            lambda found: ", ".join(
                f"{name} in {count} of {sum(found.values())}" for name, count in found.items()
            ),
        ),
    ),
    checks=(
        Check(
            "D = μ(2 − μh)⟨x²⟩ to 1 %",
            of_particles("exact"),
            lambda ratio: abs(ratio - 1) <= EINSTEIN,
        ),
        Check(
            "E[g_b h_bᵀ + h_b g_bᵀ] + 2λZ_b = ηE[FFᵀ] − drift, exactly (of 2λZ_b)",
            of_layers("identity"),
            lambda error: error <= EXACT,
        ),
    ),
    figure=figure,
    table=table,
    departures=dict.fromkeys(("cpu", "paper"), SMALLER),
)  # fmt: skip
