"""The page in a real browser: run with ``make test-browser``."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up import make_collapse, make_next_token, make_report

from lawscope.report.page import render_page
from lawscope.result import Result

pytestmark = pytest.mark.browser
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --virtual-time-budget=10000""".split()
# The page runs inside a frame of the width under test; the outer page works it and reports.
HARNESS = """<!doctype html><meta charset="utf-8">
<iframe id="frame" style="width:{width}px;height:800px;border:0" srcdoc="{page}"></iframe>
<pre id="answer"></pre>
<script>
document.getElementById("frame").addEventListener("load", (event) => {{
  const view = event.target.contentWindow, page = view.document, root = page.documentElement;
  const find = (selector) => page.querySelector(selector);
  const all = (selector) => [...page.querySelectorAll(selector)];
  const seen = (selector) => all(selector).filter((each) => each.getClientRects().length);
  const ask = () => {{ {script} }};
  let answer;
  try {{ answer = ask(); }} catch (error) {{ answer = {{ thrown: String(error) }}; }}
  setTimeout(() => {{
    answer.ready = root.dataset.ready;
    answer.errors = root.dataset.errors;
    answer.overflow = root.scrollWidth - root.clientWidth;
    document.getElementById("answer").textContent = JSON.stringify(answer);
  }}, 200);
}});
</script>"""
LONG = "a.very.long.module.path.without.any.space." * 4


@pytest.fixture(scope="session")
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("no Chromium on this machine: install chromium or google-chrome for these tests")


def asked(chromium: str, folder: Path, result: Result, width: int, script: str) -> dict[str, Any]:
    """What ``script`` returns when it runs beside the loaded page."""
    harness = folder / "harness.html"
    page = html.escape(render_page(result, '{"some": "numbers"}'))
    harness.write_text(HARNESS.format(width=width, page=page, script=script), encoding="utf-8")
    command = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--window-size=1400,900"]
    run = subprocess.run(
        [*command, "--dump-dom", harness.as_uri()], capture_output=True, timeout=120, check=True
    )
    found = re.search(r'<pre id="answer">(.+?)</pre>', run.stdout.decode())
    assert found, f"the page did not answer: {run.stderr.decode()[-2000:]}"
    answer: dict[str, Any] = json.loads(html.unescape(found[1]))
    assert "thrown" not in answer, answer
    assert answer["ready"] == "true"
    assert "errors" not in answer, answer
    return answer


CASES: dict[str, Result] = {
    "plain": make_report(),
    "hundred classes": make_report(class_names=[f"class {k} {'of-many' * 9}" for k in range(100)]),
    "nasty": make_report(
        name=f"</script>{LONG}",
        values=[5.0, np.nan, 1.0],
        stations=["<script>alert(1)</script>", LONG, "</script>"],
        advice=(LONG,),
        settings={LONG: LONG},
    ),
    "deep": make_report(values=30 * 0.95 ** np.arange(80)),
    "collapsed": make_report(collapse=make_collapse((LONG, "b", "</svg>", "d"))),
    "tokens": make_next_token(blocks=["embedding", *(f"{LONG}{i}" for i in range(8))]),
}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("case", CASES)
def test_nothing_scrolls_sideways_and_every_value_can_be_seen(
    chromium: str, tmp_path: Path, case: str, width: int
) -> None:
    script = """
      const inside = (cell) => {
        const box = cell.getBoundingClientRect();
        return box.width > 0 && box.left >= 0 && box.right <= root.clientWidth;
      };
      return {
        charts: seen("figure.curve svg.chart").map((chart) => chart.classList[1]),
        cut: seen("td, .value").filter((cell) => !inside(cell)).length,
        spilt: seen("td").filter((cell) => cell.scrollWidth > cell.clientWidth)
          .map((cell) => cell.dataset.label),
        cells: seen("td").length,
        captions: seen("caption").map((each) => each.textContent),
        values: seen("td[data-label=value]:not(.word), td[data-label=D], td[data-label=PR]").length,
      };"""
    answer = asked(chromium, tmp_path, CASES[case], width, script)
    assert answer["overflow"] <= 0
    assert set(answer["charts"]) == {"wide" if width > 600 else "narrow"}
    assert (answer["cut"], answer["spilt"], answer["cells"] > 10) == (0, [], True)
    # The table whose values were off the screen of a phone, and those of the other laws.
    assert {"Numbers", "Stations", "Blocks"} & set(answer["captions"])
    assert answer["values"] > 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_scale_of_colours_can_be_read(chromium: str, tmp_path: Path, theme: str) -> None:
    """In the dark the legend said that pale is 0, and there was no scale."""
    script = """
      root.dataset.theme = "%s";
      const colour = (each) => view.getComputedStyle(each).fill;
      const figure = find("figure.heatmap");
      return {
        strip: figure.querySelectorAll("rect.cell").length,
        tones: [...new Set([...figure.querySelectorAll(".cell")].map(colour))],
        ticks: [...figure.querySelectorAll(".tick")].map((each) => each.textContent),
        words: [...figure.querySelectorAll(".label")].map((each) => each.textContent),
        paper: view.getComputedStyle(figure).backgroundColor,
      };"""
    report = make_report(collapse=make_collapse(tuple("abcde")))
    answer = asked(chromium, tmp_path, report, 1280, script % theme)
    assert answer["strip"] == 24  # all shades but that of zero
    assert answer["ticks"][-3:] == ["−1", "0", "1"]
    assert answer["words"] == ["cosine; 5 classes, largest first"]
    assert len(answer["tones"]) == 2
    assert answer["paper"] not in answer["tones"]


def test_controls_do_what_they_say(chromium: str, tmp_path: Path) -> None:
    script = """
      const answer = {};
      const points = () => seen("figure.curve .control .point").length;
      answer.before = points();
      find("[data-toggle]").click();
      answer.without = points();
      find("#theme").click();
      answer.first = root.dataset.theme;
      find("#theme").click();
      answer.second = root.dataset.theme;
      const point = seen("figure.curve .population .point")[2];
      point.dispatchEvent(new view.Event("focus"));
      answer.tip = find("#tip").innerText;
      point.dispatchEvent(new view.Event("blur"));
      answer.hidden = find("#tip").hidden;
      find(".chip").click();
      answer.off = all("figure.lines .off").length;
      find("#copy").click();
      return answer;
    """
    answer = asked(chromium, tmp_path, make_report(), 1280, script)
    assert (answer["before"], answer["without"]) == (8, 0)
    assert {answer["first"], answer["second"]} == {"dark", "light"}
    assert answer["tip"].split("\n")[0] == "2 layers.1 (population)"
    assert "95 %: " in answer["tip"]
    assert answer["hidden"]
    assert answer["off"] == 3  # the line in both drawings, the name in the wide one


def test_any_of_many_lines_can_be_shown(chromium: str, tmp_path: Path) -> None:
    script = """
      const picker = find("figure.lines select");
      picker.value = "50";
      picker.dispatchEvent(new view.Event("change"));
      return { shown: seen("path.picked").map((path) => path.dataset.line) };
    """
    report = make_report(class_names=[f"class {k}" for k in range(100)])
    assert asked(chromium, tmp_path, report, 1280, script)["shown"] == ["50"]
