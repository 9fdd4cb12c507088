"""Where weight decay makes the symmetric point the minimum: thresholds by optimisation.

``lawscope study run symmetry/landscape``: the solvable landscapes of Ziyin 2024, part 2, each a
loss L₀ + γ‖θ‖² with a symmetry. One weight (w → −w), a product of two (rescaling), a product of
matrices (rotation), two tanh neurons (exchange), products of three to five weights (first order),
and three exchangeable tanh neurons, a group beyond Z₂. Thresholds γ are found by bisection on
whether optimisers of the loss, from several starts, end below the symmetric point, and compared
with the closed forms of ``lawscope.theory.landscapes``. Random targets, 3 seeds; nothing is
trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lawscope.lazy import np, torch
from lawscope.studies.figures import COLOURS, label_outside, plain_axis, wrapped
from lawscope.studies.panels import collect, medians, presets, yes_or_no
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

BETTER = 1e-10  # by which a loss must be lower to count
NEAR = 1e-4
SHAPE = (3, 2)  # of the matrix that is factorised
GAMMAS = {"small γ": 0.3, "intermediate γ": 1.0, "large γ": 2.5}  # of (w² − 1)² + γw²
# Input weights of the neurons to be imitated; a tenth more for every seed.
TEACHERS = {2: (0.3, 3.0), 3: (0.3, 1.0, 4.0)}
SETTINGS: dict[str, Any] = {"depths": [3, 4, 5], "starts": 3, "seeds": 3}
SMOKE = {"depths": [3], "starts": 2, "seeds": 1}
LABEL = "{symmetry}"
Loss = Callable[[Any], Any]  # of a vector of weights, in torch


def measure(lab: Lab) -> Numbers:
    settings, rows, exchanged = lab.settings, [], []
    for seed in range(settings["seeds"]):
        lab.tell(f"seed {seed}")
        rows += [{"seed": seed, **row} for row in thresholds(seed, settings)]
        exchanged.append({"seed": seed, **three_neurons(seed, settings["starts"])})
    return {"thresholds": rows, "three": exchanged, "curves": curves(), "jump": jump()}


def thresholds(seed: int, settings: Any) -> list[Numbers]:
    """Return predicted and found thresholds of every landscape but the three neurons."""
    from lawscope.theory.landscapes import critical_decay, depth_transition

    rng, starts = np.random.default_rng(seed), settings["starts"]
    x, y = 0.5 + rng.random(20), 0.5 + rng.random(20)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    M = rng.standard_normal(SHAPE)

    def fit(output: Loss) -> Loss:
        return lambda theta: ((output(theta) * inputs - targets) ** 2).mean()

    def row(symmetry: str, predicted: float, found: float) -> Numbers:
        return {"symmetry": symmetry, "predicted": predicted, "found": found}

    square, product = fit(lambda w: w[0] ** 2), fit(lambda w: w[0] * w[1])
    rows = [
        row("one weight", critical_decay("square", x, y), vanishing(square, 1, rng, starts)),
        row("rescaling", critical_decay("product", x, y), vanishing(product, 2, rng, starts)),
    ]
    for rank, sigma in enumerate(np.linalg.svd(M)[1], 1):
        found = lost_mode(torch.from_numpy(M), rank, rng, starts)
        rows.append(row(f"rotation, mode {rank}", float(sigma), found))
    predicted = merge_point(2, seed)
    found = vanishing(imitate(2, seed), 2, rng, starts, symmetric=True)
    rows.append(row("exchange of two", predicted, found))
    for depth in settings["depths"]:
        expected = depth_transition(depth, x, y)
        loss = fit(lambda w: w.prod())
        coexistence = vanishing(loss, depth, rng, starts)
        rows.append(row(f"{depth} weights, coexistence", expected.coexistence, coexistence))
        rows.append(row(f"{depth} weights, spinodal", expected.spinodal, last_minimum(loss, depth)))
    return rows


def lowest(
    loss: Loss, gamma: float, size: int, rng: np.random.Generator, starts: int
) -> tuple[float, Any]:
    """Return the lowest value of loss + γ‖θ‖² from random starts, and where it is."""
    found = [descend(loss, gamma, 1.5 * rng.standard_normal(size)) for _ in range(starts)]
    found.append(descend(loss, gamma, 1 + 0.1 * rng.standard_normal(size)))
    return min(((each.fun, each.x) for each in found), key=lambda pair: pair[0])


def descend(loss: Loss, gamma: float, start: Any, method: str = "BFGS", **options: Any) -> Any:
    from scipy.optimize import minimize

    def full(theta: Any) -> Any:
        return loss(theta) + gamma * (theta**2).sum()

    def value(theta: Any) -> tuple[float, Any]:
        weights = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        result = full(weights)
        (slope,) = torch.autograd.grad(result, weights)
        return float(result.detach()), slope.numpy()

    def hessian(theta: Any) -> Any:
        return torch.autograd.functional.hessian(full, torch.tensor(theta)).numpy()

    how: Any = {"method": method, "options": {"gtol": 1e-11, **options}}
    if method != "BFGS":
        how["hess"] = hessian
    return minimize(value, start, jac=True, **how)


def bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Return the γ up to which something is the case, to 1e-6."""
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2


