"""When samples of the LE-SDE become linearly separable: above γ = 1/t, and under which conditions.

``lawscope study run elasticity/separation-theorem``: the separation theorem of Zhang et al. 2021.
K = p = 3, variance of the noise 1/4, class means that begin as standard normal numbers, 50 samples
a class, the drift of class means, T up to 10⁴; the I-model, the L-model, and random similarity
matrices H with unit diagonal of rank 9 and 2, each with β = 0, γ, −γ/3. Random numbers: 4 models
of each kind with 5 draws each, 3 seeds. Every pair of classes goes through a linear program;
nothing is trained.

γ = 0.3/(t ln t) stands for o(1/t): with 2/(t ln t) and β = γ the share of separable pairs falls
only like (ln t)^c/√t and is not small at any T that can be simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import lawscope as ls
from lawscope.lazy import np
from lawscope.studies.figures import COLOURS, label_outside, plain_axis, wrapped
from lawscope.studies.panels import collect, each_median, presets, yes_or_no
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

K = 3
NOISE = 0.25
FAST, SLOW = "1/√t", "0.3/(t ln t)"
KINDS = ("I-model", "L-model", "H of rank 9", "H of rank 2", "H well conditioned")
BETAS = {"β = 0": 0.0, "β = γ": 1.0, "β = −γ/3": -1 / 3}
# Part of the theorem that a constant β breaks, H, γ, β.
BREAKERS = (
    (1, "H well conditioned", FAST, -0.1),
    (2, "H of rank 9", SLOW, 0.02),
    (2, "L-model", SLOW, 0.02),
)
LABEL = "{kind}, {beta}"
MOST, LEAST = 0.95, 0.05
SETTINGS: dict[str, Any] = {
    "times": [10, 100, 1000, 10_000], "n": 50, "models": 4, "draws": 5,
    "sizes": [2, 4, 8, 16, 50], "late": 1_000_000, "seeds": 3,
}  # fmt: skip
SMOKE = {
    "times": [10, 100], "n": 10, "models": 1, "draws": 2, "sizes": [4], "late": 1000, "seeds": 1,
}  # fmt: skip
# H, X₀, times, n, random numbers → samples (times, n, K, p).
Draw = Callable[..., Any]


# γ(t), and its integral from 0.
GAMMAS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    FAST: (lambda t: (1 + t) ** -0.5, lambda t: 2 * math.sqrt(1 + t) - 2),
    SLOW: (lambda t: slow(t), lambda t: 0.3 * math.log(math.log(t + math.e))),
}


def slow(t: Any, scale: float = 0.3) -> Any:
    return scale / ((t + math.e) * np.log(t + math.e))


def similarity(kind: str, rng: np.random.Generator) -> Any:
    """Return H of a kind: the model's letter, or a random one with unit diagonal."""
    if kind.endswith("model"):
        return kind[0]
    rank = 2 if kind.endswith("2") else K * K
    factors = rng.standard_normal((K * K, rank))
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    H = factors @ factors.T
    # The smallest eigenvalue of a random H is near zero, and its direction hides what β does.
    return 0.6 * H + 0.4 * np.eye(K * K) if kind.endswith("conditioned") else H


def fastest(H: Any) -> float:
    """Return the largest eigenvalue of the blocks on the diagonal of H."""
    if isinstance(H, str):
        return 1.0
    blocks = H.reshape(K, K, K, K)
    return float(max(np.linalg.eigvalsh(blocks[k, :, k]).max() for k in range(K)))


def measure(lab: Lab) -> Numbers:
    return {
        "rows": [row for seed in range(lab.settings["seeds"]) for row in rows_of(lab, seed)],
        "sizes": [row for seed in range(lab.settings["seeds"]) for row in by_size(lab, seed)],
    }


