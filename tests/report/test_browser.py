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
from made_up_language import make_language_report
from made_up_reports import make_collapse, make_report

from lawscope.laws.language_report import LanguageReport
from lawscope.laws.report import Report
from lawscope.report.next_token_page import render_next_token_page
from lawscope.report.page import render_page

pytestmark = pytest.mark.browser
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--virtual-time-budget=10000",
]
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


@pytest.fixture(scope="session")
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("no Chromium on this machine: install chromium or google-chrome for these tests")


def asked(
    chromium: str, folder: Path, report: Report | LanguageReport, width: int, script: str
) -> dict[str, Any]:
    """What ``script`` returns when it runs beside the loaded page."""
    harness = folder / "harness.html"
    text = render_page(report) if isinstance(report, Report) else render_next_token_page(report)
    page = html.escape(text)
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


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("case", ["plain", "hundred classes", "nasty", "deep", "collapsed"])
def test_the_script_runs_and_nothing_scrolls_sideways(
    chromium: str, tmp_path: Path, case: str, width: int
) -> None:
    long = "a.very.long.module.path.without.any.space." * 4
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "hundred classes": {"class_names": [f"class {k} {'of-many' * 9}" for k in range(100)]},
        "nasty": {
            "name": f"</script>{long}",
            "values": [5.0, np.nan, 1.0],
            "stations": ["<script>alert(1)</script>", long, "</script>"],
            "advice": (long,),
            "settings": {long: long},
        },
        "deep": {"values": 30 * 0.95 ** np.arange(80)},
        "collapsed": {"collapse": make_collapse([long, "b", "</svg>", "d"])},
    }
    script = """return {
        charts: seen("svg.law").map((chart) => chart.getAttribute("class")),
        points: seen("svg.law .trained .point").length,
    };"""
    report = make_report(**cases[case])
    answer = asked(chromium, tmp_path, report, width, script)
    assert answer["overflow"] <= 0
    assert answer["charts"] == [f"chart {'wide' if width > 600 else 'narrow'} law"]
    assert answer["points"] == len(report.separation.stations)


def test_controls_do_what_they_say(
    chromium: str,
    tmp_path: Path,
) -> None:
    script = """
      const answer = {};
      const points = () => seen("svg.law .control .point").length;
      answer.before = points();
      find("#control").click();
      answer.without = points();
      find('[data-show="residuals"]').click();
      answer.residuals = [seen("svg.law").length, seen("svg.residuals").length];
      find('[data-show="values"]').click();
      find("#theme").click();
      answer.first = root.dataset.theme;
      find("#theme").click();
      answer.second = root.dataset.theme;
      const point = seen("svg.law .trained .point")[2];
      point.dispatchEvent(new view.Event("focus"));
      answer.tip = find("#tip").innerText;
      point.dispatchEvent(new view.Event("blur"));
      answer.hidden = find("#tip").hidden;
      find(".chip").click();
      answer.off = all("svg.classwise .off").length;
      find("#copy").click();
      return answer;
    """
    report = make_report()
    answer = asked(chromium, tmp_path, report, 1280, script)
    assert (answer["before"], answer["without"]) == (8, 0)
    assert answer["residuals"] == [0, 1]
    assert {answer["first"], answer["second"]} == {"dark", "light"}
    assert answer["tip"].split("\n")[0] == f"2 {report.separation.stations[2]}"
    assert "95 % interval" in answer["tip"]
    assert answer["hidden"]
    assert answer["off"] == 3  # the line in both drawings, the name in the wide one


def test_any_of_many_classes_can_be_drawn(
    chromium: str,
    tmp_path: Path,
) -> None:
    script = """
      find("#pick").value = "50";
      find("#pick").dispatchEvent(new view.Event("change"));
      const path = (kind) => find(`svg.classwise.wide ${kind}`).getAttribute("d");
      return { picked: path(".picked"), known: path(".c0") };
    """
    report = make_report(class_names=[f"class {k}" for k in range(100)])
    answer = asked(chromium, tmp_path, report, 1280, script)
    xs = [re.findall(r"[ML]([\d.]+) ", answer[name]) for name in ("picked", "known")]
    assert xs[0] == xs[1]


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_a_language_model_works(chromium: str, tmp_path: Path, width: int) -> None:
    script = """
      const answer = { points: seen("svg.law .trained .point").length };
      find("#control").click();
      answer.without = seen("svg.law .control .point").length;
      const point = seen("svg.law .trained .point")[2];
      point.dispatchEvent(new view.Event("focus"));
      answer.tip = find("#tip").innerText;
      find('[data-show="residuals"]').click();
      answer.residuals = seen("svg.residuals .point").length;
      return answer;
    """
    long = "a.very.long.module.path.without.any.space." * 4
    blocks = ["embedding", *(f"{long}{i}" for i in range(8))]
    report = make_language_report(blocks=blocks, advice=(long,))
    answer = asked(chromium, tmp_path, report, width, script)
    assert answer["overflow"] <= 0
    assert (answer["points"], answer["without"], answer["residuals"]) == (9, 0, 8)
    assert "PR = 0.9" in answer["tip"]