def vanishing(
    loss: Loss, size: int, rng: np.random.Generator, starts: int, symmetric: bool = False
) -> float:
    """Return γ from which on no minimum is lower than zero, or than the best of equal weights."""

    def equal(theta: Any) -> Any:
        # A weight w stands for ``size`` equal ones, whose decay is ``size``·γw².
        return loss(theta.expand(size) / size**0.5)

    def is_broken(gamma: float) -> bool:
        bar = float(loss(torch.zeros(size, dtype=torch.float64)))
        if symmetric:
            bar = lowest(equal, gamma, 1, rng, starts)[0]
        return bar - lowest(loss, gamma, size, rng, starts)[0] > BETTER

    return bisect(is_broken, 0.0, 5.0)


def lost_mode(M: Any, rank: int, rng: np.random.Generator, starts: int) -> float:
    """Return γ from which on factors of inner width ``rank`` are no better than narrower ones."""
    m, n = M.shape

    def factorised(width: int) -> Loss:
        def loss(theta: Any) -> Any:
            U, W = theta[: m * width].reshape(m, width), theta[m * width :].reshape(width, n)
            return ((U @ W - M) ** 2).sum()

        return loss

    def is_kept(gamma: float) -> bool:
        values = [
            lowest(factorised(width), gamma, width * (m + n), rng, starts)[0]
            if width else float((M**2).sum())
            for width in (rank - 1, rank)
        ]  # fmt: skip
        return values[0] - values[1] > BETTER

    return bisect(is_kept, 0.0, 5.0)


def last_minimum(loss: Loss, depth: int) -> float:
    """Return γ at which the minimum that is not zero ceases to exist, followed from γ = 0."""
    last = descend(loss, 0.0, np.ones(depth)).x

    def exists(gamma: float) -> bool:
        nonlocal last
        # Short steps, so that none leaps over the end of the valley.
        short = {"initial_trust_radius": 0.01, "max_trust_radius": 0.02, "maxiter": 5000}
        found = descend(loss, gamma, last, "trust-exact", **short).x
        there = bool(np.abs(found).min() > 0.05)
        last = found if there else last
        return there

    return bisect(exists, 0.0, 5.0)


def teacher(neurons: int, seed: int) -> tuple[Any, Any]:
    """Return inputs, and the sum of the tanh neurons that is to be imitated."""
    x = torch.linspace(-2, 2, 41, dtype=torch.float64)
    return x, sum(torch.tanh((1 + seed / 10) * a * x) for a in TEACHERS[neurons])


def imitate(neurons: int, seed: int) -> Loss:
    x, y = teacher(neurons, seed)
    return lambda theta: ((theta[:, None] * x).tanh().sum(dim=0) - y).square().mean()


