"""What a study asks for: networks described by their full settings.

A :class:`Training` is a value. Two studies that describe the same network share one training,
because it is stored under the hash of this description (:attr:`Training.key`). Nothing here imports
torch, so that ``lawscope study list`` answers at once.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lawscope.training.recipe import Recipe

# Raise this when a change to data, networks or training makes stored networks differ from what the
# same settings would give today.
REVISION = 2


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
            epoch is always kept.
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

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return {"revision": REVISION, **_as_ever(asdict(self))}

    @property
    def key(self) -> str:
        """SHA-256 of the settings, shortened to 24 digits: the name of the entry in the store.

        Example:
            >>> a = Training(Network.of("feedforward", depth=4))
            >>> b = Training(Network.of("feedforward", depth=4), seed=1)
            >>> len(a.key), a.key == b.key
            (24, False)
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
        settings["data"] = {"per_class": data.per_class, "classes": data.classes}
        if data.repeats is not None:
            settings["data"]["repeats"] = data.repeats
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


def _as_ever(settings: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that came later where they say nothing: older trainings keep their key."""
    for name in ("repeats", "vocabulary"):
        if settings["data"][name] is None:
            del settings["data"][name]
    if settings["classifier"] == "learned":
        del settings["classifier"]
    if settings["start"] is not None:
        _as_ever(settings["start"])
    return settings