def rows_of(lab: Lab, seed: int) -> list[Numbers]:
    """Return the share of separable draws and pairs over time, in all settings."""
    found = []
    for kind in KINDS[:-1]:
        for beta, factor in BETAS.items():
            # A common drift that outgrows all differences leaves no digits for them.
            if kind == "I-model" and factor > 0:
                continue
            for part, (gamma, (_, integral)) in enumerate(GAMMAS.items(), 1):
                row = {"kind": kind, "beta": beta, "gamma": gamma, "part": part, "seed": seed}
                found.append(row | shares(lab, seed, kind, proportional(factor, integral)))
    for part, kind, gamma, steady in BREAKERS:
        row = {
            "kind": kind,
            "beta": f"β = {steady:+g}".replace("-", "−"),
            "gamma": gamma,
            "part": 0,
            "breaks": part,
        }
        draw = constant(GAMMAS[gamma][0], steady)
        found.append({**row, "seed": seed, **shares(lab, seed, kind, draw)})
    for kind in ("I-model", "H of rank 9"):
        for times in (2.0, 1.0, 0.5):
            row = {"kind": kind, "beta": "β = 0", "gamma": f"{times:g}·c*/t", "part": 3}
            found.append({**row, "seed": seed, **shares(lab, seed, kind, border(times))})
    return found


def shares(lab: Lab, seed: int, kind: str, draw: Draw) -> Numbers:
    """Return the mean shares over models of one kind, at every time."""
    from lawscope.theory.elastic_sde.separability import count_separable

    settings = lab.settings
    times, n, draws = (settings[name] for name in ("times", "n", "draws"))
    lab.tell(f"{kind}, seed {seed}")
    found = []
    for index in range(settings["models"]):
        rng = np.random.default_rng([seed, index, KINDS.index(kind)])
        H = similarity(kind, rng)
        samples = draw(H, rng.standard_normal((K, K)), times, n * draws, rng)
        counts = [count_separable(each.reshape(draws, n, K, K)) for each in samples]
        found.append([[each.probability, each.pairs] for each in counts])
    probability, pairs = np.array(found).mean(axis=0).T
    return {"probability": probability.tolist(), "pairs": pairs.tolist(), "times": times}


def proportional(factor: float, integral: Callable[[float], float]) -> Draw:
    """Draw samples where β = factor·γ: M(t) = γ(t)·C, so that means are exp(∫γ·C)X₀."""

    def draw(H: Any, X0: Any, times: Sequence[float], n: int, rng: np.random.Generator) -> Any:
        from scipy.linalg import expm

        C = ls.ElasticSDE(1 + factor, factor, K, model=H).matrix(0.0)
        means = np.stack([(expm(integral(t) * C) @ X0.ravel()).reshape(K, K) for t in times])
        steps = np.sqrt(NOISE * np.array(times, dtype=float))[:, None, None, None]
        return means[:, None] + steps * rng.standard_normal((len(times), n, K, K))

    return draw


def border(times: float) -> Draw:
    """Draw samples with γ = c/(1+t), c being so many times c* = K/2 over the largest eigenvalue."""

    def draw(H: Any, *rest: Any) -> Any:
        c = times * K / (2 * fastest(H))
        return proportional(0.0, lambda t: c * math.log(1 + t))(H, *rest)

    return draw


def constant(gamma: Callable[[Any], Any], beta: float) -> Draw:
    """Draw samples with a constant β."""

    def draw(H: Any, X0: Any, times: Sequence[float], n: int, rng: np.random.Generator) -> Any:
        sde = ls.ElasticSDE(lambda t: gamma(t) + beta, beta, K, model=H, noise=NOISE, X0=X0)
        return sde.sample(times, n, rng)

    return draw


def by_size(lab: Lab, seed: int) -> list[Numbers]:
    """Return the share of separable pairs late, by samples a class: I-model, γ = 2/(t ln t)."""
    rng = np.random.default_rng([seed, len(KINDS)])
    X0, settings = rng.standard_normal((K, K)), lab.settings
    sde = ls.ElasticSDE(lambda t: slow(t, 2.0), 0.0, K, model="I", noise=NOISE, X0=X0)
    late, draws = settings["late"], settings["models"] * settings["draws"]
    return [
        {"n": n, "seed": seed, "pairs": sde.separable(late, n, draws, rng).pairs}
        for n in settings["sizes"]
    ]


def last(name: str) -> Callable[[Numbers], float]:
    return lambda row: float(row[name][-1])


def is_border(found: dict[str, list[float]]) -> str:
    above = [v for label, values in found.items() if "= 2·" in label for v in values]
    below = [v for label, values in found.items() if "= 0.5·" in label for v in values]
    return "yes" if min(above) > 0.9 and max(below) < LEAST else "no"


