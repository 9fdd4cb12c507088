from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from made_up_reports import make_report

from lawscope.report import class_chart, law_chart
from lawscope.report.svg import Frame


def marks(svg: str, css: str) -> list[ElementTree.Element]:
    return [
        each for each in ElementTree.fromstring(svg).iter() if css in each.get("class", "").split()
    ]


@pytest.mark.parametrize("frame", law_chart.FRAMES, ids=lambda frame: frame.name)
def test_every_station_is_a_point_that_tells_its_name_and_value(frame: Frame) -> None:
    report = make_report()
    svg = law_chart.law_chart(report.separation, report.control, frame)
    labels = [each.get("aria-label", "") for each in marks(svg, "point")]
    assert len(labels) == 16
    for name in report.separation.stations:
        assert sum(f" {name}, D = " in label for label in labels) == 1
        assert sum(f" {name} (untrained), D = " in label for label in labels) == 1
    assert all("95 % interval" in label and "the line" in label for label in labels)


def test_points_lie_where_the_fitted_line_says_when_the_law_is_exact() -> None:
    report = make_report(values=[8.0, 4.0, 2.0, 1.0], control=False)
    svg = law_chart.law_chart(report.separation, None, law_chart.FRAMES[0])
    heights = [float(each.get("cy", "")) for each in marks(svg, "mark")]
    assert np.allclose(np.diff(heights), heights[1] - heights[0], atol=0.02)
    (line,) = marks(svg, "fit")
    assert float(line.get("y1", "")) == pytest.approx(heights[0], abs=0.02)
    assert float(line.get("y2", "")) == pytest.approx(heights[-1], abs=0.02)


@pytest.mark.parametrize("missing", [np.nan, 0.0, np.inf])
def test_a_station_without_a_logarithm_is_a_crossed_gap(missing: float) -> None:
    report = make_report(values=[8.0, 4.0, missing, 1.0], control=False)
    svg = law_chart.law_chart(report.separation, None, law_chart.FRAMES[0])
    assert len(marks(svg, "cross")) == 1
    assert len(marks(svg, "mark")) == 3
    assert not marks(svg, "fit")
    assert law_chart.residual_chart(report.separation, law_chart.FRAMES[0]) == ""


def test_nothing_is_drawn_when_no_station_has_a_logarithm() -> None:
    report = make_report(values=[np.nan, np.nan], control=False)
    assert law_chart.law_chart(report.separation, None, law_chart.FRAMES[0]) == ""
    assert class_chart.class_chart(report.separation, class_chart.FRAMES[0]) == ""


def test_a_wild_interval_does_not_flatten_the_curve() -> None:
    wild = np.tile([1e-30, 1e30], (8, 1))
    law = make_report(interval=False).separation
    low, high = law_chart.log_extent([law]) or (0, 0)
    far_low, far_high = law_chart.log_extent([replace(law, interval=wild)]) or (0, 0)
    assert low / 5 < far_low < low < high < far_high < high * 5


def test_few_classes_all_have_a_line_and_a_name() -> None:
    names = [f"class {k}" for k in range(10)]
    report = make_report(class_names=names)
    svg = class_chart.class_chart(report.separation, class_chart.FRAMES[0])
    assert len([each for each in marks(svg, "class") if each.get("data-class")]) == 10
    assert {each.text for each in marks(svg, "class-name")} == set(names)
    assert not marks(svg, "band")


def test_of_many_classes_the_ends_have_lines_and_the_rest_a_band() -> None:
    report = make_report(class_names=[str(k) for k in range(100)])
    lines = class_chart.class_lines(report.separation)
    last = report.separation.classwise[-1]
    assert [line.k for line in lines[:3]] == list(np.argsort(-last)[:3])
    assert [line.k for line in lines[-3:]] == list(np.argsort(-last)[-3:])
    svg = class_chart.class_chart(report.separation, class_chart.FRAMES[0])
    assert len(marks(svg, "band")) == 2
    assert len(svg) < 10_000


def test_lines_and_bands_break_at_a_missing_station() -> None:
    report = make_report(
        values=[8.0, 4.0, np.nan, 2.0, 1.0], class_names=[str(k) for k in range(20)]
    )
    svg = class_chart.class_chart(report.separation, class_chart.FRAMES[1])
    assert len(marks(svg, "band")) == 4
    (median,) = marks(svg, "median")
    assert median.get("d", "").count("M") == 2
