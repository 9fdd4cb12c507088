"""What a study asks for: networks, what they are trained to do, and how, described by value.

Two studies that describe the same :class:`Training` share it, because it is stored under the hash
of what its weights depend on (:attr:`Training.key`); where they look at different epochs of it, all
of these are kept. Nothing here imports torch before a network is trained, so that
``lawscope study list`` answers at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol

from lawscope.errors import LawscopeError
from lawscope.lazy import Tensor, nn
from lawscope.studies.datasets import Data, ImageData, TextData, samples_of
from lawscope.training.loop import Trained, evaluate, train
from lawscope.training.optimizers import find_optimizer
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Note, Record, Recorder

AfterEpoch = Callable[[int], None]

# Raise this when a change to data, networks or training makes stored networks differ from what the
# same settings would give today, or when the same settings get another key.
REVISION = 4
FLOPS = 25e9
EVALUATED_WINDOWS = 256
# Measured on small models, beside what their weights cost: networks that go through a window token
# by token in Python wait for Python.
SLOW_STYLES: Mapping[str, float] = {"mamba": 40.0, "rwkv": 15.0}


class Task(Protocol):
    """What a network is trained to do; a kind of task is a frozen dataclass.

    ``train`` trains networks of one shape in place, deterministically: several as one batched
    program if the task ``stacks``, otherwise one; what it writes down by itself it returns, one
    set of records per network. ``evaluate`` gives loss and accuracy in eval mode; ``seconds`` is
    roughly what a training takes on one core, by the weights in matrices.
    """

    kind: ClassVar[str]

    def stacks(self, training: Training) -> bool:
        return False

    def train(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch,
        note: Note | None,
    ) -> Sequence[Mapping[str, Record]] | None: ...  # fmt: skip
    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained: ...
    def seconds(self, training: Training, weights: int) -> float: ...


@dataclass(frozen=True)
class Classification(Task):
    """Cross-entropy on classes, and the share of classes named rightly."""

    kind: ClassVar[str] = "classification"

    def stacks(self, training: Training) -> bool:
        """Feed-forward networks stack if the optimiser is elementwise; a recorder looks at one."""
        feedforward, rule = training.network.kind == "feedforward", training.recipe.optimizer
        return feedforward and not training.recorders and find_optimizer(rule).elementwise

    def train(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch,
        note: Note | None,
    ) -> None:  # fmt: skip
        from lawscope.training.stack import train_stack

        data = [samples_of(training.data) for training in trainings]
        recipes = [training.recipe for training in trainings]
        if not self.stacks(trainings[0]):
            train(models[0], data[0].x, data[0].y, recipes[0], after_epoch, note)
            return
        xs, ys = [each.x for each in data], [each.y for each in data]
        epochs = sorted({epoch for training in trainings for epoch in training.checkpoints})
        train_stack(models, xs, ys, recipes, after_epoch, up_to_date=epochs)

    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
        return evaluate(model, x, y)

    def seconds(self, training: Training, weights: int) -> float:
        """Multiply-adds of a pass from the weights, three times for a step."""
        positions = 1.0 if training.network.kind == "feedforward" else 64.0
        return 6 * positions * weights * training.data.count * training.recipe.epochs / FLOPS


@dataclass(frozen=True)
class LanguageModelling(Task):
    """Cross-entropy on the next token, or on hidden ones; an epoch of the recipe is one step."""

    kind: ClassVar[str] = "language"
    # The token that hides others from a masked language model; None: next tokens.
    mask: int | None = None

    def train(
        self, trainings: Sequence[Training], models: Sequence[nn.Module], after_epoch: AfterEpoch,
        note: Note | None,
    ) -> None:  # fmt: skip
        from lawscope.training.language import train_language

        windows, recipe = samples_of(trainings[0].data).x, trainings[0].recipe
        train_language(models[0], windows, recipe, self.mask, after_epoch, note)

    def evaluate(self, model: nn.Module, x: Tensor, y: Tensor) -> Trained:
        """Per token, on the first windows: that is enough."""
        from lawscope.training.language import evaluate_language

        return evaluate_language(model, x[:EVALUATED_WINDOWS], self.mask)

    def seconds(self, training: Training, weights: int) -> float:
        """Multiply-adds of the windows of all steps."""
        assert isinstance(training.data, TextData)
        slow = SLOW_STYLES.get(training.network.settings.get("style", ""), 1.0)
        tokens = training.recipe.batch_size * training.data.window * training.recipe.epochs
        return 6 * weights * tokens * slow / FLOPS


@dataclass(frozen=True)
class Network:
    """A network of ``lawscope.zoo`` or of ``registry.NETWORKS``, with options of its builder."""

    kind: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, kind: str, **options: Any) -> Network:
        frozen = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
        return cls(kind, tuple(sorted(frozen.items())))

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.options)

    def describe(self) -> str:
        return f"{self.kind} ({', '.join(f'{name} {value}' for name, value in self.options)})"


@dataclass(frozen=True)
class Training:
    """One network and how it comes about: everything its weights depend on.

    Attributes:
        network: what is trained.
        recipe: optimiser, learning rate, epochs (steps of a language model), batch size, weight
            decay, seed of the order.
        data: what it is trained on.
        seed: of the first weights.
        checkpoints: epochs after which the weights are kept; 0 is the untrained network. The last
            epoch is always kept. The weights do not depend on it, and so the key does not.
        start: the training this one begins from, or None for fresh weights.
        copied: how many of its first layers are copied from ``start``; None copies everything.
        trained: layers [first, last) that learn, counted from 0 over the children of the network
            (the classifier is the last child); None: all of them.
        prepare: what is done to the network before its first step, as registered in
            ``lawscope.studies.registry.PREPARATIONS``; "" is nothing.
        task: what it is trained to do.
        recorders: what is written down during training; such a network is trained by itself, and
            so its weights are those of others only to rounding.
    """

    network: Network
    recipe: Recipe = field(default_factory=Recipe)
    data: Data = field(default_factory=ImageData)
    seed: int = 0
    checkpoints: tuple[int, ...] = ()
    start: Training | None = None
    copied: int | None = None
    trained: tuple[int, int] | None = None
    prepare: str = ""
    task: Task = field(default_factory=Classification)
    recorders: tuple[Recorder, ...] = ()

    def __post_init__(self) -> None:
        if never := sorted(e for e in self.checkpoints if not 0 <= e <= self.recipe.epochs):
            raise LawscopeError(
                f"checkpoints {', '.join(map(str, never))} of a training of {self.recipe.epochs} "
                f"epochs; give epochs from 0 to {self.recipe.epochs}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return what the weights depend on, as it comes back from a file of JSON."""
        document: dict[str, Any] = json.loads(self._text())
        return document

    def _text(self) -> str:
        settings = {"revision": REVISION, **self._settings()}
        return json.dumps(settings, sort_keys=True, separators=(",", ":"))

    def _settings(self) -> dict[str, Any]:
        return {
            "network": [self.network.kind, self.network.settings],
            "recipe": asdict(self.recipe),
            "data": [self.data.kind, asdict(self.data)],  # type: ignore[call-overload]
            "task": [self.task.kind, asdict(self.task)],  # type: ignore[call-overload]
            "seed": self.seed,
            "start": self.start and self.start._settings(),
            "copied": self.copied,
            "trained": self.trained,
            "prepare": self.prepare,
            "recorders": [recorder.name for recorder in self.recorders],
        }

    @property
    def kept(self) -> frozenset[int]:
        """The epochs whose weights an entry of this training must have."""
        return frozenset({*self.checkpoints, self.recipe.epochs})

    def keeping(self, epochs: Iterable[int]) -> Training:
        """Return the same training with the weights after these epochs kept too."""
        return replace(self, checkpoints=tuple(sorted({*self.checkpoints, *epochs})))

    @property
    def key(self) -> str:
        """The first 24 digits of the SHA-256 of :meth:`to_dict`: the name in the store."""
        return hashlib.sha256(self._text().encode()).hexdigest()[:24]

    @property
    def shape(self) -> str:
        """Trainings of equal shape can be trained as one stack: they differ in rates and seeds."""
        settings = self._settings()
        del settings["seed"]
        for name in ("lr", "seed", "weight_decay"):
            del settings["recipe"][name]
        for name in self.data.varying:
            settings["data"][1].pop(name, None)
        settings["start"] = self.start is not None
        return json.dumps(settings, sort_keys=True)

    def describe(self) -> str:
        """Return a few words for progress bars and messages."""
        recipe = self.recipe
        return (
            f"{self.network.describe()} on {self.data.source}, {recipe.optimizer} "
            f"lr {recipe.lr:g}, {recipe.epochs} {self.data.unit}, seed {self.seed}"
        )


def each_once(trainings: Iterable[Training]) -> dict[str, Training]:
    """Return networks by key in the order of their first mention, all epochs asked for kept."""
    found: dict[str, Training] = {}
    for training in trainings:
        known = found.get(training.key)
        found[training.key] = training.keeping(known.checkpoints) if known else training
    return found


def with_starts(trainings: Iterable[Training]) -> dict[str, Training]:
    """Return the trainings and all they begin from, each once, by key; starts come first."""
    return each_once(each for training in trainings for each in lineage(training))


def lineage(training: Training) -> list[Training]:
    """Return what a training begins from, and what that begins from, the first of them first."""
    return [*(lineage(training.start) if training.start else ()), training]
