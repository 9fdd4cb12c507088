from __future__ import annotations

import numpy as np
import pytest
from made_up_reports import make_report

from lawscope.report import view


def test_equal_layers_each_do_their_share() -> None:
    network = view.network(make_report(values=[16.0, 8.0, 4.0, 2.0]).separation)
    assert [layer.kind for layer in network.layers] == ["first", "lowers", "lowers", "lowers"]
    assert [layer.share for layer in network.layers[1:]] == ["100 % of its share"] * 3
    assert network.zero == 0
    assert network.equal == pytest.approx(100)


def test_a_layer_that_raises_fuzziness_points_the_other_way() -> None:
    network = view.network(make_report(values=[8.0, 4.0, 6.0, 1.0]).separation)
    raising = network.layers[2]
    assert raising.kind == "raises"
    assert raising.start + raising.length == pytest.approx(network.zero)
    assert raising.start == pytest.approx(0)
    assert raising.ratio == "× 1.50"


@pytest.mark.parametrize(
    "values", [[4.0, 8.0, 16.0], [3.0, 3.0], [3.0], [8.0, np.nan, 2.0], [np.nan, 4.0, 2.0]]
)
def test_bars_stay_on_their_track(values: list[float]) -> None:
    network = view.network(make_report(values=values).separation)
    assert len(network.layers) == len(values)
    for layer in network.layers:
        assert -1e-9 <= layer.start <= layer.start + layer.length <= 100 + 1e-9
    assert network.equal is None or -1e-9 <= network.equal <= 100 + 1e-9


def test_tables_have_a_cell_for_every_column() -> None:
    for report in (make_report(), make_report(control=False, interval=False)):
        for table in (
            view.station_table(report),
            view.class_table(report.separation),
            view.granularity_table(report.separation),
            view.control_table(report),
            view.pairs_table("settings", report.separation.settings),
        ):
            assert {len(row) for row in table.rows} == {len(table.columns)}
    assert "untrained D" in view.station_table(make_report()).columns
    assert "low" not in view.station_table(make_report(interval=False)).columns


def test_nested_settings_are_named_by_their_path() -> None:
    table = view.pairs_table("settings", {"a": {"b": 1, "c": [2, None]}, "d": "text"})
    assert table.rows == [["a.b", "1"], ["a.c", "[2, null]"], ["d", "text"]]
