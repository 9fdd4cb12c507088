"""Which class and which fold a sample belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.whole_number import MOST_FOLDS, whole_number


class GroupIndex:
    """Discovers classes as labels arrive and deals samples out to folds by their content.

    A group is a (class, fold) pair with the number ``class position · folds + fold``, where the
    position is the order in which classes were first met. Groups therefore keep their numbers
    while new classes turn up. The fold of a sample comes from a hash of its content, so that it is
    the same in every order, batch and process. With one fold no sample is ever set apart.

    Example:
        >>> index = GroupIndex(folds=2)
        >>> index.assign(torch.tensor([7, 7, -3, 7]), hashes=torch.tensor([4, 5, 6, 7])).tolist()
        [2, 3, 0, 3]
        >>> index.classes
        [-3, 7]
    """

    def __init__(self, folds: int = 1) -> None:
        self.folds = whole_number("folds", folds, 1, "are none", MOST_FOLDS)
        self.adopt(())

    @property
    def groups(self) -> int:
        return len(self.classes) * self.folds

    def assign(self, labels: Tensor, hashes: Tensor | None = None) -> Tensor:
        """Return the groups (B,) on the CPU of integer labels (B,); new classes are added.

        ``hashes`` are of the samples' content, shape (B,); without folds they are not needed.
        """
        # By NumPy: on a few hundred labels torch would spend its time on being called.
        array = labels.detach().to("cpu", torch.int64).numpy()
        present, inverse = np.unique(array, return_inverse=True)
        self.adopt(dict.fromkeys([*self.classes, *present.tolist()]))
        at = np.array([self.position[label] for label in present.tolist()], dtype=np.int64)
        positions = torch.from_numpy(at[inverse])
        if self.folds == 1:
            return positions
        if hashes is None:
            raise LawscopeError("Folds are dealt by content; pass a hash of every sample.")
        return positions * self.folds + hashes.cpu() % self.folds

    def adopt(self, classes: Sequence[int] | dict[int, None]) -> None:
        """Take over an order of classes."""
        self.classes = list(classes)
        self.position = {label: i for i, label in enumerate(classes)}
