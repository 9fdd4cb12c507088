"""What networks are trained and tested on, described by value, and the tensors behind it.

A kind of data is a frozen dataclass: what it holds is part of the key of a training, ``load`` makes
the tensors. Nothing here imports torch before that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from lawscope.errors import LawscopeError
from lawscope.lazy import Tensor, np, torch

if TYPE_CHECKING:
    from lawscope.zoo.images.arrays import Dataset, Images, Labels

# Mean and deviation of the channels, pixels from 0 to 1, by which the scripts of He & Su 2023 and
# Fang et al. 2021 standardise images.
FASHION = ((0.286,), (0.353,))
CIFAR = ((0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261))
GREEN = ((0.4822,), (0.243,))


@dataclass(frozen=True, eq=False)
class Samples:
    """Training and test data of one network.

    ``x`` are images, vectors, or rows of token ids (padded with 0); of a text, windows of tokens.
    ``y`` are classes; of a text, the token after each.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    class_names: tuple[str, ...]


class Data:
    """Which samples a network is trained on, and tested on.

    ``source`` names what must be on this machine; ``find`` finds or downloads it; ``load`` returns
    the samples, always the same.
    """

    kind: ClassVar[str] = ""
    # The epochs of a recipe are counted in these.
    unit: ClassVar[str] = "epochs"
    # In which the networks of one stack may differ.
    varying: ClassVar[tuple[str, ...]] = ("seed",)

    @property
    def source(self) -> str:
        raise NotImplementedError

    def find(self) -> None:
        raise NotImplementedError

    def load(self) -> Samples:
        raise NotImplementedError

    @property
    def count(self) -> int:
        """How many training samples there are, roughly, to tell how long training takes."""
        return 1000


@dataclass(frozen=True)
class ImageData(Data):
    """Images of one of the zoo's datasets.

    Attributes:
        name: a dataset of ``lawscope.zoo``; ``fashion-mnist-10x10`` is always there.
        size: pixels a side that images are resized to; None keeps them.
        channel: the one colour channel to keep (CIFAR-10: 1, green), or None.
        flatten: vectors for feed-forward networks, or images (C, H, W).
        per_class: training samples of each class, or one number per class.
        classes: only these classes, renumbered 0, 1, … in this order; None: all.
        seed: of the draw.
        repeats: how often training samples of each class are repeated (oversampling); None: once.
    """

    kind: ClassVar[str] = "images"
    name: str = "fashion-mnist-10x10"
    size: int | None = None
    channel: int | None = None
    flatten: bool = True
    per_class: int | tuple[int, ...] = 100
    classes: tuple[int, ...] | None = None
    seed: int = 0
    repeats: tuple[int, ...] | None = None

    @property
    def source(self) -> str:
        return self.name

    @property
    def count(self) -> int:
        """All classes together; there are ten where nothing says otherwise."""
        return sum(self.sizes())

    def sizes(self, classes: int = 10) -> tuple[int, ...]:
        """Return the training samples of each class, repeats counted."""
        counts = (self.per_class,) * classes if isinstance(self.per_class, int) else self.per_class
        repeats = self.repeats or (1,) * len(counts)
        return tuple(n * times for n, times in zip(counts, repeats, strict=True))

    def find(self) -> None:
        load_dataset(self.name)

    def load(self) -> Samples:
        from lawscope.zoo.images.sampling import balanced

        whole = load_dataset(self.name)
        classes = self.classes or tuple(range(len(whole.class_names)))
        if max(classes) >= len(whole.class_names):
            raise LawscopeError(
                f"{self.name} has no class {max(classes)}: classes are counted from 0."
            )
        repeats = (1,) * len(classes) if self.repeats is None else self.repeats
        if len(repeats) != len(classes) or min(repeats) < 1:
            raise LawscopeError(
                f"repeats {repeats} do not fit {len(classes)} classes: give each a whole number of "
                "at least 1."
            )
        x, y = balanced(*_only(whole.x_train, whole.y_train, classes), self.per_class, self.seed)
        rows = np.repeat(np.arange(len(y)), np.asarray(repeats)[y])
        test, y_test = _only(whole.x_test, whole.y_test, classes)
        names = tuple(whole.class_names[label] for label in classes)
        labels, test_labels = torch.from_numpy(y[rows]), torch.from_numpy(y_test)
        return Samples(self._inputs(x[rows]), labels, self._inputs(test), test_labels, names)

    def _inputs(self, x: Images) -> Tensor:
        from lawscope.zoo.images.arrays import as_inputs
        from lawscope.zoo.images.folder import resize

        if self.channel is not None:
            x = x[..., self.channel]
        if self.size is not None and x.shape[1:3] != (self.size, self.size):
            x = resize(x, (self.size, self.size))
        return as_inputs(x, flatten=self.flatten)


