"""Made-up MNIST, CIFAR-10 and SST-2, which a fresh clone does not have."""

import numpy as np

from lawscope.studies import datasets
from lawscope.zoo.images.arrays import Dataset
from lawscope.zoo.text.sentences import Sentences


def made_up_images(name):
    shape = (28, 28) if name == "mnist" else (32, 32, 3)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 120)
    pixels = rng.integers(0, 120, size=(1200, *shape)) + 12 * labels.reshape(-1, *[1] * len(shape))
    pixels = pixels.astype(np.uint8)
    return Dataset(name, pixels, labels, pixels[::6], labels[::6], tuple(map(str, range(10))))


def made_up_sentences():
    words = ["dull bad poor film", "fine good great film"]
    labels = np.arange(80) % 2
    text = tuple(" ".join([words[k], *["very"] * (i % 7)]) for i, k in enumerate(labels))
    return Sentences(text, labels, text[:10], labels[:10], ("negative", "positive"))


def stand_in(monkeypatch):
    """Put them in the place of the data sets; the embedded Fashion-MNIST stays."""
    real = datasets.load_dataset
    monkeypatch.setattr(
        datasets,
        "load_dataset",
        lambda name: real(name) if "fashion" in name or "shapes" in name else made_up_images(name),
    )
    monkeypatch.setattr(datasets, "load_sentences", made_up_sentences)
    datasets.samples_of.cache_clear()
