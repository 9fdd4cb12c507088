"""The laws there are: built in, of installed packages, and registered by hand."""

from __future__ import annotations

import difflib
import warnings
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar, get_args

from lawscope.checks import checked
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws.base import Law, Need
from lawscope.papers import PAPERS

ENTRY_POINTS = "lawscope.laws"
# Each module registers its law; the order is that of reports.
BUILT_IN = (
    "lawscope.laws.separation.law",
    "lawscope.laws.collapse.law",
    "lawscope.laws.next_token.law",
    "lawscope.laws.elasticity.law",
    "lawscope.laws.symmetry.law",
    "lawscope.laws.alignment.law",
    "lawscope.laws.conservation.law",
)
_LAWS: dict[str, Law[Any]] = {}
_loaded: set[str] = set()
L = TypeVar("L", bound=Law[Any])


def register(law: L) -> L:
    """Add a law, or replace the one of the same name; return it.

    Raises:
        LawscopeError: not a law, a need that nothing meets, or results that cannot be loaded.
    """
    if not isinstance(law, Law):
        raise LawscopeError(f"{law!r} is not a lawscope.Law.")
    known = get_args(Need)
    for need in sorted(set(law.needs) - set(known)):
        raise LawscopeError(
            f"The law {law.name!r} needs {need!r}, which is not known; there are "
            f"{', '.join(known)}."
        )
    if not law.result.schema:
        raise LawscopeError(
            f"The results of the law {law.name!r} have no schema, so that they could not be "
            f"loaded again; give {law.result.__name__} one, as in schema = 'mine.{law.name}/1'."
        )
    _LAWS[law.name] = law
    return law


def all_laws() -> dict[str, Law[Any]]:
    """Return every law by name: the built-in ones first, then those of installed packages.

    A package offers laws by the entry-point group ``lawscope.laws``, whose values are
    :class:`Law` objects. One that cannot be imported, or has the name of a law that is there
    already, is left out with a warning.
    """
    for module in BUILT_IN:
        import_module(module)
    for point in entry_points(group=ENTRY_POINTS):
        if point.value in _loaded:
            continue
        _loaded.add(point.value)
        before = dict(_LAWS)
        try:
            law = register(point.load())
            if before.get(law.name, law) is not law:
                raise LawscopeError(f"there is a law {law.name!r} already; it needs another name.")
        except Exception as error:  # somebody else's package must not stop ours
            package = "an installed package" if point.dist is None else point.dist.name
            said = str(error) if isinstance(error, LawscopeError) else f"{error!r}."
            sentence = f"The law '{point.name}' of {package} cannot be loaded: {said}"
            warnings.warn(sentence, LawscopeWarning, stacklevel=2)
        finally:
            _LAWS.update(before)
    order = {module: place for place, module in enumerate(BUILT_IN)}
    homes = {name: law.settings.__module__ for name, law in _LAWS.items()}
    return {n: _LAWS[n] for n in sorted(_LAWS, key=lambda n: order.get(homes[n], len(order)))}


def find_law(name: str) -> Law[Any]:
    """Return a law by its name; where there is none the sentence offers the nearest."""
    # Looking through all installed packages takes longer than many a measurement.
    laws = _LAWS if isinstance(name, str) and name in _LAWS else all_laws()
    if isinstance(name, str) and name in laws:
        return laws[name]
    near = difflib.get_close_matches(str(name), laws, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise LawscopeError(f"There is no law {name!r}; there are {', '.join(laws)}.{hint}")


@checked
def citation(law: str = "separation") -> str:
    """Return the paper to cite for a law: the first that it names.

    Args:
        law: name of a law, or of a paper in :data:`lawscope.papers.PAPERS`.

    Returns:
        The reference as one line of text.

    Raises:
        LawscopeError: no such law, the sentence lists the known ones; or one without a reference.

    Example:
        >>> print(citation("separation")[:21])
        Hangfeng He and Weiji
    """
    laws = all_laws()
    if law not in laws and law not in PAPERS:
        known = ", ".join(sorted({*laws, *PAPERS}))
        raise LawscopeError(f"There is no law {law!r} to cite; there are {known}.")
    name = next(iter(laws[law].papers), "") if law in laws else law
    reference = PAPERS.get(name, name)
    if " " not in reference:
        raise LawscopeError(
            f"The law {law!r} brings no reference to cite; write it out in its Law, as in "
            "papers=('A. Author. A title. 2026.',)."
        )
    return reference
