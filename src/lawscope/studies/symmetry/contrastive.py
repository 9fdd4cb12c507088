"""Dimensional collapse in contrastive learning: modes that weight decay takes, and SimCLR's ranks.

``lawscope study run symmetry/contrastive``: Ziyin 2024 on self-supervised learning, with the model
of Ziyin, Lubana, Ueda & Tanaka 2023. Linear: f(x) = Wx on Gaussian data of six modes, similarity
−|f − g|²/2, SGD with momentum on fresh samples at every step and weight decay 2γ; predicted are the
strengths of ``lawscope.theory.latent.contrastive_modes``. Images: a small convolutional network
with 32 outputs on Fashion-MNIST at 10×10, SimCLR's loss (temperature 0.5, cosines) and the same
loss on −|f − g|²/2; two views are shifted, mirrored, changed in contrast, and given noise. Spectra
are those of the representations' covariance on test images without augmentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lawscope.lazy import Tensor, nn, np, torch
from lawscope.studies.datasets import ImageData, samples_of
from lawscope.studies.figures import COLOURS, colours, label_outside, plain_axis, wrapped
from lawscope.studies.panels import Settings, collect, group_by, medians, presets, yes_or_no
from lawscope.studies.plan import FLOPS, AfterEpoch, Network, Task, Training
from lawscope.studies.registry import NETWORKS
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study
from lawscope.training.loop import Trained
from lawscope.training.optimizers import make_optimizer
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Note, Record

SIGNAL, AUGMENTATION = (4.0, 2.0, 1.0, 0.5, 0.25, 0.1), (0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
TEMPERATURE = 0.5
LOST = 1e-3  # share of the largest eigenvalue below which a mode is taken for lost
SIMILARITIES = ("cosine", "distance")
PAPER: dict[str, Any] = {
    "gammas": [0.05, 0.15, 0.35, 0.7, 1.5, 3.0, 5.0], "steps": 1500, "batch": 512,
    "decays": [0.0, 1e-3, 1e-2], "epochs": 200, "per_class": 500, "lr": 0.05, "seeds": 3,
}  # fmt: skip
CPU = {"steps": 600, "batch": 256, "epochs": 80, "per_class": 100}
SMOKE = {
    "gammas": [0.35, 5.0], "steps": 20, "decays": [0.0, 1e-2], "epochs": 1, "per_class": 10,
    "seeds": 1,
}  # fmt: skip


@NETWORKS.register("contrastive")
def convolutional(width: int = 16, outputs: int = 32) -> nn.Module:
    """Build two convolutions with pooling, a hidden layer and a projection."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * width, 64), nn.ReLU(), nn.Linear(64, outputs),
    )  # fmt: skip


@dataclass(frozen=True)
class SimCLR(Task):
    """SimCLR's loss on two views of each image; the accuracy is how often a view finds the other.

    ``similarity`` is "cosine", divided by the temperature, or "distance", −|f − g|²/2.
    """

    kind: ClassVar[str] = "simclr"
    similarity: str = "cosine"

    def train(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch,
        note: Note | None,
    ) -> Sequence[Mapping[str, Record]] | None:  # fmt: skip
        recipe, x, model = trainings[0].recipe, samples_of(trainings[0].data).x, models[0]
        optimizer = make_optimizer(model.parameters(), recipe)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.epochs)
        generator = torch.Generator().manual_seed(recipe.seed)
        for epoch in range(1, recipe.epochs + 1):
            for rows in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
                optimizer.zero_grad(set_to_none=True)
                views = torch.cat([augment(x[rows], generator) for _ in range(2)])
                contrast(model(views), self.similarity)[0].backward()
                optimizer.step()
            schedule.step()
            after_epoch(epoch)
        return None

    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
        model.eval()
        generator = torch.Generator().manual_seed(0)
        views = torch.cat([augment(x[:256], generator) for _ in range(2)])
        loss, accuracy = contrast(model(views), self.similarity)
        return Trained(float(loss), float(accuracy))

    def seconds(self, training: Training, weights: int) -> float:
        """Each weight of a filter is used at about thirty places, on two views."""
        return 6 * 60 * weights * training.data.count * training.recipe.epochs / FLOPS


def augment(x: Tensor, generator: torch.Generator) -> Tensor:
    """Shift each image by up to a pixel, mirror half of them, scale its contrast, add noise."""
    n, _, height, width = x.shape
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1), value=-1.0)
    down, right = (torch.randint(0, 3, (n, 1), generator=generator) for _ in range(2))
    rows, columns = down + torch.arange(height), right + torch.arange(width)
    flipped = torch.rand(n, 1, generator=generator) < 0.5
    columns = torch.where(flipped, columns.flip(1), columns)
    shifted = padded[torch.arange(n)[:, None, None], 0, rows[:, :, None], columns[:, None, :]]
    contrast_ = 0.7 + 0.6 * torch.rand(n, 1, 1, generator=generator)
    noise = 0.1 * torch.randn(shifted.shape, generator=generator)
    return (contrast_ * (shifted + 1) - 1 + noise)[:, None]


