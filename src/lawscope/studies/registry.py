"""The studies there are, and the kinds of networks and preparations that families add.

A study registers by existing: a module of a family that defines STUDY. A family is a subpackage of
``lawscope.studies``, or of a package named by the environment variable ``LAWSCOPE_STUDIES``, for
studies of your own. What a family's studies share lives in modules whose names begin with an
underscore. A kind is registered by a decorator where it is defined::

    @NETWORKS.register("two-layer-linear")
    def two_layer_linear(width: int = 10) -> nn.Module: ...
"""

from __future__ import annotations

import difflib
import os
import pkgutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.lazy import nn
from lawscope.studies.study import PRESETS, Study

VARIABLE = "LAWSCOPE_STUDIES"
EVERYTHING = "all"


class Kinds:
    """Functions by name, of a network or to a network; ``what`` names one of them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: dict[str, Callable[..., nn.Module]] = {}

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

    def find(self, name: str) -> Callable[..., nn.Module]:
        """Return what is registered under a name, if need be after importing all families."""
        if name not in self._known:
            import_families()
        if name not in self._known:
            near = difflib.get_close_matches(name, list(self._known)) or sorted(self._known)
            raise LawscopeError(f"there is no {self._what} {name!r}: choose {', '.join(near)}.")
        return self._known[name]


NETWORKS = Kinds("network")
PREPARATIONS = Kinds("preparation")


def import_families() -> None:
    """Import all studies: a worker may be asked for a kind whose module it has not seen yet."""
    for module in _modules(os.environ.get(VARIABLE, "")).values():
        with suppress(Exception):  # a file that cannot be imported registers nothing
            import_module(module)


def names() -> list[str]:
    """Every study as ``family/name``, in alphabetical order within its family."""
    return [name for name in _modules(os.environ.get(VARIABLE, "")) if "/-" not in name]


def families() -> list[str]:
    """Every family that has a study."""
    return list(dict.fromkeys(name.partition("/")[0] for name in names()))


def find(name: str) -> Study:
    """Find the study of that name."""
    if name not in (known := names()):
        raise LawscopeError(f"There is no study {name!r}; {_offer(name, known)}")
    module = _modules(os.environ.get(VARIABLE, ""))[name]
    try:
        study = getattr(import_module(module), "STUDY", None)
    except Exception as error:  # whatever a file of somebody's own does
        raise LawscopeError(f"{_cannot_import(module, error)}.") from error
    if not isinstance(study, Study):
        raise LawscopeError(f"STUDY in {module} is not a Study; see CONTRIBUTING.md.")
    return study


def load_all(wanted: Iterable[str]) -> dict[str, Study]:
    """Studies by name; one that cannot be loaded is left out, and a warning names its file."""
    found = {}
    for name in wanted:
        try:
            found[name] = find(name)
        except LawscopeError as error:
            words = f"{error} The study {name} is left out."
            warnings.warn(words, LawscopeWarning, stacklevel=2)
    return found


def choose(target: str) -> list[str]:
    """Return the names that ``NAME``, ``FAMILY`` or ``all`` stands for.

    Of a family, studies that cannot be loaded are left out with a warning.
    """
    known = names()
    if target in known:
        return [target]
    family = [name for name in known if target in (EVERYTHING, name.partition("/")[0])]
    if not family:
        choices = [*known, *families(), EVERYTHING]
        raise LawscopeError(f"There is no study or family {target!r}; {_offer(target, choices)}")
    chosen = list(load_all(family))
    if not chosen:
        raise LawscopeError(f"None of the studies of {target} can be loaded.")
    return chosen


def check_preset(preset: str) -> str:
    """Return the preset, if there is one of that name."""
    if preset not in PRESETS:
        raise LawscopeError(f"There is no preset {preset!r}; {_offer(preset, list(PRESETS))}")
    return preset


def _offer(asked: object, choices: list[str]) -> str:
    """Offer the nearest of the choices, by the whole name or by the part after the family."""
    word = str(asked)  # from Python it may be anything
    near = difflib.get_close_matches(word, choices, n=3, cutoff=0.6)
    tails = {choice.rpartition("/")[2]: choice for choice in choices}
    tail = word.rpartition("/")[2]
    near += [tails[t] for t in difflib.get_close_matches(tail, list(tails), n=2, cutoff=0.75)]
    if near:
        return f"did you mean {' or '.join(dict.fromkeys(near))}?"
    if len(choices) <= len(PRESETS):
        return f"choose {', '.join(choices)}."
    return "'lawscope study list' shows them all."


@lru_cache(maxsize=8)
def _modules(own: str) -> dict[str, str]:
    """List the modules of all families by name; nothing is imported but the families."""
    packages = filter(None, ("lawscope.studies", *own.split(",")))
    return dict(pair for package in packages for pair in _walk(package.strip()))


def _walk(package: str) -> Iterator[tuple[str, str]]:
    try:
        root = import_module(package)
    except Exception as error:
        raise LawscopeError(
            f"{VARIABLE} names {package}, which cannot be imported "
            f"({type(error).__name__}: {error}); check PYTHONPATH."
        ) from error
    for family in pkgutil.iter_modules(root.__path__):
        if not family.ispkg:
            continue
        home = f"{package}.{family.name}"
        try:
            modules = list(pkgutil.iter_modules(import_module(home).__path__))
        except Exception as error:
            words = f"{_cannot_import(home, error)}; its family is left out."
            warnings.warn(words, LawscopeWarning, stacklevel=2)
            continue
        for module in modules:
            yield f"{family.name}/{module.name}".replace("_", "-"), f"{home}.{module.name}"


def _cannot_import(module: str, error: Exception) -> str:
    spec = find_spec(module)
    file = module if spec is None or spec.origin is None else spec.origin
    return f"{file} cannot be imported ({type(error).__name__}: {error})"
