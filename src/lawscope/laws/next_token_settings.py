"""How the law of next-token prediction is measured; checked before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from lawscope.capture.places import OFFSETS
from lawscope.capture.row_norm import RowNorm
from lawscope.capture.token_batches import TASKS, Task
from lawscope.errors import LawscopeError
from lawscope.statistics.comoments import PRECISIONS, Precision

Normalization = Literal["final-norm", "none", "layer-norm", "rms-norm"]


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement; see :func:`lawscope.next_token`.

    Raises:
        LawscopeError: one of them is not known; the sentence lists what is.
    """

    targets: tuple[str, ...]
    normalization: Normalization
    folds: int
    precision: Precision
    task: Task
    onehot: bool
    memory: int
    mask_token: int | None
    special_tokens: tuple[int, ...]
    seed: int
    every: int

    def __post_init__(self) -> None:
        _one_of("task", self.task, TASKS)
        _one_of("normalization", self.normalization, get_args(Normalization))
        _one_of("precision", self.precision, PRECISIONS)
        for target in self.targets:
            _one_of("targets", target, ("masked",) if self.task == "masked" else tuple(OFFSETS))
        if not self.targets or len(set(self.targets)) < len(self.targets):
            raise LawscopeError(f"targets={self.targets!r}: name each target once, at least one.")
        if not _is_whole(self.folds) or self.folds < 1:
            raise LawscopeError(f"folds={self.folds!r} is not a number of folds; pass 5, say.")
        if not _is_whole(self.every) or self.every < 1:
            raise LawscopeError(
                f"every={self.every!r} is not a step; pass 2 for every other block."
            )
        if self.task == "masked" and self.mask_token is None:
            raise LawscopeError(
                "task='masked' hides tokens behind the mask token; pass mask_token=, as "
                "tokenizer.mask_token_id gives it."
            )
        if self.mask_token is not None and not _is_whole(self.mask_token):
            raise LawscopeError(f"mask_token={self.mask_token!r} is no token id.")


def chosen_targets(targets: Sequence[str], task: Task) -> tuple[str, ...]:
    """What is predicted; in a masked model that is what was hidden.

    Raises:
        LawscopeError: no list of names, or targets of a masked model.
    """
    if isinstance(targets, str):
        raise LawscopeError(f"targets={targets!r} is a word; pass a list, as in ({targets!r},).")
    if task != "masked":
        return tuple(targets)
    if tuple(targets) not in (("next",), ("masked",)):
        raise LawscopeError(
            f"targets={tuple(targets)!r} have no meaning with task='masked', which predicts the "
            "tokens that it hides; leave targets out."
        )
    return ("masked",)


def chosen_special(tokens: Collection[int]) -> tuple[int, ...]:
    """Ids that are no text.

    Raises:
        LawscopeError: no token ids.
    """
    if not isinstance(tokens, Collection) or not all(_is_whole(token) for token in tokens):
        raise LawscopeError(
            f"special_tokens={tokens!r} are no token ids; pass whole numbers, as "
            "tokenizer.all_special_ids gives them."
        )
    return tuple(tokens)


def _is_whole(number: object) -> bool:
    """0, 1, 2, …; True is no number here."""
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise LawscopeError(f"{name}={value!r} is not known; choose from {listed}.")


def chosen_norm(normalization: Normalization, found: RowNorm) -> RowNorm:
    """The norm that every block's output goes through."""
    if normalization == "none":
        return RowNorm("none")
    if normalization == "layer-norm":
        return found if found.kind == "LayerNorm" else RowNorm("LayerNorm", 1e-5)
    if normalization == "rms-norm":
        return found if found.kind == "RMSNorm" else RowNorm("RMSNorm", 1e-6)
    return found
