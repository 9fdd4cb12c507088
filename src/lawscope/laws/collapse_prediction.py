"""The Layer-Peeled Model at the energies and class sizes of a network."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws.collapse_metrics import (
    NC2,
    Energies,
    centred,
    minority_cosine,
    self_duality,
    shape_of,
)
from lawscope.laws.collapse_result import Predicted
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import Peeled

FloatArray = NDArray[np.float64]


def predict(counts: FloatArray, energies: Energies) -> tuple[Peeled | None, str, list[str]]:
    """The prediction, or None and why, and what the solver warns of.

    Args:
        counts: samples per class, shape (K,).
        energies: as measured.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LawscopeWarning)
        try:
            return peel(counts, *energies), "", [f"Prediction: {w.message}" for w in caught]
        except LawscopeError as error:
            return None, str(error), []


def predicted_numbers(prediction: Peeled, minority: NDArray[np.int64]) -> Predicted:
    """NC2, NC3 and the minority cosines at the optimum, as they are measured on a network."""
    weights, features = prediction.weights(), prediction.features()
    return Predicted(
        NC2(shape_of(centred(features)), shape_of(weights)),
        self_duality(weights, features),
        minority_cosine(weights, features, minority),
        prediction.cosines,
    )
