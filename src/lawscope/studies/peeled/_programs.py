"""What the studies of the Layer-Peeled Model share: solved programs as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lawscope.studies.plan import Training
from lawscope.studies.study import Numbers

if TYPE_CHECKING:
    from lawscope.theory.layer_peeled.peeled import Peeled

CERTIFIED = 1e-6  # of the loss: how far from the optimum a certified program may be
SAME = 1e-6


def nothing_to_train(settings: Mapping[str, Any]) -> list[Training]:
    """The plan of a study that solves programs and trains no network."""
    return []


def ratios_between(low: float, high: float, per_decade: int) -> list[float]:
    """Ratios from ``low`` to ``high``, evenly on a log scale, both ends included.

    Example:
        >>> ratios_between(1, 100, 2)
        [1.0, 3.16228, 10.0, 31.6228, 100.0]
    """
    decades = math.log10(high / low)
    count = max(1, round(decades * per_decade))
    return [float(f"{low * 10 ** (decades * i / count):.6g}") for i in range(count + 1)]


def minority_numbers(found: Peeled) -> Numbers:
    """What a study keeps of one program with a majority and a minority.

    Returns:
        ``cosine`` between two minority classifiers, None where they have vanished; their
        ``phase``; the ``loss``; the certificate relative to it, ``gap``.
    """
    minority = found.groups[-1]
    return {
        "cosine": minority.cosine if math.isfinite(minority.cosine) else None,
        "phase": minority.phase,
        "loss": found.loss,
        # The squared loss can be zero, exactly.
        "gap": found.gap / found.loss if found.gap else 0.0,
    }


def steps(values: Sequence[float | None]) -> list[float]:
    """Differences between neighbours, over what is there.

    Example:
        >>> steps([1.0, None, 3.0, 2.0])
        [2.0, -1.0]
    """
    there = [value for value in values if value is not None]
    return [after - before for before, after in pairwise(there)]