def merge_point(neurons: int, seed: int) -> float:
    """Return γ at which equal neurons have c₀ = 0.

    With h = tanh(wx) and r = n·h − y, of n neurons of weight w: E[r·h′x] + γw = 0 (w is
    stationary) and E[r·h″x²] + γ = 0 (parting two of them neither helps nor hurts).
    """
    from scipy.optimize import brentq

    x, y = (each.numpy() for each in teacher(neurons, seed))

    def parts(w: float) -> tuple[float, float]:
        h = np.tanh(w * x)
        r, slope = neurons * h - y, 1 - h**2
        return -(r * slope * x).mean() / w, (r * 2 * h * slope * x**2).mean()

    def gap(w: float) -> float:
        stationary, marginal = parts(w)
        return float(stationary - marginal)

    w = float(brentq(gap, *bracket(gap), xtol=1e-14))
    return float(parts(w)[1])


def bracket(gap: Callable[[float], float]) -> tuple[float, float]:
    """Return the neighbours, from large weights down, between which the sign changes."""
    places = np.linspace(4.0, 0.02, 400)
    signs = [gap(w) > 0 for w in places]
    index = next(i for i in range(1, len(signs)) if signs[i] != signs[i - 1])
    return float(places[index]), float(places[index - 1])


def three_neurons(seed: int, starts: int) -> Numbers:
    """Return where three equal neurons become unstable, and where they are the minimum."""
    from scipy.optimize import brentq

    rng, loss = np.random.default_rng(seed), imitate(3, seed)

    def softest(gamma: float) -> float:
        """Lowest curvature at the best point of equal weights, found by descent along them."""
        merged = descend(lambda w: loss(w.expand(3) / 3**0.5), gamma, np.ones(1)).x / 3**0.5
        point = torch.tensor(merged).expand(3).clone()
        full = torch.autograd.functional.hessian(loss, point) + 2 * gamma * torch.eye(3)
        return float(torch.linalg.eigvalsh(full)[0])

    predicted = merge_point(3, seed)
    coexistence = vanishing(loss, 3, rng, starts, symmetric=True)
    places = {"below": coexistence - 1e-3, "above": coexistence + 1e-3}
    spreads = {
        side: float(np.ptp(lowest(loss, gamma, 3, rng, 3 * starts)[1]))
        for side, gamma in places.items()
    }
    return {
        "predicted": predicted,
        "found": float(brentq(softest, predicted / 2, 2 * predicted, xtol=1e-10)),
        "coexistence": coexistence, "spread_below": spreads["below"],
        "spread_above": spreads["above"],
    }  # fmt: skip


def curves() -> list[Numbers]:
    """Return (w² − 1)² + γw² as the talk draws it."""
    w = np.linspace(-1.5, 1.5, 61)
    return [
        {"name": name, "gamma": gamma, "w": w.round(3).tolist(),
         "loss": ((w**2 - 1) ** 2 + gamma * w**2).round(5).tolist()}
        for name, gamma in GAMMAS.items()
    ]  # fmt: skip


def jump() -> list[Numbers]:
    """Return the output at the global minimum against γ, for depths 2 to 4 and x = y = 1."""
    from lawscope.theory.landscapes import critical_decay, depth_transition

    gammas, found = np.linspace(0.0, 1.1, 56), []
    q = np.linspace(0.0, 1.0, 2001)
    for depth in (2, 3, 4):
        L = (q - 1) ** 2 + gammas[:, None] * depth * q ** (2 / depth)
        found.append(
            {"depth": depth, "gamma": gammas.round(4).tolist(),
             "output": q[L.argmin(axis=1)].round(4).tolist(),
             "threshold": depth_transition(depth).coexistence if depth > 2
             else critical_decay("product", 1.0, 1.0)}
        )  # fmt: skip
    return found


def error(row: Numbers) -> float:
    return abs(float(row["found"] - row["predicted"]))


def of(*symmetries: str) -> Callable[[Numbers], bool]:
    return lambda row: row["symmetry"].startswith(symmetries)


