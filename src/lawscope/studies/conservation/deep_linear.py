"""A deep linear network on images: SGD brings its layers to the norms of the noise equilibrium.

``lawscope study run conservation/deep-linear``: theorem 5.4 and figure 8 of Ziyin et al. 2024.
|W₄W₃W₂W₁x − y|² without weight decay, one image a step, on MNIST and on the embedded Fashion-MNIST
at 10×10 pixels: x are their first 20 principal components, y the class as 9 contrasts. V and the
residuals' covariance Σ_ε come from least squares, and with them the predicted norms of √Σ_ε W₄, W₃,
W₂ and W₁√Σ_x. Layers begin with norm 2.5 each, or with random norms from 1.25 to 5; 3 seeds of
each. Rate 0.008 and then a quarter of it. The theorem takes residuals that are independent of the
inputs; those of images are not. Components, rates and steps were tried on other draws: in all
pixels the faint directions of V take too long to be learned, and at larger rates the noise can
extinguish the weakest direction for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from lawscope.errors import LawscopeError
from lawscope.lazy import np
from lawscope.studies.conservation._linear import Problem, descend
from lawscope.studies.datasets import ImageData, samples_of
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import collect, medians, presets
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study

MNIST, FASHION = "mnist", "fashion-mnist-10x10"
NAMES = {MNIST: "MNIST", FASHION: "Fashion-MNIST"}
EQUAL, RANDOM = "equal norms", "random norms"
SETTINGS: dict[str, Any] = {
    "datasets": [MNIST, FASHION], "per_class": 300, "components": 20, "depth": 4, "lr": 0.008,
    "steps": 600_000, "late": 200_000, "points": 80, "seeds": 3,
}  # fmt: skip
SMOKE = {"datasets": [FASHION], "per_class": 20, "steps": 300, "late": 100, "points": 4, "seeds": 1}
NORM, LOG = 2.5, 0.6931
NEAR, ROUND = 0.05, 0.1


def problem_of(x: Any, labels: Any) -> Problem:
    """Return the problem of vectors x and their classes, of which the contrasts are learned."""
    classes = int(labels.max()) + 1
    contrasts = np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, :-1]
    y = np.eye(classes)[labels] @ contrasts
    inputs = x.T @ x / len(x)
    V = np.linalg.solve(inputs, x.T @ y / len(x)).T
    residuals = y - x @ V.T

    def draw(n: int, rng: np.random.Generator) -> Any:
        rows = rng.integers(len(x), size=n)
        return x[rows], y[rows]

    return Problem(V, inputs, residuals.T @ residuals / len(x), draw)


def components(images: Any, count: int) -> Any:
    """Return the first principal components, with a mean square length of 1."""
    centred = images - images.mean(axis=0)
    x = centred @ np.linalg.svd(centred, full_matrices=False)[2][:count].T
    return x / np.sqrt((x**2).sum(axis=1).mean())


def start(sizes: Sequence[int], how: str, seed: int) -> list[Any]:
    rng = np.random.default_rng([seed, len(how)])
    layers = []
    for before, after in pairwise(sizes):
        W = rng.standard_normal((after, before))
        norm = NORM if how == EQUAL else NORM * np.exp(rng.uniform(-LOG, LOG))
        layers.append(norm * W / np.linalg.norm(W))
    return layers


def norms(problem: Problem) -> Callable[[list[Any]], Any]:
    """Return what reads ‖W₁√Σ_x‖, ‖W₂‖ …, ‖√Σ_ε W_D‖ of every network."""
    x, e = np.linalg.cholesky(problem.inputs), np.linalg.cholesky(problem.noise)

    def read(layers: list[Any]) -> Any:
        seen = [layers[0] @ x, *layers[1:-1], e.T @ layers[-1]]
        return np.stack([np.linalg.norm(each, axis=(1, 2)) for each in seen], axis=-1)

    return read


def measure(lab: Lab) -> Numbers:
    rows = []
    for dataset in lab.settings["datasets"]:
        data = ImageData(dataset, size=10, per_class=lab.settings["per_class"])
        try:
            samples = samples_of(data)
        except LawscopeError:  # MNIST is not on this machine
            continue
        x = components(samples.x.double().numpy(), lab.settings["components"])
        lab.tell(dataset)
        rows += rows_of(lab.settings, dataset, problem_of(x, samples.y.numpy()))
    return {"rows": rows}


def rows_of(settings: Any, dataset: str, problem: Problem) -> list[Numbers]:
    """Train the networks of one data set and compare them with the theorem."""
    from lawscope.theory.equilibrium import deep_linear

    outputs, inputs = problem.V.shape
    sizes = [inputs, *[outputs] * settings["depth"]]
    runs = [(how, seed) for how in (EQUAL, RANDOM) for seed in range(settings["seeds"])]
    begun = zip(*(start(sizes, how, seed) for how, seed in runs), strict=True)
    best = deep_linear(problem.V, problem.inputs, problem.noise, settings["depth"])
    read = norms(problem)
    predicted = read([each[None] for each in best.layers])[0]
    total = settings["steps"] + settings["late"]
    rates = [settings["lr"]] * settings["steps"] + [settings["lr"] / 4] * settings["late"]
    steps, found, layers = descend(
        problem, [np.stack(each) for each in begun], rates, read, total // settings["points"],
        np.random.default_rng(len(dataset)),
    )  # fmt: skip
    end = found[-max(1, len(found) // 20) :].mean(axis=0)
    return [
        {
            "dataset": dataset, "how": how, "seed": seed, "steps": steps,
            "norms": np.round(found[:, run], 4).T.tolist(), "predicted": predicted.tolist(),
            "end": end[run].tolist(), **shape_of(problem, [W[run] for W in layers]),
        }
        for run, (how, seed) in enumerate(runs)
    ]  # fmt: skip


def shape_of(problem: Problem, layers: list[Any]) -> Numbers:
    """Return how orthogonal and aligned the layers of one network are, and how it has learned."""
    first, *inner, last = layers
    values = [np.linalg.svd(W, compute_uv=False) for W in inner]
    product = np.linalg.multi_dot(layers[::-1])
    away = (product - problem.V) @ problem.inputs
    middle = np.linalg.multi_dot(inner[::-1]) if len(inner) > 1 else inner[0]
    # At the fixed point the interior carries the hidden covariance of W₁ to that of W_D.
    before = middle @ first @ problem.inputs @ first.T @ middle.T
    after = last.T @ problem.noise @ last
    return {
        "plain": [float(np.linalg.norm(W)) for W in layers],
        "roundness": float(max(v.std() / v.mean() for v in values)),
        "carried": float(min((v > v[0] / 2).sum() for v in values)),
        "alignment": float((before * after).sum() / np.linalg.norm(before) / np.linalg.norm(after)),
        "error": float(np.linalg.norm(away) / np.linalg.norm(problem.V @ problem.inputs)),
    }


def of(dataset: str, value: Any) -> Callable[[Numbers], dict[str, list[Any]]]:
    def read(numbers: Numbers) -> dict[str, list[Any]]:
        if not any(row["dataset"] == dataset for row in numbers["rows"]):
            raise NotTried(f"{dataset} is in no data directory, or not in this preset")
        return collect("rows", "{how}", value, where=lambda r: r["dataset"] == dataset)(numbers)

    return read


def label(row: Any) -> str:
    return f"{NAMES[row['dataset']]}, {row['how']}"


def unequal(row: Numbers) -> float:
    """Return the largest interior norm over the smallest."""
    return float(max(row["end"][1:-1]) / min(row["end"][1:-1]))


def off(row: Numbers) -> float:
    """Return the largest relative error of a predicted norm."""
    return float(max(abs(a / b - 1) for a, b in zip(row["end"], row["predicted"], strict=True)))


def apart(row: Numbers) -> float:
    """Return how far the first and the last layer are from the norm of the second, at least."""
    first, second, *_, last = row["plain"]
    return float(min(abs(first / second - 1), abs(last / second - 1)))


def claims(dataset: str, name: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{name}: interior layers reach one norm (largest over smallest at most 1.05)",
            "the intermediate layers converge to the same norm",
            of(dataset, unequal),
            lambda ratio: ratio <= 1 + NEAR,
        ),
        Claim(
            f"{name}: norms of the first and the last layer differ from that of the interior "
            "layers by 5 % or more",
            "the input and output layers are different",
            of(dataset, apart),
            lambda difference: difference >= NEAR,
        ),
        Claim(
            f"{name}: all norms, of W₁√Σ_x, W₂, W₃ and √Σ_ε W₄, are within 5 % of the predicted "
            "ones (largest error)",
            "balance, robust against different initialisations",
            of(dataset, off),
            lambda error: error <= NEAR,
            figure="theorem 5.4",
        ),
        Claim(
            f"{name}: interior layers are multiples of orthogonal matrices (standard deviation of "
            "singular values at most 10 % of their mean)",
            "orthogonality",
            of(dataset, "roundness"),
            lambda spread: spread <= ROUND,
            figure="theorem 5.4",
        ),
        Claim(
            f"{name}: W₄ᵀΣ_εW₄ and the covariance that W₃W₂ makes of W₁x have a cosine of 0.95 or "
            "more",
            "alignment",
            of(dataset, "alignment"),
            lambda cosine: cosine >= 0.95,
            figure="theorem 5.4",
        ),
    )


def figure(numbers: Numbers) -> Figure:
    datasets = list(dict.fromkeys(row["dataset"] for row in numbers["rows"]))
    drawing, axes = grid(len(datasets), 2, "Norms of layers; dashed: predicted", (4.2, 2.7))
    for line, dataset in zip(axes, datasets, strict=True):
        for axis, how in zip(line, (EQUAL, RANDOM), strict=True):
            own = [r for r in numbers["rows"] if (r["dataset"], r["how"]) == (dataset, how)]
            names = ["W₁√Σ_x", *(f"W{i + 2}" for i in range(len(own[0]["norms"]) - 2)), "√Σ_ε W_D"]
            for name, layer, color in zip(names, range(len(names)), COLOURS, strict=False):
                for row in own:
                    label = name if row is own[0] else None
                    axis.plot(row["steps"], row["norms"][layer], color=color, lw=0.8, label=label)
                axis.axhline(own[0]["predicted"][layer], color=color, lw=0.8, ls="--")
            plain_axis(axis, f"{dataset}, {how}", legend=6)
            axis.locator_params("x", nbins=4)
    label_outside(axes, "step", "norm")
    return drawing


STUDY = Study(
    title="Deep linear network on images: do layers reach the norms of the noise equilibrium?",
    source="Ziyin et al. 2024, theorem 5.4 and figure 8",
    paper="orthogonal, aligned and balanced layers, from equal and from random norms",
    minutes={"smoke": 0.05, "cpu": 2, "paper": 2},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=tuple(claim for dataset, name in NAMES.items() for claim in claims(dataset, name)),
    questions=(
        Question(
            "How many of the 9 directions carry the map at the end? (singular values above half "
            "the largest, in the poorest interior layer)",
            collect("rows", label, lambda row: int(row["carried"])),
            medians,
        ),
        Question(
            "How far is the map from least squares? (|(W₄W₃W₂W₁ − V)Σ_x|/|VΣ_x|)",
            collect("rows", label, "error"),
            medians,
        ),
    ),
    figure=figure,
    departures={
        "cpu": "20 principal components of 300 images a class at 10×10 pixels, 9 contrasts",
        "paper": "20 principal components of 300 images a class at 10×10 pixels, 9 contrasts",
    },
)
