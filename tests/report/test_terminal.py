from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from made_up_reports import make_collapse, make_report
from rich.cells import cell_len
from rich.console import Console

from lawscope.laws.report import Report
from lawscope.report.numbers import number
from lawscope.report.terminal import print_summary


def printed(report: Report, encoding: str = "utf-8", width: int = 80, color: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    print_summary(
        report,
        Console(
            file=file, width=width, force_terminal=color, color_system="256" if color else None
        ),
    )
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252", "cp437"])
@pytest.mark.parametrize(
    "case",
    [
        {},
        {"control": False, "interval": False, "advice": (), "warnings": ()},
        {"values": [9.0, np.nan, 1e-9, 0.0, 1e7], "verdict": "cannot be told"},
        {"values": [3.0], "verdict": "cannot be told"},
        {"values": 30 * 0.97 ** np.arange(200), "verdict": "does not hold"},
        {"values": [np.nan] * 50},
        {"values": [4.0, 2.0], "stations": ["入力" * 30, "\x1b[31mred[/] " * 9]},
        {"values": 1e6 * 1e-3 ** np.arange(5), "dims": (12_345_678,) * 5},
        {"collapse": make_collapse(["入力" * 9, "\x1b[31mred", "c", "d"])},
        {"skipped": {"collapse": "No linear step of the network gives what it returns." * 3}},
    ],
    ids=["plain", "alone", "dead", "one", "deep", "nothing", "names", "far", "head", "skipped"],
)
def test_it_fits_eighty_columns_in_every_encoding(case: dict[str, Any], encoding: str) -> None:
    text = printed(make_report(**case), encoding)
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text


def test_it_says_what_matters() -> None:
    report = make_report()
    text = " ".join(printed(report, width=200).split())
    fit = report.separation.fit
    for words in ("the law holds", f"{fit.rho:.3f}", "untrained", "1.040", "3 classes"):
        assert words in text
    for words in [*report.separation.stations, *report.advice, *report.separation.warnings]:
        assert words in text


def test_the_head_has_its_numbers_beside_the_prediction() -> None:
    found = make_collapse(["a", "b", "c", "d", "e"])
    text = " ".join(printed(make_report(collapse=found), width=200).split())
    assert f"NC3 {number(found.nc3)}" in text
    assert "cosine of 2 minority classifiers 1.000" in text
    assert found.predicted is not None
    assert f"{found.predicted.minority_cosine.classifiers:.3f}".replace("-", "−") in text
    for words in [*found.advice, found.reason]:
        assert words in text
    skipped = printed(make_report(skipped={"collapse": "There is no head."}))
    assert "collapse: There is no head." in skipped


def test_bars_shrink_with_the_logarithm() -> None:
    text = printed(make_report(values=[8.0, 4.0, 2.0, 1.0]), "ascii")
    bars = [line.count("#") for line in text.splitlines() if line.rstrip().endswith("##")]
    assert np.allclose(np.diff(bars), bars[1] - bars[0], atol=1)
    assert bars == sorted(bars, reverse=True)


def test_long_names_keep_both_ends() -> None:
    names = [f"first.{'middle.' * 20}last{index}" for index in range(3)]
    text = printed(make_report(values=[4.0, 2.0, 1.0], stations=names))
    for index in range(3):
        assert f"last{index} " in text
    assert text.count(" first.") == 3


def test_of_many_stations_the_ends_have_rows_and_all_a_column() -> None:
    text = printed(make_report(values=30 * 0.97 ** np.arange(60)))
    assert "layers.6 " in text
    assert "layers.30 " not in text
    assert "layers.58 " in text
    assert "log D over stations 0 to 59" in text


def test_markup_in_names_is_not_obeyed() -> None:
    report = make_report(name="[red]net[/red]", values=[2.0, 1.0], stations=["[b]a", "[/b]"])
    text = printed(report, color=True)
    for words in ("[red]net[/red]", "[b]a", "[/b]"):
        assert words in text
