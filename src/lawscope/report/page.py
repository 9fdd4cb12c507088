"""A result as one HTML file that needs nothing else, or as the fragment that a notebook shows."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from lawscope.formatting import number
from lawscope.report.charts.bars import draw_bars
from lawscope.report.charts.curve import draw_curve, series_of
from lawscope.report.charts.heat_map import draw_heat_map
from lawscope.report.charts.lines import coloured_lines, draw_lines, other_lines
from lawscope.report.charts.plane import draw_plane
from lawscope.report.charts.svg import NARROW, WIDE
from lawscope.report.outline import Outline, outline_of
from lawscope.result import Result
from lawscope.section import Bars, Chart, Curve, HeatMap, Lines, Plane

_DRAW: dict[type, Callable[[Any, int], Markup]] = {
    Curve: draw_curve,
    Lines: draw_lines,
    Bars: draw_bars,
    HeatMap: draw_heat_map,
    Plane: draw_plane,
}
MANY_ROWS = 40  # beyond it a table or a chart of bars scrolls in a box of its own
# After a dot, underscore, slash or arrow, but not within a number.
_JOINT = re.compile(r"((?<!\d)[._/→](?=\w)|[._/→](?=[^\W\d]))")


class Key(NamedTuple):
    """An entry of a legend: the class of its colour, words, a number, and the line it toggles."""

    tone: str
    words: str
    value: str = ""
    line: int | None = None


class Drawing(NamedTuple):
    """A chart as page and notebook show it."""

    chart: Chart
    kind: str
    pictures: list[Markup]  # ``svg`` elements, one for each width it was drawn for
    legend: list[Key]
    others: dict[int, str]  # lines that can be shown on request, by number and name


def render_page(result: Result, json_text: str) -> str:
    """Return a complete HTML document that carries the numbers, ``json_text``, along.

    Names of stations and classes come from outside and are escaped wherever they stand; a content
    security policy lets the page run its own script only and load nothing.
    """
    outline = outline_of(result)
    parts = [
        (section, [drawn for chart in section.charts if (drawn := draw_chart(chart))])
        for section in outline.sections
    ]
    script = Markup(read_part("page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing in the numbers can close the element they stand in.
    data = Markup(re.sub("[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", json_text))
    style = f":root {{\n{read_part('charts.css')}}}\n{read_part('page.css')}"
    more = {"data": data, "script": script, "script_hash": f"'sha256-{digest}'"}
    return _render("page.html.jinja", outline, parts, style, **more)


def render_notebook(result: Result) -> str:
    """Return a fragment of HTML: verdicts, key numbers, the first chart, tables to unfold."""
    outline = outline_of(result)
    parts = [
        (section, draw_chart(section.charts[0], (WIDE,)) if section.charts else None)
        for section in outline.sections
    ]
    # Nested, so that no rule reaches anything else in the notebook.
    style = f".lawscope {{\n{read_part('charts.css')}\n}}\n{read_part('notebook.css')}"
    return _render("notebook.html.jinja", outline, parts, style)


def _render(name: str, outline: Outline, parts: list[Any], style: str, **more: Any) -> str:
    """Fill in a template, which escapes everything it is given."""
    found = Environment(
        loader=FunctionLoader(read_part),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters["breakable"] = breakable
    given = {"outline": outline, "parts": parts, "many": MANY_ROWS, "style": Markup(style)}
    text = found.get_template(name).render(**given, **more)
    # Names taken from folders may hold bytes that are not text; they become "?".
    return text.encode("utf-8", "replace").decode()


def read_part(name: str) -> str:
    """Return the text of a template, style or script."""
    return files("lawscope.report").joinpath("templates", name).read_text(encoding="utf-8")


def breakable(words: str) -> Markup:
    """Return escaped words that may break after the joints of a module path."""
    pieces = _JOINT.sub("\\1\0", words).split("\0")
    return Markup("<wbr>").join(escape(piece) for piece in pieces)


def draw_chart(chart: Chart, widths: tuple[int, ...] = (WIDE, NARROW)) -> Drawing | None:
    """Return the drawings of a chart; None when it has nothing to draw."""
    # A heat map is the same at every width, and a small panel is narrow at all.
    widths = widths[:1] if isinstance(chart, HeatMap) else widths
    small = isinstance(chart, Lines) and chart.small
    widths = (NARROW,) if small else widths
    pictures = [_DRAW[type(chart)](chart, width) for width in widths]
    if not pictures[0]:
        return None
    others = other_lines(chart) if isinstance(chart, Lines) else {}
    kind = f"{type(chart).__name__.lower()}{' small' if small else ''}"
    return Drawing(chart, kind, pictures, _legend(chart), others)


def _legend(chart: Chart) -> list[Key]:
    if isinstance(chart, Curve) and (chart.control is not None or chart.estimate is not None):
        words = {"trained": "measured", "population": "population", "control": "untrained"}
        return [Key(kind, words[kind]) for kind, *_ in reversed(series_of(chart))]
    if isinstance(chart, Lines):
        lines = coloured_lines(chart)
        return [Key(f"c{each.slot}", each.name, number(each.last), each.row) for each in lines]
    return []
