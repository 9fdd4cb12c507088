"""Kinds by name: a family adds networks and preparations in files of its own.

A kind is registered by a decorator where it is defined; nothing else has to know its name::

    @NETWORKS.register("two-layer-linear")
    def two_layer_linear(width: int = 10) -> nn.Module: ...
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lawscope.errors import LawscopeError

if TYPE_CHECKING:
    from torch import nn

T = TypeVar("T")


class Kinds(Generic[T]):
    """A table from names to what is registered under them; ``what`` names one of them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: dict[str, T] = {}

    def register(self, name: str) -> Callable[[Any], Any]:
        def keep(thing: Any) -> Any:
            known: Any = self._known.setdefault(name, thing)
            if (known.__module__, known.__qualname__) != (thing.__module__, thing.__qualname__):
                raise LawscopeError(
                    f"There are two kinds of {self._what} named {name!r}, in {known.__module__} "
                    f"and {thing.__module__}; rename one."
                )
            return thing

        return keep

    def find(self, name: str) -> T:
        """Return what is registered under a name, if need be after importing all families."""
        if name not in self._known:
            # A worker may be asked for a kind whose module it has not seen yet.
            from lawscope.studies.registry import import_families

            import_families()
        if name not in self._known:
            near = difflib.get_close_matches(name, list(self._known)) or sorted(self._known)
            raise LawscopeError(f"there is no {self._what} {name!r}: choose {', '.join(near)}.")
        return self._known[name]


NETWORKS: Kinds[Callable[..., nn.Module]] = Kinds("network")
PREPARATIONS: Kinds[Callable[[nn.Module], object]] = Kinds("preparation")
