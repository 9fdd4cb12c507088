"""What the three laws say about themselves."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from made_up import FALLING, PR, make_collapse, make_next_token, make_separation

from lawscope.formatting import describe_settings, short_names
from lawscope.laws.line import fit_line
from lawscope.laws.separation.verdict import judge, judge_fall
from lawscope.section import Bars, Curve, HeatMap, Lines, Section


def check_tables(section: Section) -> None:
    for table in section.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert all(isinstance(cell, str) for row in table.rows for cell in row)


def test_the_separation_section_carries_curve_line_control_and_classes() -> None:
    result = make_separation()
    section = result.section()
    check_tables(section)
    curve, residuals, _, lines = section.charts
    assert isinstance(curve, Curve)
    assert isinstance(residuals, Curve)
    assert isinstance(lines, Lines)
    assert result.control is not None
    assert np.array_equal(curve.values, FALLING)
    assert curve.control is result.control.values
    assert curve.fitted is not None
    assert np.allclose(np.log(FALLING / curve.fitted), result.fit.residuals)
    assert np.allclose(residuals.values, result.fit.residuals)
    assert lines.values.shape == (3, 8)
    assert section.numbers[0].control == "1.040"
    assert section.papers == ("separation",)
    assert "untrained D" in section.tables[0].columns
    alone = make_separation(control=False, interval=False).section()
    check_tables(alone)
    assert "95 %" not in alone.tables[0].columns
    assert not any(each.control or each.interval for each in alone.numbers)


def test_steps_are_shares_of_the_whole() -> None:
    equal = make_separation(values=[16.0, 8.0, 4.0, 2.0]).section().charts[2]
    assert isinstance(equal, Bars)
    assert np.allclose(equal.values, math.log(2))
    assert equal.reference == pytest.approx(math.log(2))
    assert equal.notes == ["× 0.500, 100 % of share"] * 3
    rising = make_separation(values=[8.0, 4.0, 6.0, 1.0]).section().charts[2]
    assert isinstance(rising, Bars)
    assert rising.notes[1] == "× 1.50"
    assert "Red bars raise D" in rising.note
    assert make_separation(values=[2.0, 4.0]).section().charts[2].reference is None  # type: ignore[union-attr]


@pytest.mark.parametrize("values", [[3.0], [8.0, np.nan, 2.0], [np.nan, 4.0, 2.0], [0.0, np.inf]])
def test_odd_curves_still_make_a_section(values: list[float]) -> None:
    check_tables(make_separation(values=values).section())
    check_tables(make_next_token(pr=[0.9, *values], interval=False).section())


def test_a_rising_curve_is_said_to_rise() -> None:
    """D growing 136-fold was printed as falling by a factor of 0.00734, and R as 25214 %."""
    values = np.geomspace(1, 136, 6)
    assert judge(fit_line(values), np.log(values)) == (
        "does not hold", "D rises along the line by a factor of 136",
    )  # fmt: skip
    numbers = {each.symbol: each for each in make_separation(values=values).section().numbers}
    assert numbers["R"].value == "136 times"
    assert (numbers["half-life"].value, numbers["half-life"].interval) == ("∞", "")


@pytest.mark.parametrize(
    ("drop", "least", "most", "said"),
    [
        (math.log(4), math.log(3), math.log(5), "D falls {} 4.00 [3.00, 5.00]"),
        (-math.log(4), -math.log(5), -math.log(3), "D rises {} 4.00 [3.00, 5.00]"),
        (-math.log(1.5), -math.log(4), math.log(1.25),
         "D rises {} 1.50 [from a rise by a factor of 4.00 to a fall by one of 1.25], less than a "
         "halving over the whole network"),
        (math.nan, math.log(12), math.inf, "D falls {} at least 12.0"),
        (math.nan, -math.inf, -math.log(12), "D rises {} at least 12.0"),
        (math.nan, -math.log(2), math.inf,
         "D rises {} at most 2.00, or falls, which does not settle whether it halves"),
        (math.nan, -math.inf, math.log(1.5),
         "D falls {} at most 1.50, or rises, less than a halving over the whole network"),
        (math.nan, -math.inf, math.inf, "how far D falls along the line is not known"),
    ],
)  # fmt: skip
def test_a_factor_is_never_below_one(drop: float, least: float, most: float, said: str) -> None:
    """A rise with an interval around zero was given factors of a fall, in the wrong order."""
    assert judge_fall(drop, (least, most))[1] == said.format("along the line by a factor of")


def test_open_intervals_have_no_infinite_ends() -> None:
    """Stations without an upper end stood in tables as "25.0 to ∞", unknown lines as 0 to ∞."""
    section = make_separation(open_=2).section()
    numbers = {each.symbol: each for each in section.numbers}
    assert (numbers["ρ̂"].interval, numbers["r̂"].interval) == ("at most 0.670", "at most −0.6000")
    column = section.tables[0].columns.index("95 %")
    ends = [row[column] for row in section.tables[0].rows]
    assert [end.startswith("at least ") for end in ends] == [True] * 2 + [False] * 6
    assert not any("∞" in end for end in ends)


@pytest.mark.parametrize("stations", [1, 2])
def test_one_of_something_is_singular(stations: int) -> None:
    result = make_separation(values=np.ones(stations), class_names=["a"] * stations)
    ending = "" if stations == 1 else "s"
    assert f"{stations} station{ending}" in result.section().facts
    assert f"{stations} class{'es' * (stations > 1)}" in result.section().facts
    _, reason = judge(result.fit, np.zeros(stations))
    verb = "is" if stations == 1 else "are"
    assert reason.startswith(f"{stations} station{ending} {verb} too few")


def test_a_sentence_has_one_typography_wherever_it_is_read() -> None:
    result = make_separation(advice=("Keep 42% of it, r = -0.98.",), warnings=("-1 is low.",))
    assert result.reason == "r = −0.998 is below −0.97 with its whole interval"
    assert (*result.advice, *result.warnings) == ("Keep 42 % of it, r = −0.98.", "−1 is low.")


def test_the_collapse_section_writes_zero_as_zero_and_accuracy() -> None:
    """Predictions of 1e-16 stood in tables as 1.13e-16; the column was called "told right"."""
    result = make_collapse(tuple("abcde"), 0)
    assert result.predicted is not None
    assert 0 < abs(result.predicted.nc3) < 1e-9
    section = result.section()
    check_tables(section)
    predicted = [row[4] for row in section.tables[0].rows]
    assert "0" in predicted
    assert not any("e−1" in cell for cell in predicted)
    assert "accuracy" in section.tables[1].columns
    assert "minority" not in " ".join(row[0] for row in section.tables[0].rows)
    assert section.facts[0] == "accuracy 100 %"
    chart = section.charts[0]
    assert isinstance(chart, HeatMap)
    assert (chart.low, chart.high, chart.scale_label) == (-1, 1, "cosine; 5 classes")
    assert not any("Head: head" in words or "told right" in words for words in section.findings)


def test_the_collapse_section_puts_the_largest_classes_first() -> None:
    found = make_collapse(("rare", "few", "b", "c", "d"), 2)
    turned = dataclasses.replace(found, training_counts=np.array([1.0, 2.0, 60.0, 60.0, 60.0]))
    chart = turned.section().charts[0]
    assert isinstance(chart, HeatMap)
    assert list(chart.rows) == ["b", "c", "d", "few", "rare"]
    assert chart.scale_label == "cosine; 5 classes, largest first"
    many = make_collapse(tuple(f"class {k}" for k in range(100)), 30).section()
    check_tables(many)
    assert len(many.tables[1].rows) == 60
    assert "nearest rival" in many.tables[1].caption


def test_the_next_token_section_leaves_the_embedding_out_of_the_line() -> None:
    result = make_next_token()
    section = result.section()
    check_tables(section)
    curve, residuals = section.charts
    assert isinstance(curve, Curve)
    assert curve.fitted is not None
    assert np.isnan(curve.fitted[0])
    assert np.allclose(np.log(PR / curve.fitted)[1:], result.fit.residuals)
    assert np.isnan(residuals.values[0])  # type: ignore[union-attr]
    several = make_next_token(others={"current": make_next_token(control=False)}).section()
    check_tables(several)
    assert isinstance(several.charts[2], Lines)


def test_settings_are_words() -> None:
    """Lists of equal entries, bytes and 16 digits were printed as JSON."""
    settings = {
        "strategy": ["held"] * 3 + ["batch", "held"],
        "memory_bytes": 512_000_000,
        "train_loss": 0.001257842406630516,
        "frame": {"before": [], "bos": None, "on": True},
        "many": list(range(100)),
        "samples": 60_000,
    }
    rows = dict(describe_settings(settings))
    assert rows["strategy"] == "held × 3, batch, held"
    assert rows["memory"] == "512 MB"
    assert rows["train loss"] == "0.001258"
    assert (rows["frame.before"], rows["frame.bos"], rows["frame.on"]) == ("none", "none", "yes")
    assert rows["many"].endswith("92 more")
    assert rows["samples"] == "60\u202f000"


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["input", "net.body.stages.0.relu", "net.body.stages.1.relu"],
         ["input", "stages.0", "stages.1"]),
        (["conv1 → relu", "conv2 → relu"], ["conv1", "conv2"]),
        (["input", "conv1 → relu", "conv2 → relu#2", "conv3 → relu()"],
         ["input", "conv1 → relu", "conv2 → relu#2", "conv3 → relu()"]),
        (["features.0", "classifier.1"], ["features.0", "classifier.1"]),
        (["a.b", "a.b", "a.c"], ["b", "b", "c"]),
        (["x.norm", "norm"], ["x.norm", "norm"]),
        (["a.b.x", "a.c.x", "b"], ["a.b.x", "a.c.x", "b"]),
        ([], []),
    ],
)  # fmt: skip
def test_short_names_keep_what_tells_stations_apart(names: list[str], short: list[str]) -> None:
    assert short_names(names) == short
