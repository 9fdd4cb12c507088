"""Every kind of chart, as SVG and in matplotlib."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from made_up import FALLING, NASTY

from lawscope.report.charts.curve import curve_range
from lawscope.report.charts.figures import draw
from lawscope.report.charts.heat_map import LEVELS, average_neighbours
from lawscope.report.charts.lines import coloured_lines, spread
from lawscope.report.page import draw_chart
from lawscope.section import Bars, Chart, Curve, HeatMap, Lines, Plane, Region

matplotlib.use("Agg")


def make_curve(values: Any = FALLING, names: Any = None, **changes: Any) -> Curve:
    values = np.asarray(values, dtype=float)
    names = names or [f"layers.{i}" for i in range(len(values))]
    interval = np.stack([0.9 * values, 1.1 * values], axis=1)
    fitted = np.geomspace(12, 0.05, len(values)) if len(values) else values
    fields: dict[str, Any] = {"control": values * 1.5, "control_fitted": fitted * 1.5}
    fields |= {"interval": interval, "fitted": fitted} | changes
    return Curve("A curve", "D", "fuzziness D", "layer", names, values, **fields)


def make_lines(count: int, points: int, names: Any = None, **changes: Any) -> Lines:
    values = np.geomspace(10, 0.1, points) * np.geomspace(1, 5, count)[:, None]
    names = names or [f"class {k}" for k in range(count)]
    x = np.arange(points, dtype=float)
    return Lines("Some lines", names, values, x, "layer", "D", log=True, **changes)


def make_charts(count: int, names: Any = None) -> dict[str, Chart]:
    """One chart of every kind with ``count`` entries."""
    some = np.linspace(-1, 1, count) if count else np.zeros(0)
    labels = names or [f"name.{i}" for i in range(count)]
    square = np.outer(some, some)
    return {
        "curve": make_curve(np.geomspace(10, 0.1, count) if count else [], labels),
        "lines": make_lines(count, max(2, min(count, 50)), labels),
        "bars": Bars("Bars", labels, some, labels, labels, 0.3, "equal"),
        "heat map": HeatMap("Heat", labels, labels, square, -1, 1, "cosine"),
        "plane": make_plane(labels, np.stack([some, -some], axis=1)),
    }


def make_plane(names: Any, values: Any) -> Plane:
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    around = np.stack([values - 0.1, values + 0.2], axis=2)
    regions = [Region("inside", corners), Region("beyond <", corners + 2)]
    return Plane("Plane", names, values, "p", "q", regions, around, names)


def broken(chart: Chart) -> Chart:
    """The chart with nothing but NaN in it."""
    if isinstance(chart, Curve):
        return make_curve(chart.values * np.nan, fitted=None, control=None, control_fitted=None)
    return replace(chart, values=chart.values * np.nan)


def marks(svg: str, css: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(svg).iter() if css in e.get("class", "").split()]


@pytest.mark.parametrize("count", [0, 1, 2, 9, 1000])
@pytest.mark.parametrize("kind", make_charts(3))
def test_every_kind_draws_any_number_of_entries(kind: str, count: int) -> None:
    chart = make_charts(count)[kind]
    drawing = draw_chart(chart)
    assert (drawing is None) == (count == 0)
    if drawing is not None:
        for picture in drawing.pictures:
            (described,) = [e for e in ElementTree.fromstring(picture) if e.get("role") == "img"]
            assert chart.title in described.get("aria-label", "")
            assert "nan" not in picture
    axes = draw(chart)
    assert axes.get_title(loc="left") == chart.title
    axes.figure.canvas.draw()
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("kind", make_charts(3))
def test_nothing_but_nan_is_no_picture_or_an_empty_one(kind: str) -> None:
    chart = broken(make_charts(3)[kind])
    drawing = draw_chart(chart)
    assert drawing is None or not marks(drawing.pictures[0], "amount")
    draw(chart).figure.canvas.draw()
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("kind", make_charts(3))
def test_names_cannot_become_markup(kind: str) -> None:
    drawing = draw_chart(make_charts(len(NASTY), NASTY)[kind])
    assert drawing is not None
    for picture in drawing.pictures:
        tags = {e.tag for e in ElementTree.fromstring(picture).iter()}
        assert tags <= {"svg", "g", "text", "title", "line", "path", "circle", "rect", "polygon"}


def test_every_station_is_a_point_that_says_its_name_and_value() -> None:
    drawing = draw_chart(make_curve())
    assert drawing is not None
    assert [key.words for key in drawing.legend] == ["measured", "untrained"]
    for picture in drawing.pictures:
        labels = [e.get("aria-label", "") for e in marks(picture, "point")]
        assert len(labels) == 16
        for i in range(8):
            assert sum(f"{i} layers.{i}, D = " in label for label in labels) == 1
            assert sum(f"{i} layers.{i} (untrained), D = " in label for label in labels) == 1
        assert sum("95 %: " in label for label in labels) == 8
        assert all("the line" in label for label in labels)


def test_points_lie_on_the_line_when_the_law_is_exact() -> None:
    values = np.array([8.0, 4.0, 2.0, 1.0])
    drawing = draw_chart(make_curve(values, fitted=values, control=None, control_fitted=None))
    assert drawing is not None
    circles = marks(drawing.pictures[0], "mark")
    dots = [(float(e.get("cx", "")), float(e.get("cy", ""))) for e in circles]
    assert np.allclose(np.diff([y for _, y in dots]), dots[1][1] - dots[0][1], atol=0.02)
    (line,) = marks(drawing.pictures[0], "fit")
    drawn = [tuple(map(float, at.split())) for at in line.get("d", "")[1:].split("L")]
    assert np.allclose(drawn, dots, atol=0.06)


@pytest.mark.parametrize("missing", [np.nan, 0.0, np.inf, -1.0])
def test_a_station_without_a_logarithm_is_a_crossed_gap(missing: float) -> None:
    values = [8.0, 4.0, missing, 1.0]
    drawing = draw_chart(make_curve(values, fitted=None, control=None, control_fitted=None))
    assert drawing is not None
    assert len(marks(drawing.pictures[0], "cross")) == 1
    assert len(marks(drawing.pictures[0], "mark")) == 3
    assert not marks(drawing.pictures[0], "fit")


def test_a_wild_interval_does_not_flatten_the_curve() -> None:
    plain = make_curve(interval=None)
    low, high = curve_range(plain) or (0, 0)
    wild = replace(plain, interval=np.tile([1e-30, 1e30], (8, 1)))
    far_low, far_high = curve_range(wild) or (0, 0)
    assert low / 6 < far_low < low < high < far_high < high * 6


def test_few_lines_all_have_a_name_many_have_a_band_and_the_rest_on_request() -> None:
    few = draw_chart(make_lines(10, 5))
    assert few is not None
    named = {e.text for e in marks(few.pictures[0], "line-name")}
    assert named == {f"class {k}" for k in range(10)}
    assert not marks(few.pictures[0], "band")
    assert not few.others
    chart = make_lines(100, 5)
    many = draw_chart(chart)
    assert many is not None
    assert [line.row for line in coloured_lines(chart)] == [99, 98, 97, 2, 1, 0]
    assert len(marks(many.pictures[0], "band")) == 2
    hidden = [int(e.get("data-line", "")) for e in marks(many.pictures[0], "off")]
    assert hidden == list(many.others) == list(range(3, 97))


def test_lines_and_bands_break_at_a_missing_station() -> None:
    chart = make_lines(20, 5)
    chart.values[:, 2] = np.nan
    drawing = draw_chart(chart)
    assert drawing is not None
    assert len(marks(drawing.pictures[0], "band")) == 4
    (median,) = marks(drawing.pictures[0], "median")
    assert median.get("d", "").count("M") == 2


def test_bars_point_to_their_side_of_zero() -> None:
    drawing = draw_chart(Bars("Bars", ["a", "b", "c"], np.array([1.0, -0.5, np.nan])))
    assert drawing is not None
    for picture in drawing.pictures:
        first, second = marks(picture, "amount")
        zero = float(marks(picture, "zero")[0].get("x1", ""))
        assert float(first.get("x", "")) == pytest.approx(zero, abs=0.01)
        ending = float(second.get("x", "")) + float(second.get("width", ""))
        assert ending == pytest.approx(zero, abs=0.02)
        assert "below" in second.get("class", "")
        lengths = [float(bar.get("width", "")) for bar in (first, second)]
        assert lengths[0] == pytest.approx(2 * lengths[1], abs=0.05)


def test_a_heat_map_shows_small_values_and_its_scale() -> None:
    """With ten classes the cosines off the diagonal are −0.11, which was almost invisible."""
    cosines = np.full((10, 10), -1 / 9)
    np.fill_diagonal(cosines, 1)
    cosines[0, 1] = np.nan
    names = [str(k) for k in range(10)]
    drawing = draw_chart(HeatMap("Cosines", names, names, cosines, -1, 1, "cosine"))
    assert drawing is not None
    (picture,) = drawing.pictures
    paths = [e for e in marks(picture, "cell") if e.tag == "path"]
    shades = {e.get("class"): float(e.get("fill-opacity", "")) for e in paths}
    assert shades["cell negative"] > 0.2
    assert shades["cell positive"] == 1
    assert sum(e.get("d", "").count("M") for e in paths) == 100
    scale = [e for e in marks(picture, "cell") if e.tag == "rect"]
    assert len(scale) == 2 * LEVELS
    texts = [e.text for e in ElementTree.fromstring(picture).iter("text")]
    shown = [t for t in texts if t not in names or t in ("0", "1")]
    assert shown[-4:] == ["−1", "0", "1", "cosine"]


def test_many_rows_share_cells_of_a_heat_map() -> None:
    cells = average_neighbours(np.eye(95))
    assert cells.shape == (30, 30)
    assert cells[0, 0] == pytest.approx(0.25)
    assert np.isnan(average_neighbours(np.full((40, 2), np.nan))).all()


def test_labels_at_the_ends_of_lines_are_moved_apart_and_none_sinks() -> None:
    assert spread([10.0, 12.0, 50.0], 14.0, 60.0) == [10.0, 24.0, 50.0]
    assert spread([40.0, 58.0, 59.0], 14.0, 60.0) == [32.0, 46.0, 60.0]


def test_plot_has_the_names_the_control_and_the_interval() -> None:
    names = ["input", "net.body.0.relu", "net.body.1.relu"]
    axes = draw(make_curve([4.0, 2.0, 1.0], names))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["input", "body.0", "body.1"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["untrained", "measured"]
    assert len(axes.collections) == 1
    assert axes.get_yscale() == "log"
    again = draw(make_curve(), axes)
    assert again is axes
    matplotlib.pyplot.close("all")


def test_a_log_axis_of_lines_puts_equal_factors_at_equal_distances() -> None:
    chart = Lines("Ratios", ["a"], np.ones((1, 3)), np.array([1.0, 10, 100]), "R", "y", log_x=True)
    drawing = draw_chart(chart)
    assert drawing is not None
    for picture in drawing.pictures:
        places = [
            float(p.split()[0]) for p in re.split("[ML]", marks(picture, "line")[0].get("d"))[1:]
        ]
        assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.11)
        assert "R, log scale" in picture
    assert draw(chart).get_xscale() == "log"


def test_a_plane_shows_points_with_intervals_among_regions() -> None:
    values = np.array([[0.0, 0.25], [np.nan, 1.0], [2.5, 2.0]])
    drawing = draw_chart(make_plane(["first", "nowhere", "last"], values))
    assert drawing is not None
    assert drawing.kind == "plane"
    for picture in drawing.pictures:
        first, last = marks(picture, "point")
        assert (first.get("aria-label") or "").startswith("first, p = 0 [")
        assert len([e for e in first.iter() if e.get("class") == "bar"]) == 2
        (dot,) = [e for e in last.iter() if e.tag == "circle"]
        (other,) = [e for e in first.iter() if e.tag == "circle"]
        # To the right, and higher up.
        assert float(dot.get("cx", "")) > float(other.get("cx", ""))
        assert float(dot.get("cy", "")) < float(other.get("cy", ""))
        assert len(marks(picture, "region")) == 2
        assert "beyond &lt;" in picture


def test_small_panels_stand_side_by_side() -> None:
    drawing = draw_chart(make_lines(2, 5, small=True))
    assert drawing is not None
    assert (drawing.kind, len(drawing.pictures)) == ("lines small", 1)