def contrast(z: Tensor, similarity: str) -> tuple[Tensor, Tensor]:
    """Return SimCLR's loss of two views, one after the other, and how often each finds its twin."""
    if similarity == "cosine":
        z = torch.nn.functional.normalize(z, dim=1)
        alike = z @ z.T / TEMPERATURE
    else:
        squares = z.square().sum(dim=1)
        alike = z @ z.T - (squares[:, None] + squares) / 2
    alike = alike - torch.diag(torch.full((len(z),), 1e9, dtype=z.dtype))
    twins = (torch.arange(len(z)) + len(z) // 2) % len(z)
    loss = torch.nn.functional.cross_entropy(alike, twins)
    return loss, (alike.argmax(dim=1) == twins).double().mean()


def trainings_of(settings: Settings, similarity: str, decay: float) -> list[Training]:
    return [
        Training(
            Network.of("contrastive"),
            Recipe("momentum", settings["lr"], settings["epochs"], 250, decay, seed),
            ImageData(per_class=settings["per_class"], flatten=False),
            seed,
            task=SimCLR(similarity),
        )
        for seed in range(settings["seeds"])
    ]


def plan(settings: Settings) -> list[Training]:
    return [
        training
        for similarity in SIMILARITIES
        for decay in settings["decays"]
        for training in trainings_of(settings, similarity, decay)
    ]


def measure(lab: Lab) -> Numbers:
    settings, images = lab.settings, []
    for similarity in SIMILARITIES:
        for decay in settings["decays"]:
            lab.tell(f"{similarity}, decay {decay:g}")
            for training in trainings_of(settings, similarity, decay):
                cell = {"similarity": similarity, "decay": decay, "seed": training.seed}
                images.append({**cell, **spectrum_of(lab, training)})
    linear = []
    for gamma in settings["gammas"]:
        lab.tell(f"linear, γ = {gamma:g}")
        for seed in range(settings["seeds"]):
            found = train_linear(gamma, settings["steps"], settings["batch"], seed)
            linear.append({"gamma": gamma, "seed": seed, **found})
    return {"linear": linear, "images": images}


def train_linear(gamma: float, steps: int, batch: int, seed: int) -> Numbers:
    """Return the strengths of the modes that SGD leaves, and those predicted."""
    from lawscope.theory.latent import contrastive_modes

    generator = torch.Generator().manual_seed(seed)
    a, c = (torch.tensor(each) for each in (SIGNAL, AUGMENTATION))
    W = torch.nn.Parameter(0.3 * torch.randn(len(a), len(a), generator=generator))
    optimizer = torch.optim.SGD([W], lr=0.05, momentum=0.9, weight_decay=2 * gamma)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        s = a.sqrt() * torch.randn(batch, len(a), generator=generator)
        x, other = (s + c.sqrt() * torch.randn(s.shape, generator=generator) for _ in range(2))
        f, g = x @ W.T, other @ W.T
        # Views of other samples are those of the second column.
        far = -(torch.cdist(f, g) ** 2) / 2
        far = far - torch.diag(torch.full((batch,), torch.inf))
        near = (f - g).square().sum(dim=1) / 2
        spread = torch.logsumexp(far, dim=1) - np.log(batch - 1)
        optimizer.zero_grad()
        (near + spread).mean().backward()
        optimizer.step()
        schedule.step()
    found = (W.detach().T @ W.detach()).diagonal().double().numpy()
    expected = contrastive_modes(SIGNAL, AUGMENTATION, gamma).strengths
    left = int((np.linalg.svd(W.detach().double().numpy())[1] ** 2 > LOST).sum())
    return {
        "found": found.tolist(), "predicted": expected.tolist(), "left": left,
        "expected": int((expected > 0).sum()),
        "error": float(np.abs(found - expected).max() / max(expected.max(), 0.1)),
    }  # fmt: skip


def spectrum_of(lab: Lab, training: Training) -> Numbers:
    """Return the eigenvalues of the representations' covariance, and ranks by them."""
    from lawscope.laws.symmetry.metrics import ranks_of

    run = lab.run(training)
    with torch.no_grad():
        z = run.network()(run.samples.x_test).double().numpy()
    values = np.linalg.eigvalsh(np.cov(z, rowvar=False))[::-1].clip(0)
    left = int((values > LOST * values[0]).sum()) if values[0] > 1e-8 else 0
    return {
        "spectrum": [float(f"{value:.4g}") for value in values], "left": left,
        "rank": ranks_of(np.sqrt(values)).effective if left else 0.0,
        "accuracy": run.test_accuracy,
    }  # fmt: skip


def fall(numbers: Numbers) -> dict[str, list[float]]:
    """Return the effective rank at the largest decay less that at none."""
    rows = numbers["images"]
    last = max(row["decay"] for row in rows)
    first = {(r["similarity"], r["seed"]): r["rank"] for r in rows if r["decay"] == 0}
    return collect(
        "images", "{similarity}", lambda row: row["rank"] - first[row["similarity"], row["seed"]],
        where=lambda row: row["decay"] == last,
    )(numbers)  # fmt: skip


def difference(row: Numbers) -> int:
    return abs(int(row["left"] - row["expected"]))


def figure(numbers: Numbers) -> Figure:
    drawing, _, places = wrapped(4, "Dimensional collapse", (3.8, 2.7), columns=2)
    first, second, *others = places
    gammas = group_by(numbers["linear"], "gamma")
    for (gamma, own), color in zip(gammas.items(), colours(len(gammas)), strict=True):
        for row in own:
            first.plot(row["predicted"], row["found"], "o", ms=3, color=color,
                       label=f"γ = {gamma:g}" if row is own[0] else None)  # fmt: skip
    top = max(max(row["predicted"]) for row in numbers["linear"])
    first.plot([0, top], [0, top], color="grey", lw=0.6)
    plain_axis(first, "linear: strength of the modes", legend=6)
    label_outside([[first]], "predicted", "trained")
    for name, style, color in (("expected", "-", COLOURS[0]), ("left", "o", COLOURS[1])):
        rows = numbers["linear"]
        second.plot([r["gamma"] for r in rows], [r[name] for r in rows], style, ms=4, color=color,
                    label="predicted" if name == "expected" else "trained")  # fmt: skip
    plain_axis(second, "linear: modes left", legend=7, xscale="log")
    second.set_xlabel("γ", fontsize=8.5)
    for axis, similarity in zip(others, SIMILARITIES, strict=True):
        rows = [row for row in numbers["images"] if row["similarity"] == similarity]
        decays = list(dict.fromkeys(row["decay"] for row in rows))
        for decay, color in zip(decays, COLOURS, strict=False):
            for row in rows:
                if row["decay"] == decay:
                    shown = [max(v, 1e-12) for v in row["spectrum"]]
                    axis.plot(range(1, len(shown) + 1), shown, color=color, lw=1,
                              label=f"decay {decay:g}" if row["seed"] == 0 else None)  # fmt: skip
        plain_axis(axis, f"SimCLR, {similarity}: spectrum", legend=7, yscale="log")
        axis.set_xlabel("mode", fontsize=8.5)
    return drawing


def by_decay(name: str) -> Callable[[Numbers], dict[str, list[Any]]]:
    return collect("images", "{similarity}, decay {decay:g}", name)


STUDY = Study(
    title="Contrastive learning: modes lost to weight decay, and the rank of SimCLR",
    source="Ziyin 2024; Ziyin, Lubana, Ueda & Tanaka 2023",
    paper="the SimCLR loss has a rotation symmetry; dimensional collapse",
    minutes={"smoke": 0.1, "cpu": 2, "paper": 60},
    settings=presets(PAPER, CPU, SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "linear: as many modes are left as eigenvalues of the signal exceed γ (difference of "
            "the counts)",
            "dimensional collapse: rotation symmetry → low rank",
            collect("linear", "γ = {gamma:g}", difference),
            lambda count: count == 0,
        ),
        Claim(
            "linear: strengths are the predicted ones within 10 % of the largest",
            "the landscape of self-supervised learning is solved",
            collect("linear", "γ = {gamma:g}", "error"),
            lambda error: error <= 0.1,
        ),
        Claim(
            "images: the effective rank of representations is lower at the largest decay than "
            "without",
            "dimensional collapse in self-supervised learning",
            fall,
            lambda change: change < 0,
        ),
    ),
    questions=(
        Question(
            "How many of 32 modes are above 0.001 of the largest?", by_decay("left"), medians
        ),
        Question(
            "Without decay, are all 32 modes above 0.001 of the largest?",
            collect("images", "{similarity}", "left", where=lambda row: row["decay"] == 0),
            yes_or_no(lambda left: left == 32),
        ),
        Question(
            "How often does a view of a test image find its twin among 512?",
            by_decay("accuracy"), medians,
        ),
    ),
    figure=figure,
    departures={
        "cpu": "a small network on 1000 images of 10×10, 80 epochs (20 in a first run)",
        "paper": "a small network on Fashion-MNIST at 10×10",
    },
)  # fmt: skip
