"""The page and the terminal summary of a language model."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_language import FALLING, make_language_report, make_result
from rich.cells import cell_len
from rich.console import Console
from test_charts import marks
from test_page import NASTY, Page

from lawscope.laws.language_report import LanguageReport
from lawscope.laws.next_token_verdict import RULE
from lawscope.papers import citation
from lawscope.report.law_chart import FRAMES, law_chart, residual_chart
from lawscope.report.next_token_page import render_next_token_page
from lawscope.report.next_token_terminal import print_language_summary
from lawscope.report.next_token_view import RESIDUAL, curve_of, interval_of

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "alone": {"control": False, "interval": False, "advice": (), "warnings": ()},
    "targets": {"others": {"current": make_result(FALLING, ["e", *"abcdefgh"])}},
    "nasty": {"name": NASTY[1], "pr": [0.9, 0.8, 0.7], "blocks": NASTY[:3], "advice": NASTY},
    "deep": {"pr": 0.99 * 0.99 ** np.arange(97), "verdict": "does not hold"},
    "one block": {"pr": [0.9, 0.8], "interval": False, "verdict": "cannot be told"},
    "undefined": {"pr": [0.9, 0.8, np.nan, 0.7, 0.0], "interval": False},
}


@pytest.fixture(params=CASES)
def report(request: pytest.FixtureRequest) -> LanguageReport:
    return make_language_report(**CASES[request.param])


def test_the_page_is_whole_loads_nothing_and_holds_the_numbers(report: LanguageReport) -> None:
    page = Page(render_next_token_page(report))
    assert page.data() == json.loads(json.dumps(report.to_dict()))
    outside = [a for _, each in page.tags for a in each if a in ("src", "href")]
    assert outside == []
    text = page.text
    for words in (*report.next_token.blocks, *report.advice, *report.warnings, report.name):
        assert " ".join(words.split()) in text
    for words in (RULE, citation("next_token"), "Law of next-token prediction", "corpus.txt"):
        assert words in text
    assert "nan" not in text.lower().replace("nanogpt", "")


def test_names_cannot_become_markup() -> None:
    page = Page(render_next_token_page(make_language_report(**CASES["nasty"])))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2
    assert "img" not in tags


def test_the_line_leaves_the_embedding_out() -> None:
    report = make_language_report(control=False)
    curve = curve_of(report.next_token)
    svg = law_chart(curve, None, FRAMES[0], RESIDUAL)
    (line,) = marks(svg, "fit")
    places = [float(each.get("cx", "")) for each in marks(svg, "mark")]
    assert len(places) == 9
    assert float(line.get("x1", "")) == pytest.approx(places[1], abs=0.02)
    assert float(line.get("x2", "")) == pytest.approx(places[-1], abs=0.02)
    fitted = curve.fit.predict(np.arange(9.0))
    assert np.allclose(fitted[1:], report.next_token.table()["fitted"][1:])
    labels = [each.get("aria-label", "") for each in marks(svg, "point")]
    assert "residual" not in labels[0]
    assert all("PR = 0." in label for label in labels)
    assert all("residual" in label for label in labels[1:])
    residuals = residual_chart(curve, FRAMES[0], RESIDUAL)
    assert len(marks(residuals, "mark")) == 8


def test_points_of_an_exact_law_lie_on_the_drawn_line() -> None:
    report = make_language_report(pr=[0.95, *(0.9 * 0.97 ** np.arange(6))], control=False)
    svg = law_chart(curve_of(report.next_token), None, FRAMES[0], RESIDUAL)
    heights = [float(each.get("cy", "")) for each in marks(svg, "mark")]
    (line,) = marks(svg, "fit")
    assert float(line.get("y1", "")) == pytest.approx(heights[1], abs=0.02)
    assert float(line.get("y2", "")) == pytest.approx(heights[-1], abs=0.02)
    # A fall of 14 % fills much of the height.
    assert heights[-1] - heights[1] > 200


def test_intervals_hold_their_blocks() -> None:
    law = make_language_report().next_token
    ends = interval_of(law)
    assert ends is not None
    assert np.isnan(ends[0]).all()
    assert (ends[1:, 0] < ends[1:, 1]).all()
    assert np.allclose(ends[1:].mean(axis=1), law.pr[1:], rtol=2e-3)
    assert interval_of(make_language_report(interval=False).next_token) is None


def printed(report: LanguageReport, encoding: str = "utf-8", width: int = 80) -> str:
    raw = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    print_language_summary(report, Console(file=raw, width=width, legacy_windows=False))
    raw.flush()
    return raw.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_summary_fits_eighty_columns(report: LanguageReport, encoding: str) -> None:
    text = printed(report, encoding)
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text


def test_the_summary_says_what_matters() -> None:
    report = make_language_report()
    law = report.next_token
    text = " ".join(printed(report, width=200).split())
    for words in ("the law holds", "untrained", "one-hot", "CV", "adjusted", *law.blocks):
        assert words in text
    row = f"8 transformer.h.7 {law.pr[8]:.4f} {law.pr_adjusted[8]:.4f} {law.pr_cv[8]:.4f}"
    assert row in text
    for words in (*report.advice, *report.warnings, law.reason):
        assert words in text


def test_saving_writes_the_file(tmp_path: Path) -> None:
    path = make_language_report().save(tmp_path / "a" / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
