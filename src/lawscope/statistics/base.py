"""The base class of every streaming statistic."""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.precision import without_autocast

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Statistic")


def guarded(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Run a method of a statistic outside inference mode, autograd and autocast.

    Sums that were begun inside ``torch.inference_mode()`` could not go on outside, nor the other
    way round. A method may raise a :class:`LawscopeError` before it has changed anything; any
    other exception leaves the sums half way, and the statistic refuses to go on.
    """

    @functools.wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.check_complete()
        try:
            with torch.inference_mode(False), torch.no_grad(), without_autocast():
                return method(self, *args, **kwargs)
        except LawscopeError:
            raise
        except BaseException:
            self._incomplete = True
            raise

    return run


class Statistic(ABC):
    """A streaming accumulator: ``update / merge / compute / reset / state_dict / load_state_dict``.

    Any split into batches, any order of merging and any interruption by a saved state gives the
    same result, up to rounding. A subclass writes ``update`` and ``compute`` (decorated with
    :func:`guarded`), ``_start`` (of empty sums, called by ``reset``), ``_merge``, ``_state`` and
    ``_load``, and declares its settings.
    """

    _incomplete = False

    @property
    @abstractmethod
    def settings(self) -> dict[str, str | int | float | bool]:
        """What statistics must agree in to be merged or to take over each other's state."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the result of everything seen."""

    def reset(self) -> None:
        """Forget everything seen."""
        self._incomplete = False
        with torch.inference_mode(False):
            self._start()

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _merge(self, other: Self) -> None: ...

    @abstractmethod
    def _state(self) -> dict[str, Tensor]: ...

    @abstractmethod
    def _load(self, state: Mapping[str, Tensor]) -> None: ...

    def check_complete(self) -> None:
        """Raise a :class:`LawscopeError` if an earlier update failed half way."""
        if self._incomplete:
            raise LawscopeError(
                "An earlier update failed half way, so that the sums are incomplete; begin with a "
                f"new {type(self).__name__}."
            )

    @guarded
    def merge(self, other: Self) -> None:
        """Add what another statistic of the same settings has seen, for instance on another rank.

        Raises:
            LawscopeError: the other statistic has other settings, or is incomplete.
        """
        if type(other) is not type(self):
            raise LawscopeError(
                f"A {type(other).__name__} cannot be merged into a {type(self).__name__}."
            )
        other.check_complete()
        self._check_same(other.settings, "the statistic to merge")
        self._merge(other)

    @guarded
    def state_dict(self) -> dict[str, Tensor]:
        """Return everything as tensors, which safetensors can write; settings are part of it."""
        written = json.dumps(self.settings).encode()
        settings = torch.tensor(list(written), dtype=torch.uint8, device="cpu")
        return {"settings": settings, **self._state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state given by :meth:`state_dict` of a statistic with the same settings.

        Raises:
            LawscopeError: the state is of other settings or of another version of lawscope.
        """
        try:
            settings = json.loads(bytes(state["settings"].tolist()))
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise LawscopeError(
                "The state does not say which settings it has: another version of lawscope saved "
                "it. Measure again."
            ) from error
        self._check_same(settings, "the state")
        self.reset()
        guarded(type(self)._load)(self, state)

    def _check_same(self, theirs: Mapping[str, Any], what: str) -> None:
        ours = self.settings
        for name in {**ours, **theirs}:
            if ours.get(name) != theirs.get(name):
                raise LawscopeError(
                    f"{name} is {ours.get(name)!r} here and {theirs.get(name)!r} in {what}; only "
                    "statistics of the same settings belong together."
                )


def select_prefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose name has this prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
