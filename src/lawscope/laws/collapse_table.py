"""The tables of a measured collapse: every number with its convention, and every class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lawscope.laws.collapse_result import Collapse

if TYPE_CHECKING:
    import pandas as pd

SHAPE = {
    "equinorm": "std/mean of norms, K−1",
    "angle_std": "std of pairwise cosines",
    "angle_error": "mean |cos + 1/(K−1)|",
}


class Row(NamedTuple):
    """One number; NaN where there is no interval or no prediction."""

    metric: str
    convention: str
    value: float
    low: float = math.nan
    high: float = math.nan
    predicted: float = math.nan


def number_table(result: Collapse) -> pd.DataFrame:
    """One row per number: convention, value, 95 % interval, prediction."""
    import pandas as pd

    return pd.DataFrame([*_nc1(result), *_nc2(result), *_rest(result)], columns=Row._fields)


def class_table(result: Collapse) -> pd.DataFrame:
    """One row per class: samples, accuracy, the classifier nearest to its own, predicted phase."""
    import pandas as pd

    others = result.classifier_cosines - 3 * np.eye(len(result.classes))
    nearest = np.nan_to_num(others, nan=-2.0).argmax(axis=1)
    return pd.DataFrame(
        {
            "class": list(result.class_names),
            "samples": result.counts,
            "training samples": result.training_counts,
            "accuracy": result.class_accuracy,
            "nearest classifier": [result.class_names[j] for j in nearest],
            "cosine": others[np.arange(len(nearest)), nearest],
            "predicted phase": result.phases,
        }
    )


def _nc1(result: Collapse) -> list[Row]:
    K, zero = len(result.classes), math.nan if result.predicted is None else 0.0
    low, high = result.interval.get("D", (math.nan, math.nan))
    D, papyan, cdnv = result.nc1
    return [
        Row("NC1 D", "Tr(SSw SSb⁺), classes by n_k/n", D, low, high, zero),
        Row("NC1 Papyan", "D/K", papyan, low / K, high / K, zero),
        Row("NC1 CDNV", "mean (v_j+v_k)/(2|h_j−h_k|²)", cdnv, predicted=zero),
    ]


def _nc2(result: Collapse) -> list[Row]:
    rows = []
    for name, shape in result.nc2._asdict().items():
        told = None if result.predicted is None else getattr(result.predicted.nc2, name)
        for field, said in SHAPE.items():
            predicted = math.nan if told is None else getattr(told, field)
            value = getattr(shape, field)
            rows.append(Row(f"NC2 {name} {field}", said, value, predicted=predicted))
    return rows


def _rest(result: Collapse) -> list[Row]:
    told = result.predicted
    nc3, (classifiers, means) = (
        (math.nan, (math.nan, math.nan)) if told is None else (told.nc3, told.minority_cosine)
    )
    cosine = result.minority_cosine
    low, high = result.interval["nc4"]
    return [
        Row("NC3", "|W/|W| − M/|M||², M centred means", result.nc3, predicted=nc3),
        Row("NC4", "share where argmax(Wh+b) ≠ nearest mean", result.nc4, low, high),
        Row(
            "minority cosine classifiers",
            "mean over pairs",
            cosine.classifiers,
            predicted=classifiers,
        ),
        Row("minority cosine means", "mean over pairs, centred", cosine.means, predicted=means),
        Row("E_W", "mean |w_k|²", result.energies.weight),
        Row("E_H", "mean over classes of mean |h|²", result.energies.feature),
        Row("accuracy", "argmax over all rows of the head", result.accuracy),
    ]
