"""Weights in front of a norm: under SGD their length only grows, and weight decay gives it an end.

``lawscope study run conservation/scale-invariance``: "a systematic flow towards infinity" of Ziyin
et al. 2024. f(x) = wᵀx/|w| on y = βᵀx + ε, 10 inputs of unit variance, unit noise, one sample a
step, 5 seeds. A step is across w, so that |w|² grows by η²|g|² with |g|² = G/|w|² and, at w ∝ β,
G = 4σ²(d − 1): |w|⁴ = |w₀|⁴ + 2η²Gt; with decay it ends at |w|⁴ = ηG/(2λ) (van Laarhoven 2017).
Beside it, layers in front of BatchNorm (ε = 10⁻¹²) of a network on Fashion-MNIST at 10×10, where
G = E|g|²·|W|² is measured from fresh batches at ten places of the last third of the training.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from lawscope.lazy import Tensor, nn, np, torch
from lawscope.studies.conservation._linear import GD, SGD
from lawscope.studies.datasets import ImageData, samples_of
from lawscope.studies.figures import COLOURS, grid, plain_axis
from lawscope.studies.panels import collect, medians, presets
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

DECAYED = "SGD with decay"
NEAR = 0.05
SETTINGS: dict[str, Any] = {
    "inputs": 10, "lr": 0.002, "decay": 0.01, "steps": 200_000, "points": 50, "seeds": 5,
    "network": {"width": 32, "lr": 0.1, "decay": 0.005, "batch": 32, "steps": 6000, "seeds": 3},
}  # fmt: skip
SMOKE = {
    "steps": 200, "points": 10, "seeds": 2,
    "network": {"width": 8, "lr": 0.1, "decay": 0.005, "batch": 8, "steps": 30, "seeds": 1},
}  # fmt: skip


def measure(lab: Lab) -> Numbers:
    rows = []
    for how in (SGD, DECAYED, GD):
        lab.tell(f"a unit vector, {how}")
        rows += vectors(lab.settings, how)
    return {"vectors": rows, "layers": networks(lab)}


def vectors(settings: Any, how: str) -> list[Numbers]:
    """Train w of every seed and follow |w|² beside its formula."""
    d, lr, steps = settings["inputs"], settings["lr"], settings["steps"]
    decay = settings["decay"] if how == DECAYED else 0.0
    rngs = [np.random.default_rng([seed, 1]) for seed in range(settings["seeds"])]
    w = np.stack([rng.standard_normal(d) for rng in rngs])
    beta = np.eye(d)[0]
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    every, chunk = steps // settings["points"], 200
    squares, at = [(w**2).sum(axis=1)], [0]
    for step in range(1, steps + 1):
        if how != GD and step % chunk == 1:
            x = np.stack([rng.standard_normal((chunk, d)) for rng in rngs], axis=1)
            noise = np.stack([rng.standard_normal(chunk) for rng in rngs], axis=1)
        length = np.linalg.norm(w, axis=1, keepdims=True)
        unit = w / length
        if how == GD:
            slope = 2 * (unit - beta)
        else:
            now = x[(step - 1) % chunk]
            error = ((unit - beta) * now).sum(axis=1) - noise[(step - 1) % chunk]
            slope = 2 * error[:, None] * now
        g = (slope - unit * (slope * unit).sum(axis=1, keepdims=True)) / length
        w = w - lr * (g + decay * w)
        if step % every == 0:
            squares.append((w**2).sum(axis=1))
            at.append(step)
    path, G = np.array(squares), 4.0 * (d - 1)
    late = np.sqrt((path[-max(1, len(path) // 3) :] ** 2).mean(axis=0))
    end = late if how == DECAYED else path[-1]
    predicted = {
        SGD: np.sqrt(1 + 2 * lr**2 * G * np.array(at)),
        DECAYED: np.full(len(at), np.sqrt(lr * G / (2 * max(decay, 1e-300)))),
        GD: np.ones(len(at)),
    }[how]
    return [
        {
            "how": how, "seed": seed, "steps": at, "path": np.round(path[:, seed], 5).tolist(),
            "predicted": np.round(predicted, 5).tolist(),
            "ratio": float(end[seed] / predicted[-1]) ** 2,
        }
        for seed in range(settings["seeds"])
    ]  # fmt: skip


def networks(lab: Lab) -> list[Numbers]:
    """Train networks with BatchNorm; return |W|⁴ of each layer over its formula."""
    settings = lab.settings["network"]
    data = samples_of(ImageData())
    rows = []
    for seed in range(settings["seeds"]):
        lab.tell(f"a network with BatchNorm, seed {seed}")
        torch.manual_seed(seed)
        width = settings["width"]
        first, second = nn.Linear(100, width, bias=False), nn.Linear(width, width, bias=False)
        norms = [nn.BatchNorm1d(width, eps=1e-12) for _ in range(2)]
        head = nn.Linear(width, 10)
        model = nn.Sequential(first, norms[0], nn.Tanh(), second, norms[1], nn.Tanh(), head)
        rows += equilibrium(model, [first, second], data.x, data.y, settings, seed)
    return rows


def equilibrium(
    model: nn.Module, layers: list[nn.Linear], x: Tensor, y: Tensor, settings: Any, seed: int
) -> list[Numbers]:
    lr, decay, steps = (settings[name] for name in ("lr", "decay", "steps"))
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=decay)

    def backward() -> None:
        rows = torch.randint(len(x), (settings["batch"],), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()

    def squares(gradient: bool) -> list[float]:
        found = (layer.weight.grad if gradient else layer.weight.detach() for layer in layers)
        return [float((each**2).sum()) for each in found if each is not None]

    path, G = [squares(False)], [list[float](), list[float]()]
    places = {steps - 1 - i * steps // 30 for i in range(10)}
    late: list[list[float]] = [[], []]
    for step in range(steps):
        backward()
        optimizer.step()
        now = squares(False)
        if step % max(1, steps // 60) == 0:
            path.append(now)
        if 3 * step >= 2 * steps:
            for kept, value in zip(late, now, strict=True):
                kept.append(value**2)
        if step in places:
            for _ in range(60):
                backward()
                for kept, square, length in zip(G, squares(True), now, strict=True):
                    kept.append(square * length)
    return [
        {
            "layer": f"layer {index + 1}", "seed": seed, "path": [each[index] for each in path],
            "predicted": (lr * fmean(G[index]) / (2 * decay)) ** 0.5,
            "ratio": fmean(late[index]) / (lr * fmean(G[index]) / (2 * decay)),
        }
        for index in range(len(layers))
    ]  # fmt: skip


def vector(how: str, value: Any) -> Callable[[Numbers], dict[str, list[Any]]]:
    return collect("vectors", how, value, where=lambda row: row["how"] == how)


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 2, "Lengths of scale-invariant weights; dashed: formula", (4.2, 2.9))
    left, right = axes[0]
    for how, color in zip((SGD, DECAYED, GD), COLOURS, strict=False):
        own = [row for row in numbers["vectors"] if row["how"] == how]
        for row in own:
            label = how if row is own[0] else None
            left.plot(row["steps"], row["path"], color=color, lw=0.8, label=label)
        left.plot(own[0]["steps"], own[0]["predicted"], "--", color="black", lw=1)
    for row in numbers["layers"]:
        color = COLOURS[row["layer"] == "layer 2"]
        label = row["layer"] if row["seed"] == 0 else None
        right.plot(row["path"], color=color, lw=0.8, label=label)
        right.axhline(row["predicted"], color=color, lw=0.6, ls="--")
    plain_axis(left, "|w|² of a vector", legend=7, xlabel="step")
    left.locator_params("x", nbins=4)
    plain_axis(right, "|W|² before BatchNorm, with decay", legend=7, yscale="log", xlabel="epoch")
    return drawing


STUDY = Study(
    title="Scale-invariant weights: how fast they grow, and where weight decay ends it",
    source="Ziyin et al. 2024, scale-invariant losses; van Laarhoven 2017",
    paper="scale invariance: a systematic flow towards infinity",
    minutes={"smoke": 0.05, "cpu": 1, "paper": 1},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "under SGD |w|⁴ grows by 2η²Gt, within 5 % (end over formula)",
            "a systematic flow towards infinity",
            vector(SGD, "ratio"),
            lambda ratio: abs(ratio - 1) <= NEAR,
        ),
        Claim(
            "with decay |w|⁴ ends at ηG/(2λ), within 5 %",
            "the norm is of order (η/λ)^¼ (van Laarhoven 2017)",
            vector(DECAYED, "ratio"),
            lambda ratio: abs(ratio - 1) <= NEAR,
        ),
        Claim(
            "gradient descent without noise changes |w|⁴ by less than 5 %",
            "gradients are tangent to the conservation law",
            vector(GD, "ratio"),
            lambda ratio: abs(ratio - 1) <= NEAR,
        ),
    ),
    questions=(
        Question(
            "Where do layers in front of BatchNorm end? (|W|⁴ over ηG/(2λ), G as measured)",
            collect("layers", "{layer}", "ratio"),
            medians,
        ),
    ),
    figure=figure,
)
