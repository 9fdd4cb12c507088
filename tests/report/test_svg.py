from __future__ import annotations

import math
from itertools import pairwise

import pytest

from lawscope.report.charts.svg import (
    Scale,
    element,
    index_ticks,
    linear_ticks,
    log_ticks,
    polyline,
    tick_label,
)


@pytest.mark.parametrize("decades", [0.01, 0.2, 1, 2, 4, 9, 30])
@pytest.mark.parametrize("low", [1e-9, 0.037, 1.0, 420.0])
def test_log_ticks_lie_inside_and_are_neither_crowded_nor_missing(
    low: float, decades: float
) -> None:
    high = low * 10**decades
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 9
    assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)
    assert ticks == sorted(ticks)


@pytest.mark.parametrize(("low", "high"), [(-0.05, 0.05), (0, 20), (-3e-4, 9e-4), (1e3, 7e3)])
def test_linear_ticks_are_evenly_spaced(low: float, high: float) -> None:
    ticks = linear_ticks(low, high)
    gaps = [b - a for a, b in pairwise(ticks)]
    assert 2 <= len(ticks) <= 7
    assert all(math.isclose(gap, gaps[0], rel_tol=1e-6) for gap in gaps)


@pytest.mark.parametrize("length", [1, 2, 9, 21, 150, 1000])
def test_station_numbers_start_at_zero_and_have_room(length: int) -> None:
    ticks = index_ticks(length, 300)
    assert ticks[0] == 0
    assert len(ticks) <= 300 // 22 + 1
    assert ticks[-1] < length


def test_a_log_scale_puts_equal_factors_at_equal_distances() -> None:
    scale = Scale(0.01, 100, 400, 0, log=True)
    assert [round(scale(value), 9) for value in (0.01, 0.1, 1, 10, 100)] == [400, 300, 200, 100, 0]
    assert scale.clamp(1e-9) == 400


def test_elements_escape_what_they_are_given() -> None:
    drawn = element("text", "<script>", title='"><script>')
    assert "<script>" not in drawn
    assert element("g", drawn) == f"<g>{drawn}</g>"


def test_a_line_breaks_at_a_missing_point() -> None:
    path = polyline([(0, 0), (1, 1), None, (3, 3), (4, 4)])
    assert path.count("M") == 2
    assert path.count("L") == 2


def test_ticks_are_round_and_written_as_people_write_them() -> None:
    assert log_ticks(0.04, 15) == [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    assert log_ticks(1e-3, 20) == [0.001, 0.01, 0.1, 1.0, 10.0]
    assert index_ticks(21, 250) == list(range(0, 21, 2))
    assert [*map(tick_label, (0.05, 1e-5, 3e5, 0.0))] == ["0.05", "10⁻⁵", "3·10⁵", "0"]
