"""The classes of labelled data: labels of a batch, and what classes are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lawscope.arrays import IntArray
from lawscope.capture.session import Session
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError
from lawscope.statistics.features import as_labels


def find_labels(batch: Batch, law: str) -> Tensor:
    """Return the labels of a batch, one per sample, as integers."""
    if batch.labels is None:
        raise LawscopeError(
            f"A batch has no labels; {law} needs batches (x, y) or dicts with 'labels'."
        )
    return as_labels(batch.labels, batch.size)


def check_held(held: int, memory: int) -> None:
    """Refuse to hold more bytes of features than allowed, of data that can be read only once."""
    if held > memory:
        raise LawscopeError(
            "The data can be read only once, and its features have outgrown "
            f"memory={memory / 1e6:.0f}MB; raise memory=, or pass a list or a DataLoader "
            "that can be read twice."
        )


def class_names_of(given: Sequence[str] | None, classes: IntArray) -> tuple[str, ...]:
    """Return names of the sorted labels: those given, in order or by label, or labels as text."""
    if given is None:
        return tuple(str(c) for c in classes)
    _check_list(given)
    # Names of folders may hold bytes that are not text, which nothing could print.
    names = [str(name).encode("utf-8", "replace").decode() for name in given]
    if len(names) == len(classes):
        return tuple(names)
    # Names for more classes than were seen: labels index into them.
    if not len(classes) or (classes.min() >= 0 and classes.max() < len(names)):
        return tuple(names[c] for c in classes)
    raise _wrong_number(given, f"{len(classes)} classes")


def check_class_names(given: Sequence[str] | None, session: Session) -> None:
    """Refuse, before the data goes through, names that cannot be those of its classes."""
    if given is None:
        return
    _check_list(given)
    source, first = session.source, session.example.labels
    known, said = 0, "classes"
    # Of a DataLoader the source counts the classes of its data set; a sampler may show fewer.
    if source.classes is not None and isinstance(source.data, Sequence):
        known = source.classes
    elif first is not None and not first.is_floating_point():
        known, said = len(first.unique()), "classes of the first batch"
    if len(given) < known:
        raise _wrong_number(given, f"{known} {said}")


def _check_list(given: Any) -> None:
    listed = hasattr(given, "__len__") and hasattr(given, "__getitem__")
    if not listed or isinstance(given, str | bytes | Mapping) or getattr(given, "ndim", 1) != 1:
        said = f"class_names={given!r} is not a list of names"
        raise LawscopeError(f"{said}; give one name per class.")


def _wrong_number(given: Sequence[str], classes: str) -> LawscopeError:
    return LawscopeError(
        f"There are {len(given)} class names for {classes}; give one per class in the order of "
        "the labels, or leave class_names= out."
    )