@dataclass(frozen=True)
class StandardisedImages(ImageData):
    """Images whose channels have the mean and deviation of the whole dataset taken off.

    Attributes:
        moments: means and deviations of the channels, of pixels from 0 to 1.
    """

    kind: ClassVar[str] = "standardised images"
    moments: tuple[tuple[float, ...], tuple[float, ...]] = FASHION

    def _inputs(self, x: Images) -> Tensor:
        # Vectors have one channel; images are (n, C, H, W).
        shape = (-1,) if self.flatten else (-1, 1, 1)
        mean, deviation = (torch.tensor(each).view(shape) for each in self.moments)
        return ((super()._inputs(x) + 1) / 2 - mean) / deviation


@dataclass(frozen=True)
class SentenceData(Data):
    """Sentences of SST-2 as tokens, of the tokenizer in the folder ``encoder`` or else of words."""

    kind: ClassVar[str] = "sentences"
    encoder: str = ""
    length: int = 32
    per_class: int = 100
    seed: int = 0

    @property
    def source(self) -> str:
        return f"sst2:{self.encoder}" if self.encoder else "sst2"

    @property
    def count(self) -> int:
        return 2 * self.per_class

    def find(self) -> None:
        from lawscope.zoo.networks.encoders import find_encoder

        load_sentences()
        if self.encoder:
            find_encoder(self.encoder)

    def load(self) -> Samples:
        from lawscope.zoo.images.sampling import balanced
        from lawscope.zoo.networks.encoders import folder_tokens
        from lawscope.zoo.text.sentences import tokens, vocabulary

        whole = load_sentences()
        rows, y = balanced(np.arange(len(whole.train)), whole.y_train, self.per_class, self.seed)

        def numbered(sentences: Sequence[str]) -> Tensor:
            if self.encoder:
                return torch.from_numpy(folder_tokens(self.encoder, sentences, self.length))
            return torch.from_numpy(tokens(sentences, vocabulary(whole.train), self.length))

        x, x_test = numbered([whole.train[row] for row in rows]), numbered(whole.test)
        labels, test_labels = torch.from_numpy(y), torch.from_numpy(whole.y_test)
        return Samples(x, labels, x_test, test_labels, whole.class_names)


@dataclass(frozen=True)
class TextData(Data):
    """A text as windows of byte-pair tokens; ``name`` may be the path of a UTF-8 file."""

    kind: ClassVar[str] = "text"
    unit: ClassVar[str] = "steps"
    name: str = "king-james-bible"
    window: int = 64
    vocabulary: int = 512

    @property
    def source(self) -> str:
        return f"text:{self.name}"

    def find(self) -> None:
        from lawscope.zoo.text.corpus import load_text

        load_text(self.name)

    def load(self) -> Samples:
        from lawscope.zoo.text.corpus import text_windows

        parts = text_windows(self.name, self.window, self.vocabulary)
        train, test = (torch.from_numpy(part) for part in parts)
        return Samples(train, train[:, 1:], test, test[:, 1:], ())


@lru_cache(maxsize=4)
def load_dataset(name: str) -> Dataset:
    """Return a dataset of the zoo, read once."""
    from lawscope.zoo.images.catalogue import load

    return load(name)


@lru_cache(maxsize=1)
def load_sentences() -> Any:
    """Return SST-2, read once."""
    from lawscope.zoo.text.sentences import load_sst2

    return load_sst2()


@lru_cache(maxsize=16)
def samples_of(data: Data) -> Samples:
    """Return the samples of some data, made once."""
    return data.load()


def find_absent(data: Iterable[Data]) -> dict[str, str]:
    """Return the sources that cannot be had, each with the sentence how to get it.

    All are tried at once, so that a silent network costs one time-out; what is being downloaded is
    waited for.
    """
    found: dict[str, str] = {}

    def look(each: Data) -> None:
        try:
            each.find()
        except (LawscopeError, OSError) as error:
            found[each.source] = f"{str(error).rstrip('.')}."

    # Daemons, so that none can hold up the end of the program.
    by_source = {each.source: each for each in data}
    threads = [threading.Thread(target=look, args=(d,), daemon=True) for d in by_source.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        # In short steps, so that ctrl-C is heard.
        while thread.is_alive():
            thread.join(0.2)
    return dict(sorted(found.items()))


def _only(x: Images, y: Labels, classes: tuple[int, ...]) -> tuple[Images, Labels]:
    """Return the samples of some classes, renumbered in this order."""
    renumbered = np.full(int(y.max(initial=0)) + 1, -1)
    renumbered[list(classes)] = np.arange(len(classes))
    kept = renumbered[y] >= 0
    return x[kept], renumbered[y[kept]]
