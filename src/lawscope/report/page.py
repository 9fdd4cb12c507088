"""A report as one HTML file that needs nothing else: no network, no fonts, no libraries."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from lawscope.laws.collapse_verdict import RULE as COLLAPSE_RULE
from lawscope.laws.report import Report
from lawscope.laws.verdict import RULE
from lawscope.papers import citation
from lawscope.report import class_chart, collapse_chart, collapse_view, law_chart, view
from lawscope.report.files import write_whole
from lawscope.report.numbers import number, one_of

MANY_ROWS = 40  # beyond it a list scrolls in a box of its own


def render_page(report: Report) -> str:
    """The whole page as text.

    Names of stations and classes come from outside and are escaped wherever they stand; a content
    security policy lets the page run its own script only and load nothing.

    Args:
        report: what was measured.

    Returns:
        A complete HTML document.
    """
    return render("page.html.jinja", _context(report), report.to_dict())


def render(template: str, context: dict[str, Any], document: dict[str, Any]) -> str:
    """A page from its template, with style, script and the measured numbers inside.

    Args:
        template: a file beside this module.
        context: what the template names.
        document: the numbers as JSON-ready values, for the script and for downloading.

    Returns:
        A complete HTML document.
    """
    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    script = Markup(_part("page.js"))
    everywhere = {
        "many": MANY_ROWS,
        "data": _embedded(document),
        "style": Markup(_part("page.css")),
        "script": script,
        "script_hash": _hash(script),
    }
    return environment.get_template(template).render(context | everywhere)


def save_page(report: Report, path: str | Path) -> Path:
    """Write the page to ``path``, whole or not at all.

    Args:
        report: what was measured.
        path: the file to write; missing folders are made.

    Returns:
        The path that was written.

    Raises:
        LawscopeError: the place cannot be written.
    """
    path = Path(path)
    write_whole(render_page(report), path)
    return path


def _part(name: str) -> str:
    """The text of a file that lies beside this module."""
    return files("lawscope.report").joinpath(name).read_text(encoding="utf-8")


def _context(report: Report) -> dict[str, Any]:
    """Everything the template names."""
    law, control = report.separation, report.control
    return {
        "report": report,
        "law": law,
        "control": control,
        "unit": one_of(law.granularity),
        "badge": law.verdict.replace(" ", "-"),
        "verdict": view.VERDICTS.get(law.verdict, law.verdict),
        "headline": report.advice[0] if report.advice else law.reason,
        "cards": [*view.fit_cards(law), *view.size_cards(law)],
        "law_charts": [law_chart.law_chart(law, control, frame) for frame in law_chart.FRAMES],
        "residual_charts": [
            law_chart.residual_chart(law, frame) for frame in law_chart.RESIDUAL_FRAMES
        ],
        "dead": [
            name for name, D in zip(law.stations, law.values, strict=True) if not 0 < D < math.inf
        ],
        "network": view.network(law),
        "class_charts": [class_chart.class_chart(law, frame) for frame in class_chart.FRAMES],
        "class_lines": class_chart.class_lines(law),
        "station_table": view.station_table(report),
        "class_table": view.class_table(law),
        "granularity_table": view.granularity_table(law),
        "control_table": view.control_table(report),
        **_collapse(report),
        "settings": [
            view.pairs_table("Scan", report.settings),
            view.pairs_table("Law of data separation", law.settings),
            view.pairs_table(
                "Collapse", {} if report.collapse is None else report.collapse.settings
            ),
            view.pairs_table("Versions", report.versions),
        ],
        "rule": RULE,
        "number": number,
        "citation": citation("separation"),
    }


def _collapse(report: Report) -> dict[str, Any]:
    """What the section about the head names; little where collapse does not apply."""
    found = report.collapse
    if found is None:
        return {"collapse": None, "more_citations": []}
    return {
        "collapse": found,
        "collapse_badge": found.verdict.replace(" ", "-"),
        "collapse_verdict": collapse_view.VERDICTS.get(found.verdict, found.verdict),
        "cosine_charts": collapse_chart.cosine_charts(found),
        "number_table": collapse_view.number_table(found),
        "head_table": collapse_view.class_table(found),
        "head_words": collapse_view.head_words(found),
        "counts_words": collapse_view.counts_words(found),
        "collapse_rule": COLLAPSE_RULE,
        "more_citations": [citation("collapse"), citation("layer_peeled")],
    }


def _embedded(document: dict[str, Any]) -> Markup:
    """JSON that may stand in a script element: nothing in it can close the element."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _hash(script: str) -> str:
    """The source expression under which a content security policy admits ``script``."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
