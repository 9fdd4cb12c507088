from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from made_up_reports import make_collapse

from lawscope.report import collapse_chart, collapse_view


def cells(chart: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h", chart)]


@pytest.mark.parametrize("classes", [2, 5, 30])
def test_every_pair_has_a_cell_of_its_shade(classes: int) -> None:
    rng = np.random.default_rng(0)
    cosines = np.clip(rng.normal(size=(classes, classes)), -1, 1)
    cosines[0, 1] = np.nan
    found = dataclasses.replace(
        make_collapse([str(k) for k in range(classes)], 1),
        classifier_cosines=cosines,
        training_counts=np.ones(classes),
        predicted=None,
    )
    ((name, chart),) = collapse_chart.cosine_charts(found)
    assert name == "measured"
    size = 252 / classes
    drawn = {(round((y - 4) / size), round((x - 84) / size)) for x, y in cells(chart)}
    shown = np.argwhere(~(np.abs(cosines) < 0.05))
    assert drawn == {tuple(pair) for pair in shown.tolist()}
    assert len(re.findall('class="cosine unknown"', chart)) == 1


def test_many_classes_share_cells() -> None:
    found = make_collapse([str(k) for k in range(95)], 40)
    for _, chart in collapse_chart.cosine_charts(found):
        assert len(cells(chart)) <= 900
        assert "95 classes, largest first" in chart


def test_the_largest_classes_come_first() -> None:
    found = make_collapse(["rare first", "rare second", "b", "c", "d"], 2)
    turned = dataclasses.replace(
        found,
        class_names=("rare", "few", "b", "c", "d"),
        training_counts=np.array([1.0, 2.0, 60.0, 60.0, 60.0]),
    )
    _, chart = collapse_chart.cosine_charts(turned)[0]
    assert re.findall(r'end">(\w+)</text>', chart) == ["b", "c", "d", "few", "rare"]


def test_tables_have_a_cell_for_every_column() -> None:
    for classes in (3, 100):
        found = make_collapse([str(k) for k in range(classes)], 2)
        for table in (collapse_view.number_table(found), collapse_view.class_table(found)):
            assert {len(row) for row in table.rows} == {len(table.columns)}
            assert len(table.rows) <= collapse_view.MOST_CLASSES
    assert "60 whose classifier has the nearest rival" in collapse_view.class_table(found).caption
    assert "2 minority" in collapse_view.minority_words(found)


def test_the_head_and_the_sizes_in_words() -> None:
    found = make_collapse(["a", "b", "c"], 1)
    assert "the network: linear, 3 features, 3 rows, bias" in collapse_view.head_words(found)
    assert collapse_view.counts_words(found) == "3 classes of 2 to 60 samples, a ratio of 30.0"
    equal = dataclasses.replace(found, training_counts=np.full(3, 7.0))
    assert collapse_view.counts_words(equal) == "3 classes of 7 samples"
    everyone = dataclasses.replace(found, minority=np.arange(3))
    assert collapse_view.minority_words(everyone) == "all classifiers"
