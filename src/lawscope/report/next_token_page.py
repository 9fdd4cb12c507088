"""The page of a language model: the same look, the law of next-token prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lawscope.laws.language_report import LanguageReport
from lawscope.laws.next_token_verdict import RULE
from lawscope.papers import citation
from lawscope.report import law_chart, next_token_view, view
from lawscope.report.files import write_whole
from lawscope.report.numbers import fixed
from lawscope.report.page import render


def render_next_token_page(report: LanguageReport) -> str:
    """The whole page as text; nothing is loaded and nothing but its own script runs.

    Args:
        report: what was measured.

    Returns:
        A complete HTML document.
    """
    return render("next_token.html.jinja", _context(report), report.to_dict())


def save_next_token_page(report: LanguageReport, path: str | Path) -> Path:
    """Write the page to ``path``, whole or not at all, and return the path.

    Raises:
        LawscopeError: the place cannot be written.
    """
    path = Path(path)
    write_whole(render_next_token_page(report), path)
    return path


def _context(report: LanguageReport) -> dict[str, Any]:
    law, quantity = report.next_token, next_token_view.RESIDUAL
    curve = next_token_view.curve_of(law)
    control = None if law.control is None else next_token_view.curve_of(law.control)
    return {
        "report": report,
        "law": law,
        "control": law.control,
        "badge": law.verdict.replace(" ", "-"),
        "verdict": view.VERDICTS.get(law.verdict, law.verdict),
        "headline": report.advice[0] if report.advice else law.reason,
        "cards": [*next_token_view.fit_cards(law), *next_token_view.size_cards(law)],
        "law_charts": [
            law_chart.law_chart(curve, control, frame, quantity) for frame in law_chart.FRAMES
        ],
        "residual_charts": [
            law_chart.residual_chart(curve, frame, quantity) for frame in law_chart.RESIDUAL_FRAMES
        ],
        "intervals": curve.interval is not None,
        "block_table": next_token_view.block_table(law),
        "control_table": next_token_view.control_table(law),
        "target_table": next_token_view.target_table(law),
        "settings": [
            view.pairs_table("Scan", report.settings),
            view.pairs_table("Law of next-token prediction", law.settings),
            view.pairs_table("Versions", report.versions),
        ],
        "rule": RULE,
        "fixed": fixed,
        "citation": citation("next_token"),
    }
