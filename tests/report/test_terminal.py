from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up import Report, make_collapse, make_next_token, make_report
from rich.cells import cell_len
from rich.console import Console

from lawscope.report.terminal import render_frame, render_table, render_terminal
from lawscope.result import Result
from lawscope.section import Bars, Curve, Section, Table


def printed(result: Result, encoding: str = "utf-8", width: int = 80, color: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    system = "256" if color else None
    console = Console(file=file, width=width, force_terminal=color, color_system=system)  # type: ignore[arg-type]
    console.print(render_terminal(result))
    file.flush()
    return raw.getvalue().decode(encoding)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "alone": {"control": False, "interval": False, "advice": (), "warnings": ()},
    "dead": {"values": [9.0, np.nan, 1e-9, 0.0, 1e7], "verdict": "cannot be told"},
    "one": {"values": [3.0], "verdict": "cannot be told"},
    "deep": {"values": 30 * 0.97 ** np.arange(200), "verdict": "does not hold"},
    "nothing": {"values": [np.nan] * 50},
    "names": {"values": [4.0, 2.0], "stations": ["入力" * 30, "\x1b[31mred[/] " * 9]},
    "far": {"values": 1e6 * 1e-3 ** np.arange(5), "dims": (12_345_678,) * 5},
    "head": {"collapse": make_collapse(("入力" * 9, "\x1b[31mred", "c", "d"))},
    "skipped": {"skipped": {"collapse": "No linear step gives what it returns. " * 3}},
}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("case", [*CASES, "tokens"])
def test_it_fits_every_width_in_every_encoding(case: str, width: int, encoding: str) -> None:
    result = make_next_token() if case == "tokens" else make_report(**CASES[case])
    text = printed(result, encoding, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


def test_it_says_what_matters() -> None:
    found = make_collapse(tuple("abcde"))
    report = make_report(collapse=found, skipped={"next_token": "There are no tokens."})
    text = " ".join(printed(report, width=300).split())
    fit = report.results["separation"].fit
    for words in ("the law holds", f"{fit.rho:.3f}", "untrained", "1.040", "3 classes", "accuracy"):
        assert words in text
    not_measured = "next-token prediction: There are no tokens."
    for words in ("pixels scaled to [−1, 1]", not_measured, "about 45 % of"):
        assert words in text
    assert found.predicted is not None
    for sentence in report.results["separation"].warnings:
        assert sentence in text
    assert "predicted" in text
    assert "1.000 mean between the classifiers of the 2 smallest classes" in text


def test_dots_stand_where_the_logarithm_says_on_a_labelled_axis() -> None:
    """The smallest of nearly equal values looked as if it were zero."""
    text = printed(make_report(values=[8.0, 4.0, 2.0, 1.0], control=False), "ascii")
    rows = [line for line in text.splitlines() if "layers." in line or " input " in line][:4]
    places = [row.rindex("*") for row in rows]
    assert np.allclose(np.diff(places), places[1] - places[0], atol=1)
    assert places == sorted(places, reverse=True)
    (axis,) = [line for line in text.splitlines() if "log D" in line and "95 %" in line]
    assert axis.split()[-4:] == ["1.00", "log", "D", "8.00"]
    assert abs(axis.index("1.00") - places[-1]) <= 1


def test_nearly_equal_values_stand_near_one_another() -> None:
    """PR of 0.874 and 0.845 had bars of 24 blocks and of one."""
    text = printed(make_next_token([0.874, 0.864, 0.855, 0.845], control=False), "ascii", 100)
    places = [line.rindex("*") for line in text.splitlines() if "*" in line and "0.8" in line]
    assert len(places) == 4
    assert 2 <= places[0] - places[-1] <= 8
    assert places == sorted(places, reverse=True)


def test_a_linear_axis_holds_zero() -> None:
    class Measured(Result):
        def section(self) -> Section:
            data = ["a", "b"], np.array([0.874, 0.845])
            return Section("Measured", charts=[Curve("r", "r", "r", "epoch", *data, log=False)])

    axis, *rows = [line for line in printed(Measured(), "ascii").splitlines() if "0" in line]
    assert axis.split()[-3:] == ["0", "r", "0.874"]
    assert rows[0].rindex("*") - rows[1].rindex("*") <= 2


def test_bars_begin_at_zero() -> None:
    class Counted(Result):
        def section(self) -> Section:
            bars = Bars("Counts", ["a", "b", "c"], np.array([0.874, 0.845, -0.437]))
            return Section("Counted", charts=[bars])

    lines = printed(Counted(), "ascii").splitlines()
    lengths = [line.count("#") for line in lines if "#" in line]
    assert lengths[1] == pytest.approx(lengths[0] * 0.845 / 0.874, abs=1)
    assert lengths[2] == pytest.approx(lengths[0] / 2, abs=1)


def test_long_names_are_told_apart() -> None:
    names = [f"resnet.encoder.stages.{i}.layers.0.layer.1.activation" for i in range(4)]
    text = printed(make_report(values=[4.0, 3.0, 2.0, 1.0], stations=names))
    for i in range(4):
        assert f" stages.{i} " in text


def test_of_many_stations_every_nth_has_a_row() -> None:
    text = printed(make_report(values=30 * 0.97 ** np.arange(100)))
    rows = [line for line in text.splitlines() if "layers." in line or " input " in line]
    assert 30 < len(rows) <= 41
    assert "layers.98 " in rows[-1]


def test_markup_in_names_is_not_obeyed() -> None:
    report = make_report(name="[red]net[/red]", values=[2.0, 1.0], stations=["[b]a", "[/b]"])
    text = printed(report, color=True)
    for words in ("[red]net[/red]", "[b]a", "[/b]"):
        assert words in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_frame_fits_with_its_names_whole(encoding: str) -> None:
    frame = pd.DataFrame({"name": ["a.b→" * 30, "c"], "D": [1 / 3, 1e-9], "n": [1, 20]})
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=60)
    with console.capture() as captured:
        console.print(render_frame(frame))
    text = captured.get()
    assert max(cell_len(line) for line in text.splitlines()) <= 60
    assert "0.333" in text
    assert text.count("a") == 31  # with that of "name"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_numbers_in_a_table_are_folded_and_never_cut(width: int) -> None:
    interval, share = "0.0723 to 0.0945", "78.2 % to 80.1 %"
    columns = ["layers", "D", "95 %", "r", "training right", "held out right", "95 %", ""]
    row = ["10", "0.0812", interval, "−0.99", "100 %", "79.1 %", share, "most accurate"]
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), width=width)
    with console.capture() as captured:
        console.print(render_table(Table("", columns, [row], words=0)))
    shown, whole = captured.get(), "".join([*columns, *row])
    assert all(shown.count(each) == whole.count(each) for each in "0123456789%")


def test_a_result_without_anything_to_show_is_its_line() -> None:
    assert "nothing measured" in printed(Report("nothing measured", {}))
