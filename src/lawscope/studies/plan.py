"""What a study asks for: networks described by their full settings.

A :class:`Training` is a value. Two studies that describe the same network share one training,
because it is stored under the hash of what its weights depend on (:attr:`Training.key`); where they
look at different epochs of it, all of these are kept. Nothing here imports torch, so that
``lawscope study list`` answers at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lawscope.errors import LawscopeError
from lawscope.studies.datasets import Data, ImageData
from lawscope.studies.tasks import Classification, Task
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Recorder

# Raise this when a change to data, networks or training makes stored networks differ from what the
# same settings would give today, or when the same settings get another key.
REVISION = 4


@dataclass(frozen=True)
class Network:
    """A network of ``lawscope.zoo`` or of ``kinds.NETWORKS``, with the options of its builder."""

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
            ``lawscope.studies.kinds.PREPARATIONS``; "" is nothing.
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
        """Return what the weights depend on, as JSON values."""
        return {"revision": REVISION, **self._settings()}

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
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def shape(self) -> str:
        """Trainings of equal shape can be trained as one stack: they differ in rates and seeds."""
        settings = self._settings()
        del settings["seed"]
        for name in ("lr", "seed", "weight_decay"):
            del settings["recipe"][name]
        settings["data"][1].pop("seed", None)
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
