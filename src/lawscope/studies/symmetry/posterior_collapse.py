"""Posterior collapse: modes that a linear β-VAE and a small VAE on MNIST keep, and their digits.

``lawscope study run symmetry/posterior-collapse``: Ziyin 2024 on Bayesian deep learning, with
figure 3 of Wang & Ziyin 2022. MNIST at 14×14 with pixels from 0 to 1, centred. Linear: encoder and
decoder matrices and learned variances on the first 30 principal components (the others are lost at
every β here), the exact loss minimised by L-BFGS from random starts; modes are lost at βη² = λ_i,
the eigenvalues of the images' covariance. Small VAE: 128 tanh units in encoder and decoder, 12
latent variables, η² = 0.05, Adam; a latent variable is at work if the variance of its mean over
images exceeds 0.01. β lies between the eigenvalues, so that 12, 8, 4, 2, 1 and no modes of the
linear model are left. Pictures are decoded from the prior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from lawscope.formatting import many
from lawscope.lazy import Tensor, nn, np, torch
from lawscope.studies.datasets import ImageData, samples_of
from lawscope.studies.figures import COLOURS, label_outside, plain_axis, stacked
from lawscope.studies.panels import Panels, Settings, collect, medians, presets, yes_or_no
from lawscope.studies.plan import FLOPS, AfterEpoch, Network, Task, Training
from lawscope.studies.registry import NETWORKS
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study
from lawscope.training.loop import Trained
from lawscope.training.optimizers import make_optimizer
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Note, Record

NOISE = 0.05  # η²
LATENTS, SIDE = 12, 14
AT_WORK = 0.01
COMPONENTS = 30
SHOWN = 6
PAPER: dict[str, Any] = {
    "left": [12, 8, 4, 2, 1, 0], "epochs": 400, "per_class": 1000, "lr": 1e-3, "seeds": 3,
}  # fmt: skip
CPU = {"epochs": 300, "per_class": 100, "lr": 2e-3}
SMOKE = {"left": [4, 0], "epochs": 2, "per_class": 20, "seeds": 1}


@NETWORKS.register("vae")
def vae(hidden: int = 128, latents: int = LATENTS) -> nn.Module:
    """Build encoder (means and log variances) and decoder."""
    pixels = SIDE * SIDE
    return nn.ModuleDict(
        {
            "encoder": nn.Sequential(
                nn.Linear(pixels, hidden), nn.Tanh(), nn.Linear(hidden, 2 * latents)
            ),
            "decoder": nn.Sequential(
                nn.Linear(latents, hidden), nn.Tanh(), nn.Linear(hidden, pixels)
            ),
        }
    )


@dataclass(frozen=True)
class Evidence(Task):
    """The loss of a β-VAE, E|x − f(z)|²/(2η²) + β·KL; its accuracy is the share of variance kept.

    ``left`` is the number of modes that a linear model keeps, by which β is chosen.
    """

    kind: ClassVar[str] = "evidence"
    left: int = 0

    def train(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch,
        note: Note | None,
    ) -> Sequence[Mapping[str, Record]] | None:  # fmt: skip
        model: Any = models[0]
        recipe, data = trainings[0].recipe, trainings[0].data
        assert isinstance(data, ImageData)
        x, beta = pixels_of(data), choose_beta(data, self.left)
        optimizer = make_optimizer(model.parameters(), recipe)
        generator = torch.Generator().manual_seed(recipe.seed)
        for epoch in range(1, recipe.epochs + 1):
            for rows in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
                optimizer.zero_grad(set_to_none=True)
                means, logs = encode(model, x[rows])
                z = means + (logs / 2).exp() * torch.randn(means.shape, generator=generator)
                missed = (model["decoder"](z) - x[rows]).square().sum(dim=1) / (2 * NOISE)
                divergence = (means**2 + logs.exp() - 1 - logs).sum(dim=1) / 2
                (missed + beta * divergence).mean().backward()
                optimizer.step()
            after_epoch(epoch)
        return None

    def evaluate(self, model: Any, x: Tensor, y: Tensor) -> Trained:
        """By the means alone."""
        model.eval()
        values = (x + 1) / 2
        values = values - values.mean(dim=0)
        means, _ = encode(model, values)
        missed = float((model["decoder"](means) - values).square().sum())
        return Trained(missed / len(x), 1 - missed / float(values.square().sum()))

    def seconds(self, training: Training, weights: int) -> float:
        return 6 * weights * training.data.count * training.recipe.epochs / FLOPS


def encode(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return means and log variances."""
    means, logs = model["encoder"](x).chunk(2, dim=1)
    return means, logs


