"""The classes of labelled data: labels of a batch, and what classes are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lawscope.arrays import IntArray
from lawscope.capture.session import Session
from lawscope.checks import is_list
from lawscope.data.batches import Batch
from lawscope.data.labels import as_classes
from lawscope.errors import LawscopeError, NotApplicableError


class ClassLabels:
    """The labels of batches as class numbers, and what the classes are called.

    Args:
        session: the network and its data.
        law: for which they are read.
        given: names of the classes. Labels that are text get the places of their names in these,
            where all are there, and otherwise in their own sorted order.
        distributed: whether other ranks have other shares of the data.

    Attributes:
        first: classes of the first batch; None where it has no labels.
        names: the given ones, or those of labels that are text.

    Raises:
        NotApplicableError: the targets do not name one class per sample.
    """

    def __init__(
        self, session: Session, law: str, given: Sequence[str] | None, distributed: bool
    ) -> None:
        check_class_names(given, session)
        found, shape = session.source.label_names, session.output_shape
        if found and distributed:
            raise LawscopeError(
                f"The labels are text ('{found[0]}'), which each rank would number by its own "
                "share; encode them as class numbers."
            )
        self.law = law
        self.names = (found or None) if given is None else given
        self._places: Tensor | None = None
        if found and given is not None and set(found) <= set(given):
            self._places = torch.tensor([list(given).index(name) for name in found])
        self._scores = bool(shape) and math.prod(shape[1:]) == 1
        self._values: set[int] = set()
        self.first = None if session.example.labels is None else self.read(session.example)

    def read(self, batch: Batch) -> Tensor:
        """Return the classes of a batch, int64 of shape (n,)."""
        if batch.labels is None:
            raise LawscopeError(
                f"A batch has no labels; {self.law} needs batches (x, y) or dicts with 'labels'."
            )
        classes = as_classes(batch.labels, batch.size, self.law)
        if self._places is not None:
            classes = self._places[classes.cpu()]
        if self._scores:
            self._values.update(classes.tolist())
            if len(self._values) > 2:
                raise NotApplicableError(
                    "The targets look like a regression (the network returns one number per sample "
                    f"and they have {len(self._values)} values or more): {self.law} needs one "
                    "class per sample; if they are classes, measure the network without its last "
                    "layer."
                )
        return classes


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
    if not is_list(given) or not hasattr(given, "__getitem__"):
        said = f"class_names={given!r} is not a list of names"
        raise LawscopeError(f"{said}; give one name per class.")


def _wrong_number(given: Sequence[str], classes: str) -> LawscopeError:
    return LawscopeError(
        f"There are {len(given)} class names for {classes}; give one per class in the order of "
        "the labels, or leave class_names= out."
    )