def figure(numbers: Numbers) -> Figure:
    names = {1: f"γ = {FAST}", 2: f"γ = {SLOW}", 3: "γ = c/t", 0: "conditions on β"}
    groups = {part: [r for r in numbers["rows"] if r["part"] == part] for part in names}
    title = "Separable pairs of classes under the LE-SDE"
    drawing, axes, places = wrapped(len(groups), title, (4.9, 2.9), columns=2)
    for axis, (part, rows) in zip(places, groups.items(), strict=True):
        labels = list(dict.fromkeys(map(legend_of, rows)))
        for label, index in zip(labels, range(len(labels)), strict=True):
            own = [row for row in rows if legend_of(row) == label]
            mean = [sum(each) / len(own) for each in zip(*(r["pairs"] for r in own), strict=True)]
            style = ("-", "--", ":")[index // len(COLOURS)]
            color = COLOURS[index % len(COLOURS)]
            axis.plot(own[0]["times"], mean, f"o{style}", color=color, ms=3, lw=1, label=label)
        plain_axis(axis, names[part], xscale="log", ylim=(-0.05, 1.05))
        # Curves are everywhere in the panels.
        axis.legend(fontsize=6, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    label_outside(axes, "t", "share of separable pairs")
    return drawing


def legend_of(row: Numbers) -> str:
    gamma = f", γ = {row['gamma']}" if row["part"] in (0, 3) else ""
    return f"{row['kind']}, {row['beta']}{gamma}"


STUDY = Study(
    title="LE-SDE: separable above γ = 1/t, not below, under conditions on β",
    source="Zhang et al. 2021, separation theorem",
    paper="γ = ω(1/t): separable with probability → 1; γ = o(1/t) and n → ∞: with probability 0",
    minutes={"smoke": 0.05, "cpu": 2, "paper": 2},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            f"with γ = {FAST} and β = 0, γ or −γ/3 (E positive semi-definite) all classes are "
            "separable in at least 95 % of draws at the last T",
            "γ = ω(1/t): separable with probability tending to 1",
            collect("rows", LABEL, last("probability"), where=lambda row: row["part"] == 1),
            lambda share: share >= MOST,
        ),
        Claim(
            f"with γ = {SLOW} and β = 0, γ or −γ/3 at most 5 % of pairs of 50 samples are "
            "separable at the last T",
            "γ = o(1/t), n → ∞: pairwise separable with probability 0",
            collect("rows", LABEL, last("pairs"), where=lambda row: row["part"] == 2),
            lambda share: share <= LEAST,
        ),
        Claim(
            f"with a constant negative β beside γ = {FAST} all classes are separable in at least "
            "95 % of draws at the last T",
            "γ = ω(1/t), with no condition on β",
            collect("rows", LABEL, last("probability"), where=lambda r: r.get("breaks") == 1),
            lambda share: share >= MOST,
        ),
        Claim(
            f"with a constant positive β beside γ = {SLOW} and a general H at most 5 % of pairs "
            "are separable at the last T",
            "γ = o(1/t), with no condition on β",
            collect(
                "rows", LABEL, last("pairs"),
                where=lambda r: r.get("breaks") == 2 and r["kind"] != "L-model",
            ),
            lambda share: share <= LEAST,
        ),
    ),
    questions=(
        Question(
            "Does the second part of the theorem (γ = o(1/t)) hold in the L-model, whose H is not "
            "symmetric, with β > 0?",
            collect(
                "rows", LABEL, last("pairs"),
                where=lambda r: r.get("breaks") == 2 and r["kind"] == "L-model",
            ),
            yes_or_no(lambda share: share <= LEAST),
        ),
        Question(
            "Is the border γ = c*/t with c* = K/(2 λ_max): more than 90 % of pairs at 2c*, less "
            "than 5 % at c*/2?",
            collect(
                "rows", "{kind}, γ = {gamma}", last("pairs"), where=lambda row: row["part"] == 3
            ),
            is_border,
        ),
        Question(
            "What share of pairs is separable late where γ = 2/(t ln t), by samples a class?",
            collect("sizes", "n = {n}", "pairs"),
            each_median(),
        ),
    ),
    figure=figure,
)  # fmt: skip