def pixels_of(data: ImageData) -> Tensor:
    """Return images from 0 to 1, centred."""
    x = (samples_of(data).x + 1) / 2
    return x - x.mean(dim=0)


@lru_cache(maxsize=4)
def eigenvalues_of(data: ImageData) -> tuple[float, ...]:
    """Return the eigenvalues of the images' covariance, the largest first."""
    x = pixels_of(data).double().numpy()
    return tuple(np.linalg.eigvalsh(x.T @ x / len(x))[::-1].clip(0).tolist())


def choose_beta(data: ImageData, left: int) -> float:
    """Return β at which a linear model keeps so many modes, midway between eigenvalues in log."""
    values = eigenvalues_of(data)
    above = values[left - 1] if left else 4 * values[0]
    return math.sqrt(above * values[left]) / NOISE


def data_of(settings: Settings) -> ImageData:
    return ImageData("mnist", SIDE, per_class=settings["per_class"])


def trainings_of(settings: Settings, left: int) -> list[Training]:
    return [
        Training(
            Network.of("vae"),
            Recipe("adam", settings["lr"], settings["epochs"], 100, 0.0, seed),
            data_of(settings),
            seed,
            task=Evidence(left),
        )
        for seed in range(settings["seeds"])
    ]


def measure(lab: Lab) -> Numbers:
    settings, networks, linear, pictures = lab.settings, [], [], []
    data = data_of(settings)
    for left in settings["left"]:
        beta = choose_beta(data, left)
        lab.tell(f"β = {beta:.3g}")
        for training in trainings_of(settings, left):
            cell = {"predicted": left, "beta": beta, "seed": training.seed}
            linear.append({**cell, **fit_linear(data, beta, training.seed)})
            row, drawn = read_network(lab, training)
            networks.append({**cell, **row})
            if training.seed == 0:
                pictures.append({"beta": beta, "predicted": left, "pixels": drawn})
    return {"linear": linear, "networks": networks, "pictures": pictures}


