"""The networks of the family: two convolutions and three dense layers, one image a step.

Shapes are drawn; CIFAR-10 is used where a data directory has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import lawscope as ls
from lawscope.lazy import Tensor, nn, np, torch
from lawscope.studies.datasets import ImageData, Samples, samples_of
from lawscope.studies.figures import plain_axis
from lawscope.studies.panels import Number, Settings, collect, presets
from lawscope.studies.plan import FLOPS, AfterEpoch, Network, Task, Training
from lawscope.studies.study import Axes, Lab, NotTried, Numbers
from lawscope.training.loop import Trained, evaluate
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Note, Record

SHAPES = "shapes"
TRAJECTORY = "trajectory"
# Of the talk: lr 0.005, one sample a step, 10⁵ steps on GeoMNIST and 3·10⁵ on CIFAR-10, 5000
# images of each class of CIFAR-10. It gives no number of shapes.
SHAPES_WORLD: dict[str, Any] = {
    "dataset": "geometric-shapes", "classes": [0, 1, 2], "channels": 1, "per_class": 2000,
    "lr": 0.005, "steps": 100_000, "batch": 1, "every": 20, "probe": 20,
}  # fmt: skip
CIFAR_WORLD = {
    **SHAPES_WORLD, "dataset": "cifar10", "channels": 3, "per_class": 5000, "steps": 300_000,
}  # fmt: skip
CIFAR_TWO, CIFAR_THREE = "CIFAR-10, K = 2", "CIFAR-10, K = 3"
CHECKPOINTS = [0, 20, 50, 100, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 6000, 10_000]
SHORT_SHAPES = {**SHAPES_WORLD, "steps": 40_000}
SHORT_CIFAR = {**CIFAR_WORLD, "steps": 40_000, "per_class": 2000}
TINY_SHAPES = {**SHAPES_WORLD, "steps": 320, "per_class": 40, "every": 2, "probe": 5, "lr": 0.02}
SETTINGS = {
    "worlds": {
        SHAPES: SHAPES_WORLD, CIFAR_TWO: {**CIFAR_WORLD, "classes": [0, 1]},
        CIFAR_THREE: CIFAR_WORLD,
    },
    "seeds": 5,
}  # fmt: skip
CPU = {
    "worlds": {
        SHAPES: SHORT_SHAPES, CIFAR_TWO: {**SHORT_CIFAR, "classes": [0, 1]},
        CIFAR_THREE: SHORT_CIFAR,
    },
    "seeds": 5,
}  # fmt: skip
SMOKE = {"worlds": {SHAPES: TINY_SHAPES}, "seeds": 2}
DEPARTURES = {
    "cpu": "40,000 steps instead of 100,000 (shapes) and 300,000 (CIFAR-10), and 2000 images a "
    "class of CIFAR-10 (validation accuracy under 90 % for K = 3)",
    "paper": "LeNet's widths, and our own shapes",
}
NO_CIFAR = (
    "CIFAR-10 is in no data directory; put cifar-10-python.tar.gz into the folder that "
    "LAWSCOPE_DATA names"
)


@dataclass(frozen=True)
class NoisyImages(ImageData):
    """Images of which a share of every class has the label of one of the other classes, for good.

    The talk corrupts labels of its training set; test labels stay. At a share of (K−1)/K labels say
    nothing.
    """

    kind: ClassVar[str] = "noisy images"
    unit: ClassVar[str] = "steps"
    varying: ClassVar[tuple[str, ...]] = ("seed", "label_noise")
    label_noise: float = 0.0

    def load(self) -> Samples:
        own = {name: value for name, value in vars(self).items() if name != "label_noise"}
        # The same tensors whatever the noise: networks in lock-step have them in memory once.
        clean = samples_of(ImageData(**own))
        labels = corrupt(clean.y, self.label_noise, self.seed)
        return Samples(clean.x, labels, clean.x_test, clean.y_test, clean.class_names)


def corrupt(y: Tensor, share: float, seed: int) -> Tensor:
    """Give a share of the samples of every class one of the other labels, evenly at random."""
    generator = torch.Generator().manual_seed(seed)
    labels, classes = y.clone(), int(y.max()) + 1
    for label in range(classes):
        own = torch.nonzero(y == label)[:, 0]
        chosen = own[torch.randperm(len(own), generator=generator)[: round(share * len(own))]]
        moves = torch.randint(1, classes, (len(chosen),), generator=generator)
        labels[chosen] = (label + moves) % classes
    return labels


@dataclass(frozen=True)
class LockStep(Task):
    """Cross-entropy on single images, all networks of a stack in one step; an epoch is a step.

    Every so many steps, mean logits by class, loss and accuracy on the first ``probe`` test images
    of each class are written down.
    """

    kind: ClassVar[str] = "lock-step"
    every: int = 50
    probe: int = 30

    def stacks(self, training: Training) -> bool:
        return True

    def train(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch,
        note: Note | None,
    ) -> list[Mapping[str, Record]]:  # fmt: skip
        from lawscope.training.lockstep import train_lockstep

        data = [samples_of(training.data) for training in trainings]
        found = train_lockstep(
            models,
            [each.x for each in data],
            [each.y for each in data],
            [training.recipe for training in trainings],
            probe_of(data[0], self.probe),
            self.every,
            after_epoch,
            up_to_date={step for training in trainings for step in training.checkpoints},
        )
        parts = zip(found.means, found.losses, found.accuracies, strict=True)
        return [
            {TRAJECTORY: {"step": found.steps, "means": m, "loss": loss, "accuracy": accuracy}}
            for m, loss, accuracy in parts
        ]

    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
        return evaluate(model, x, y)

    def seconds(self, training: Training, weights: int) -> float:
        """Each weight of a filter is used at about twenty places, each step is three passes."""
        recipe = training.recipe
        return 6 * 20 * weights * recipe.batch_size * recipe.epochs / FLOPS


def probe_of(data: Samples, per_class: int) -> tuple[Tensor, Tensor]:
    """Return the first test images of each class, with their labels."""
    return ls.LogitMeans(per_class=per_class).choose(data.x_test, data.y_test)


@lru_cache(maxsize=1)
def have_cifar10() -> bool:
    from lawscope.zoo.images.cifar import find_cifar10

    return find_cifar10() is not None


def worlds_of(settings: Settings) -> dict[str, Settings]:
    """Return what the networks of a study are trained on, by name; CIFAR-10 only if it is there."""
    worlds: Mapping[str, Settings] = settings["worlds"]
    return {
        name: world
        for name, world in worlds.items()
        if world["dataset"] != "cifar10" or have_cifar10()
    }


def trainings_of(settings: Settings, world: Settings, label_noise: float = 0.0) -> list[Training]:
    """Plan the networks of one world, one per seed: of first weights, order and images drawn."""
    classes = tuple(world["classes"])
    recipe = {"lr": world["lr"], "epochs": world["steps"], "batch_size": world["batch"]}
    per_class = world["per_class"]
    return [
        Training(
            Network.of("lenet", channels=world["channels"], classes=len(classes)),
            Recipe("sgd", **recipe, weight_decay=0.0, seed=seed),
            NoisyImages(
                world["dataset"],
                flatten=False,
                per_class=per_class if isinstance(per_class, int) else tuple(per_class),
                classes=classes,
                seed=seed,
                label_noise=label_noise,
            ),
            seed,
            tuple(world.get("checkpoints", ())),
            task=LockStep(world["every"], world["probe"]),
        )
        for seed in range(settings["seeds"])
    ]


def plan(settings: Settings) -> list[Training]:
    """Plan the networks of all worlds."""
    worlds = worlds_of(settings).values()
    return [training for world in worlds for training in trainings_of(settings, world)]


def trajectory_of(lab: Lab, training: Training) -> Numbers:
    """Return what was written down along a training as float64 arrays, and how it ended."""
    run = lab.run(training)
    record = run.records[TRAJECTORY]
    return {
        **{name: tensor.double().numpy() for name, tensor in record.items()},
        "seed": training.seed, "train_loss": run.loss, "train_accuracy": run.accuracy,
        "test_accuracy": run.test_accuracy,
    }  # fmt: skip


def family_presets(
    paper: Settings | None = None, cpu: Settings | None = None, smoke: Settings | None = None
) -> dict[str, dict[str, Any]]:
    """Return the settings of every preset: those of the family, and what a study adds."""
    common = paper or {}
    return presets(
        {**SETTINGS, **common},
        {**CPU, **common, **(cpu or {})},
        {**SMOKE, **common, **(smoke or {})},
    )


def with_checkpoints(settings: Settings, names: Sequence[str]) -> dict[str, Settings]:
    """Return some of the worlds, with weights kept along their training and at its end."""
    return {
        name: {**world, "checkpoints": [c for c in CHECKPOINTS if c < world["steps"]]}
        for name, world in worlds_of(settings).items()
        if name in names
    }


def of_world(rows: str, world: str, value: Number) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return the value of a sentence about one world: a number of each of its rows."""

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        own = [row for row in numbers[rows] if row["world"] == world]
        if not own and world != SHAPES:
            raise NotTried(NO_CIFAR)
        return collect(rows, "{world}", value, where=lambda row: row["world"] == world)(numbers)

    return read


def steps_axis(axis: Axes, title: str, legend: float = 0, **scales: Any) -> None:
    """Give a panel along training the common look, with few of its long numbers."""
    from matplotlib.ticker import MaxNLocator

    plain_axis(axis, title, legend, **scales)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=4))


def thinned(values: Any, count: int = 60) -> list[float | None]:
    """Return at most so many numbers, evenly along the first axis, to five digits."""
    kept = np.asarray(values)[np.linspace(0, len(values) - 1, min(count, len(values))).astype(int)]
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in kept]
