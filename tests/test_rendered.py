"""What the pages say is what the commands wrote."""

import importlib
import io
import re
import runpy
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from lawscope.studies.figures import COLOURS, FAINT, colours, draw, grid
from lawscope.studies.registry import find
from lawscope.studies.result import StudyResult
from lawscope.studies.study import AUTHORS, Column, Judged

ROOT = Path(__file__).parent.parent


def test_tables_of_claims_are_rendered_from_the_kept_results(monkeypatch):
    script = str(ROOT / "scripts/render_studies.py")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.setattr(sys, "argv", [script, "--check"])
    runpy.run_path(script, run_name="__main__")  # leaves with the sentence where one is not


def test_a_row_of_some_panels_has_the_verdict_on_these(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    documents = importlib.import_module("documents")
    name, measured = "separation/optimizers", {"SGD, 4 layers": [-0.999], "Adam, 4 layers": [-0.98]}
    claim = find(name).claims[0]
    judged = Judged(claim.text, {AUTHORS: Column(measured, "does not hold")})

    def verdict(panels, departure):
        result = StudyResult(name, "cpu", {}, {}, 1.0, "2024-05-01", (judged,), departure=departure)
        value = documents.Sentence(claim.text, panels)
        return documents.Row("", "", "", name, value).verdict(result)

    found = [verdict(panels, "") for panels in ("", "SGD", "Adam")]
    assert found == ["does not hold", "holds", "does not hold"]
    assert verdict("Adam", "fewer rates") == "open"


def test_small_pictures_keep_the_colours_of_lines(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    small_png = importlib.import_module("render_studies").small_png
    figure, ((lines, shades),) = grid(1, 2)
    wanted = [*COLOURS, FAINT]
    for place, color in enumerate(wanted):
        lines.plot([0, 1], [place, place + 1], color=color, lw=1.2, label=color)
    lines.legend()
    # What leaves few of 256 colours for lines: shades of everything else.
    shades.imshow(np.linspace(0, 1, 40_000).reshape(200, 200), cmap="twilight")
    for place, color in enumerate(colours(12)):
        shades.axhline(10 * place, color=color, alpha=0.5)
    png = draw(figure, "png")
    before, after = (
        np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), dtype=int)
        for each in (png, small_png(png))
    )
    for color in wanted:
        exact = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        of_line = (before == exact).all(axis=-1)
        assert of_line.any()
        assert np.abs(after[of_line] - exact).max() <= 24, color


def test_every_link_of_the_pages_leads_somewhere():
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        text = page.read_text(encoding="utf-8")
        for link, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
            if "://" not in link:
                target = page.parent / link if link else page
                assert target.exists(), f"{page.name} links to {link}"
                assert not heading or heading in headings_of(target), f"{page.name}: #{heading}"


def headings_of(page):
    """Return the names by which links find the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