def figure(numbers: Numbers) -> Figure:
    title = "Landscapes with a symmetry and weight decay"
    drawing, _, (first, second, third, fourth) = wrapped(4, title, (3.8, 2.8), columns=2)
    for curve, color in zip(numbers["curves"], COLOURS, strict=False):
        first.plot(curve["w"], curve["loss"], color=color, lw=1.2, label=curve["name"])
    plain_axis(first, "(w² − 1)² + γw²", legend=7, ylim=(0, 4))
    first.set_xlabel("w", fontsize=8.5)
    for curve, color in zip(numbers["jump"], COLOURS, strict=False):
        words = f"{curve['depth']} weights"
        second.plot(curve["gamma"], curve["output"], color=color, lw=1.2, label=words)
        second.axvline(curve["threshold"], color=color, lw=0.6, ls=":")
    plain_axis(second, "output at the minimum (dotted: thresholds)", legend=7)
    second.set_xlabel("γ", fontsize=8.5)
    second.set_xlim(right=1.45)
    rows = numbers["thresholds"]
    third.plot([r["predicted"] for r in rows], [r["found"] for r in rows], "o", ms=3,
               color=COLOURS[0])  # fmt: skip
    ends = [0, max(row["predicted"] for row in rows)]
    third.plot(ends, ends, color="grey", lw=0.6)
    plain_axis(third, "thresholds of all landscapes")
    label_outside([[third]], "γ predicted", "γ found")
    names = {"coexistence": "equal weights are the minimum above",
             "found": "equal weights are unstable below"}  # fmt: skip
    for (name, words), color in zip(names.items(), COLOURS[1::-1], strict=True):
        seeds, values = ([row[key] for row in numbers["three"]] for key in ("seed", name))
        fourth.plot(seeds, values, "o", color=color, ms=5, label=words)
    fourth.set_xticks([row["seed"] for row in numbers["three"]])
    plain_axis(fourth, "two thresholds of three tanh neurons", legend=7)
    fourth.margins(x=0.2, y=0.3)
    label_outside([[fourth]], "target (seed)", "γ")
    return drawing


def threshold_claim(text: str, paper: str, *symmetries: str) -> Claim:
    return Claim(
        f"{text}: the γ found by optimisation is the predicted one to 1e-4 (difference)",
        paper,
        collect("thresholds", LABEL, error, where=of(*symmetries)),
        lambda difference: difference < NEAR,
        exact=True,
    )


STUDY = Study(
    title="Thresholds of solvable landscapes: from which weight decay on symmetry is kept",
    source="Ziyin 2024, part 2 of the physics talk",
    paper="the symmetric solution becomes the global minimum at strong regularization",
    minutes={"smoke": 0.2, "cpu": 1, "paper": 1},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        threshold_claim(
            "(w²x − y)² + γw², γ_c = 2E[xy]",
            "the symmetric solution becomes the global minimum at strong regularization",
            "one weight",
        ),
        threshold_claim(
            "rescaling, (uwx − y)² + γ(u² + w²), γ_c = |E[xy]|", "rescaling symmetry → sparsity",
            "rescaling",
        ),
        threshold_claim(
            "rotation, ‖UW − M‖² + γ(‖U‖² + ‖W‖²): mode i is lost at γ = σ_i",
            "rotation symmetry → low rankness", "rotation",
        ),
        threshold_claim(
            "exchange, two tanh neurons: they are equal from the γ of c₀ = 0 on",
            "permutation symmetry → identical neurons; the sign of c₀ determines the local "
            "geometry", "exchange",
        ),
        Claim(
            "three exchangeable neurons: above the largest threshold the global minimum has three "
            "equal weights (spread under 1e-4)",
            "can be generalized to an arbitrary discrete group",
            lambda numbers: {"above": [row["spread_above"] for row in numbers["three"]]},
            lambda spread: spread < NEAR,
            exact=True,
        ),
    ),
    questions=(
        Question(
            "Products of 3 to 5 weights: are coexistence and spinodal where our formulas put them, "
            "to 1e-4?",
            collect("thresholds", LABEL, error, where=lambda row: "weights," in row["symmetry"]),
            yes_or_no(lambda difference: difference < NEAR),
        ),
        Question(
            "Three neurons: do equal ones lose their stability where c₀ = 0, to 1e-4?",
            lambda numbers: {"difference": list(map(error, numbers["three"]))},
            yes_or_no(lambda difference: difference < NEAR),
        ),
        Question(
            "Three neurons: by how much do weights differ just below the threshold (0 in a "
            "continuous transition, which a group beyond Z₂ need not have)?",
            lambda numbers: {"spread": [row["spread_below"] for row in numbers["three"]]},
            medians,
        ),
    ),
    figure=figure,
)  # fmt: skip
