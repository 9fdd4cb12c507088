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
from typing import Any, Literal

from lawscope.errors import LawscopeError
from lawscope.training.recipe import Recipe

# Raise this when a change to data, networks or training makes stored networks differ from what the
# same settings would give today, or when the same settings get another key.
REVISION = 3


@dataclass(frozen=True)
class Data:
    """Which samples a network is trained on, and tested on.

    Attributes:
        name: a dataset of ``lawscope.zoo.datasets``; ``fashion-mnist-10x10`` is always there.
        size: pixels a side that images are resized to; None keeps them.
        channel: the one colour channel to keep (CIFAR-10: 1, green), or None.
        flatten: vectors for feed-forward networks, or images (C, H, W).
        per_class: training samples of each class, or one number per class.
        classes: only these classes, renumbered 0, 1, … in this order; None: all.
        seed: of the draw.
        repeats: how often the training samples of each class are repeated (oversampling); None:
            once.
        vocabulary: of a text (``text:king-james-bible``), how many byte-pair tokens; None: no text.
            ``size`` is then the number of tokens of a window, and classes say nothing.
    """

    name: str = "fashion-mnist-10x10"
    size: int | None = None
    channel: int | None = None
    flatten: bool = True
    per_class: int | tuple[int, ...] = 100
    classes: tuple[int, ...] | None = None
    seed: int = 0
    repeats: tuple[int, ...] | None = None
    vocabulary: int | None = None

    def sizes(self, classes: int = 10) -> tuple[int, ...]:
        """Training samples of each class, repeats counted.

        Args:
            classes: how many there are, where ``per_class`` is one number.

        Example:
            >>> Data(per_class=(50, 5), repeats=(1, 10)).sizes()
            (50, 50)
        """
        drawn = self.per_class
        counts = (drawn,) * classes if isinstance(drawn, int) else drawn
        repeats = self.repeats or (1,) * len(counts)
        return tuple(n * times for n, times in zip(counts, repeats, strict=True))


@dataclass(frozen=True)
class Network:
    """A network of the zoo: its kind and the options of its builder.

    Example:
        >>> Network.of("feedforward", depth=8).settings["depth"]
        8
    """

    kind: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, kind: str, **options: Any) -> Network:
        """``Network.of("feedforward", depth=20, width=100)``."""
        frozen = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
        return cls(kind, tuple(sorted(frozen.items())))

    @property
    def settings(self) -> dict[str, Any]:
        """The options as a dictionary."""
        return dict(self.options)


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
        classifier: "learned", or "simplex": set to a simplex ETF before the first step and never
            trained (:func:`lawscope.fix_classifier`).
    """

    network: Network
    recipe: Recipe = field(default_factory=Recipe)
    data: Data = field(default_factory=Data)
    seed: int = 0
    checkpoints: tuple[int, ...] = ()
    start: Training | None = None
    copied: int | None = None
    trained: tuple[int, int] | None = None
    classifier: Literal["learned", "simplex"] = "learned"

    def __post_init__(self) -> None:
        """Refuse epochs that there are not: their weights could never be kept."""
        if never := sorted(e for e in self.checkpoints if not 0 <= e <= self.recipe.epochs):
            raise LawscopeError(
                f"checkpoints {', '.join(map(str, never))} of a training of {self.recipe.epochs} "
                f"epochs; give epochs from 0 to {self.recipe.epochs}."
            )

    def to_dict(self) -> dict[str, Any]:
        """What the weights depend on, as JSON has it: all settings but ``checkpoints``."""
        return {"revision": REVISION, **_without_checkpoints(asdict(self))}

    @property
    def kept(self) -> frozenset[int]:
        """The epochs whose weights an entry of this training must have."""
        return frozenset({*self.checkpoints, self.recipe.epochs})

    def keeping(self, epochs: Iterable[int]) -> Training:
        """The same training with the weights after these epochs kept too."""
        return replace(self, checkpoints=tuple(sorted({*self.checkpoints, *epochs})))

    @property
    def key(self) -> str:
        """SHA-256 of :meth:`to_dict`, shortened to 24 digits: the name of the entry in the store.

        Example:
            >>> a = Training(Network.of("feedforward", depth=4))
            >>> b = Training(Network.of("feedforward", depth=4), seed=1)
            >>> len(a.key), a.key == b.key, a.key == a.keeping([0, 10]).key
            (24, False, True)
        """
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def shape(self) -> str:
        """Trainings of equal shape can be trained as one stack: they differ in rates and seeds."""
        settings = self.to_dict()
        settings.pop("seed")
        settings["recipe"] = {
            k: v for k, v in settings["recipe"].items() if k not in ("lr", "seed", "weight_decay")
        }
        data = self.data
        settings["data"] = [data.per_class, data.classes, data.repeats]
        settings["start"] = self.start is not None
        return json.dumps(settings, sort_keys=True)

    def describe(self) -> str:
        """A few words for progress bars and messages."""
        options = ", ".join(f"{k} {v}" for k, v in self.network.options)
        recipe = self.recipe
        unit = "epochs" if self.data.vocabulary is None else "steps"
        return (
            f"{self.network.kind} ({options}) on {self.data.name}, {recipe.optimizer} "
            f"lr {recipe.lr:g}, {recipe.epochs} {unit}, seed {self.seed}"
        )


def each_once(trainings: Iterable[Training]) -> dict[str, Training]:
    """The networks by key in the order of their first mention, all epochs asked for kept.

    Example:
        >>> a = Training(Network.of("feedforward", depth=4), checkpoints=(0,))
        >>> (both,) = each_once([a, Training(a.network, checkpoints=(10,))]).values()
        >>> both.checkpoints
        (0, 10)
    """
    found: dict[str, Training] = {}
    for training in trainings:
        known = found.get(training.key)
        found[training.key] = training.keeping(known.checkpoints) if known else training
    return found


def _without_checkpoints(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a training, and of what it begins from, without the epochs to keep."""
    start = settings["start"]
    own = {name: value for name, value in settings.items() if name != "checkpoints"}
    return own if start is None else {**own, "start": _without_checkpoints(start)}
