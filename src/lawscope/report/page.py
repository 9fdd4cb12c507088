"""A result as one HTML file that needs nothing else, or as the fragment that a notebook shows."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from lawscope.report.charts.drawing import draw_chart
from lawscope.report.charts.svg import WIDE
from lawscope.report.outline import Outline, outline_of
from lawscope.result import Result

MANY_ROWS = 40  # beyond it a table or a chart of bars scrolls in a box of its own
# After a dot, underscore, slash or arrow, but not within a number.
_JOINT = re.compile(r"((?<!\d)[._/→](?=\w)|[._/→](?=[^\W\d]))")


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
    style = f":root {{\n{read_part('charts.css')}}}\n{read_part('page.css')}"
    more = {"data": _embedded(json_text), "script": script, "script_hash": _hash(script)}
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
    return found.get_template(name).render(**given, **more)


def read_part(name: str) -> str:
    """Return the text of a template, style or script."""
    return files("lawscope.report").joinpath("templates", name).read_text(encoding="utf-8")


def breakable(words: str) -> Markup:
    """Return escaped words that may break after the joints of a module path.

    Example:
        >>> print(breakable("layer.0.b<c is 0.5"))
        layer.<wbr>0.<wbr>b&lt;c is 0.5
    """
    pieces = _JOINT.sub("\\1\0", words).split("\0")
    return Markup("<wbr>").join(escape(piece) for piece in pieces)


def _embedded(text: str) -> Markup:
    """Return JSON that may stand in a script element: nothing in it can close the element."""
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _hash(script: str) -> str:
    """Return the source expression under which a content security policy admits ``script``."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