def fit_linear(data: ImageData, beta: float, seed: int) -> Numbers:
    """Minimise the exact loss of a linear β-VAE; compare its decoder with the prediction."""
    from lawscope.theory.latent import vae_modes

    values = np.array(eigenvalues_of(data))[:COMPONENTS]
    S, b = torch.diag(torch.from_numpy(values)), beta * NOISE
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.nn.Parameter:
        start = 0.1 * torch.randn(*shape, generator=generator, dtype=torch.float64)
        return torch.nn.Parameter(start)

    U, W, logs = draw(len(S), LATENTS), draw(len(S), LATENTS), draw(LATENTS)
    optimizer = torch.optim.LBFGS(
        [U, W, logs], max_iter=3000, max_eval=4000, tolerance_grad=1e-10, tolerance_change=1e-14,
        history_size=20, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss() -> Tensor:
        """Twice η² times the loss."""
        optimizer.zero_grad()
        R = torch.eye(len(S), dtype=torch.float64) - U @ W.T
        missed = ((R @ S) * R).sum() + (U.square().sum(dim=0) * logs.exp()).sum()
        spread = ((W.T @ S) * W.T).sum() + (logs.exp() - 1 - logs).sum()
        total: Tensor = missed + b * spread
        total.backward()
        return total

    optimizer.step(loss)
    # Variances differ by latent variable, so that columns of U are the modes themselves.
    found = np.sort(U.detach().square().sum(dim=0).numpy())[::-1]
    expected = vae_modes(values, beta, math.sqrt(NOISE)).strengths[:LATENTS]
    scale = values[0]
    return {
        "left": int((found > 1e-3 * scale).sum()), "found": found.tolist(),
        "expected": expected.tolist(), "error": float(np.abs(found - expected).max() / scale),
    }  # fmt: skip


def read_network(lab: Lab, training: Training) -> tuple[Numbers, list[list[int]]]:
    """Return latent variables at work, how varied decoded pictures are, and some of them."""
    run = lab.run(training)
    network: Any = run.network()
    data = training.data
    assert isinstance(data, ImageData)
    mean = ((run.samples.x + 1) / 2).mean(dim=0)
    generator = torch.Generator().manual_seed(training.seed)
    with torch.no_grad():
        means, _ = encode(network, pixels_of(data))
        made = network["decoder"](torch.randn(500, LATENTS, generator=generator))
    row = {
        "left": int((means.var(dim=0) > AT_WORK).sum()), "kept": run.accuracy,
        "diversity": float(made.var(dim=0).sum()) / sum(eigenvalues_of(data)),
    }  # fmt: skip
    drawn = (255 * (made[:SHOWN] + mean).clamp(0, 1)).round().int().tolist()
    return row, drawn


def modes(row: Any) -> str:
    return many(row["predicted"], "mode")


def difference(row: Numbers) -> int:
    return abs(int(row["left"] - row["predicted"]))


def figure(numbers: Numbers) -> Figure:
    pictures = numbers["pictures"]
    parts, title = [(1, 3), (1, len(pictures))], "Posterior collapse against β"
    drawing, ((above,), (below,)) = stacked(parts, title, (2.7, 2.7), 10)
    panels = (("left", "modes left"), ("diversity", "variance of decoded pictures"))
    for axis, (name, title) in zip(above, panels, strict=False):
        for rows, color, words in (("linear", COLOURS[0], "linear"), ("networks", COLOURS[1],
                                                                      "small VAE")):  # fmt: skip
            own = [row for row in numbers[rows] if name in row]
            axis.plot([r["beta"] for r in own], [r[name] for r in own], "o", ms=3, color=color,
                      label=words if own else None)  # fmt: skip
        if name == "left":
            rows = numbers["linear"]
            axis.plot([r["beta"] for r in rows], [r["predicted"] for r in rows], "-", lw=0.8,
                      color="grey", label="predicted")  # fmt: skip
        plain_axis(axis, title, legend=6)
        axis.set_xlabel("β", fontsize=8.5)
    for row in numbers["linear"]:
        above[2].plot(row["expected"], row["found"], "o", ms=3, color=COLOURS[0])
    plain_axis(above[2], "u² of the modes of the linear model")
    label_outside([[above[2]]], "predicted", "found")
    for axis, picture in zip(below, pictures, strict=True):
        axis.set_axis_off()
        images = np.array(picture["pixels"]).reshape(-1, SIDE, SIDE)
        lines = [np.hstack(list(images[i : i + 2])) for i in range(0, len(images), 2)]
        axis.imshow(np.vstack(lines), cmap="gray", vmin=0, vmax=255)
        axis.set_title(f"β = {picture['beta']:.3g}\n{modes(picture)}", fontsize=8)
    return drawing


STUDY = Study(
    title="Modes left in a linear β-VAE and a small VAE, and digits drawn from them",
    source="Ziyin 2024; Wang & Ziyin 2022, figure 3",
    paper="generated images lose diversity as β increases; modes are lost at thresholds",
    minutes={"smoke": 0.1, "cpu": 2, "paper": 60},
    settings=presets(PAPER, CPU, SMOKE),
    plan=Panels(trainings_of, left="left").plan,
    measure=measure,
    claims=(
        Claim(
            "linear β-VAE: as many modes are left as eigenvalues exceed βη² (difference of the "
            "counts)",
            "thresholds of each singular value",
            collect("linear", modes, difference),
            lambda count: count == 0,
            exact=True,
        ),
        Claim(
            "linear β-VAE: strengths of the modes are λ − βη² to 1 % of the largest eigenvalue",
            "thresholds of each singular value",
            collect("linear", modes, "error"),
            lambda error: error <= 0.01,
            exact=True,
        ),
        Claim(
            "small VAE: latent variables at work are as many as predicted, give or take one "
            "(difference)",
            "the number of modes left is estimated by the theoretical prediction",
            collect("networks", modes, difference),
            lambda count: count <= 1,
            figure="figure 3",
        ),
        Claim(
            "small VAE: where no mode is predicted, decoded pictures do not differ (variance under "
            "0.01 of the data's)",
            "generated images lose diversity and variation as β increases",
            collect("networks", modes, "diversity",
                    where=lambda row: row["predicted"] == 0),
            lambda share: share < 0.01,
            figure="figure 3",
        ),
    ),
    questions=(
        Question(
            "Small VAE: how varied are decoded pictures, as a share of the variance of the data?",
            collect(
                "networks", modes, "diversity",
                where=lambda row: row["predicted"] > 1,
            ),
            medians,
        ),
        Question(
            "Small VAE: is a mode at work wherever one is predicted?",
            collect("networks", modes, "left", where=lambda r: r["predicted"] > 0),
            yes_or_no(lambda left: left > 0),
        ),
    ),
    figure=figure,
    departures={
        "cpu": "MNIST at 14×14, 1000 images, 128 hidden units, 300 epochs (100 in a first run)",
        "paper": "MNIST at 14×14, 10,000 images, 128 hidden units",
    },
)  # fmt: skip
