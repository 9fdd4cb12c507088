"""A study on its way: what it needs, why it failed, what it took."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lawscope.errors import LawscopeWarning
from lawscope.studies import entry
from lawscope.studies.plan import Training
from lawscope.studies.store import Store


@dataclass(eq=False)
class Undertaking:
    """A study on its way.

    Attributes:
        name: ``family/name``.
        settings: of its preset.
        needed: its trainings and what they begin from, by key.
        repaired: whether a damaged entry was already found while measuring it.
    """

    name: str
    settings: Mapping[str, Any]
    needed: Mapping[str, Training]
    repaired: bool = False


@dataclass(frozen=True)
class Failure:
    """Why a study could not be measured, and where (for ``--debug``)."""

    why: str
    trace: str = ""


def core_seconds(store: Store, undertaking: Undertaking) -> float:
    """What its trainings took, also those that were found in the store.

    It is told beside numbers that are measured already: an entry that cannot be read any more is
    left out with a warning.
    """
    total = 0.0
    for key in undertaking.needed:
        try:
            total += float(entry.read_record(store.place(key))["seconds"])
        except entry.DamagedEntryError as error:
            warnings.warn(
                f"{error} Its time is missing in the core-seconds of {undertaking.name}.",
                LawscopeWarning,
                stacklevel=2,
            )
    return total
