from __future__ import annotations

import errno
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_reports import make_collapse, make_report

from lawscope.errors import LawscopeError
from lawscope.laws.collapse_verdict import RULE as COLLAPSE_RULE
from lawscope.laws.report import Report
from lawscope.laws.verdict import RULE
from lawscope.report.page import render_page, save_page

NASTY = (
    "<script>alert(1)</script>",
    "</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><b>&amp;",
    "<!--",
)
VOID = {"meta", "img", "link", "br", "hr", "input"}


class Page(HTMLParser):
    """Reads a page, checks that every element is closed, and keeps what the tests ask about."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def data(self) -> object:
        return json.loads(self.scripts[0])


@pytest.fixture(
    params=[
        *("plain", "alone", "hundred classes", "dead station", "nasty", "one station", "deep"),
        *("collapsed", "nasty collapsed", "many collapsed", "skipped"),
    ]
)
def report(
    request: pytest.FixtureRequest,
) -> Report:
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "alone": {"control": False, "interval": False, "advice": (), "warnings": ()},
        "hundred classes": {"class_names": [f"class {k}" for k in range(100)]},
        "dead station": {"values": [9.0, 4.0, np.nan, 1.0], "verdict": "cannot be told"},
        "nasty": {
            "name": NASTY[1],
            "values": [9.0, 5.0, 3.0, 2.0, 1.0],
            "stations": NASTY,
            "class_names": NASTY,
            "advice": NASTY,
            "warnings": NASTY,
            "reason": NASTY[0],
            "settings": {NASTY[0]: {NASTY[1]: NASTY[2]}},
        },
        "one station": {"values": [3.0], "verdict": "cannot be told", "granularities": {}},
        "deep": {"values": 30 * 0.95 ** np.arange(80), "verdict": "does not hold"},
        "collapsed": {"collapse": make_collapse(["a", "b", "c", "d", "e"])},
        "nasty collapsed": {"collapse": make_collapse(NASTY), "class_names": NASTY},
        "many collapsed": {"collapse": make_collapse([f"class {k}" for k in range(100)], 30)},
        "skipped": {"skipped": {"collapse": NASTY[0]}},
    }
    return make_report(**cases[request.param])


def test_the_page_is_well_formed_and_has_unique_ids(report: Report) -> None:
    page = Page(render_page(report))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [tag for tag, _ in page.tags].count("h1") == 1


def test_nothing_is_loaded_from_outside(report: Report) -> None:
    html = render_page(report)
    for tag, attributes in Page(html).tags:
        assert tag not in {"link", "iframe", "object", "embed", "img", "base"}
        assert not {"src", "srcset", "href", "xlink:href", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html


def test_names_from_outside_cannot_become_markup(report: Report) -> None:
    page = Page(render_page(report))
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "alert(1)" not in page.scripts[1]
    assert "<" not in page.scripts[0]


def test_the_embedded_json_is_the_report(report: Report) -> None:
    assert Page(render_page(report)).data() == report.to_dict()


def test_everything_that_was_measured_is_said(report: Report) -> None:
    text = Page(render_page(report)).text
    law = report.separation
    said = [report.name, law.verdict, law.reason, RULE, "Weijie J. Su", *report.versions.values()]
    said += [*law.stations, *law.class_names, *report.advice, *report.warnings]
    said += report.skipped.values()
    if report.collapse is not None:
        said += [report.collapse.reason, COLLAPSE_RULE, "Papyan", "Qi Long", "Tr(SSw SSb⁺)"]
    for words in said:
        assert " ".join(words.split()) in text


@pytest.mark.parametrize(("stations", "classes"), [(9, 3), (9, 100), (21, 10), (40, 10)])
def test_a_usual_page_is_small(stations: int, classes: int) -> None:
    names = [f"class {k}" for k in range(classes)]
    report = make_report(values=30 * 0.8 ** np.arange(stations), class_names=names)
    assert len(render_page(report).encode()) < 200_000


def test_classes_add_little_but_their_data() -> None:
    names = [f"class {k}" for k in range(1000)]
    pages = [render_page(make_report(class_names=names[:K])) for K in (100, 1000)]
    few, many = (len(page) - len(Page(page).scripts[0]) for page in pages)
    assert many - few < 250 * 900


@pytest.mark.parametrize("classes", [10, 30, 100, 300])
def test_a_head_adds_little(classes: int) -> None:
    found = make_collapse([f"class {k}" for k in range(classes)], classes // 3)
    pages = [render_page(make_report(collapse=collapse)) for collapse in (None, found)]
    assert len(pages[1]) - len(pages[0]) < 110_000


def test_a_dead_station_is_named() -> None:
    report = make_report(values=[9.0, 4.0, np.nan, 1.0], stations=["in", "a", "b", "c"])
    text = Page(render_page(report)).text
    assert (
        "D has no logarithm at b: a crossed gap in the drawing, and no line can be fitted" in text
    )


def test_parts_without_content_are_left_out() -> None:
    full = render_page(make_report())
    bare = render_page(make_report(control=False, advice=(), warnings=(), granularities={}))
    assert 'id="collapse"' not in full
    for part in ('id="control"', 'id="granularity"', "<h3>Warnings", "<h3>Advice"):
        assert part in full
        assert part not in bare


def test_the_page_says_nothing_about_this_machine() -> None:
    assert not re.search(r"/(home|work|tmp|usr)/", render_page(make_report()))


def test_saving_makes_folders_and_leaves_one_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "report.html"
    report = make_report()
    assert save_page(report, str(path)) == path
    assert path.read_text(encoding="utf-8") == render_page(report)
    assert list(path.parent.iterdir()) == [path]


def test_names_that_are_not_text_can_be_saved(tmp_path: Path) -> None:
    report = make_report(class_names=("caf\udce9", "b", "c"))
    assert "caf?" in save_page(report, tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", ["file/report.html", "file/deeper/report.html", "folder"])
def test_an_impossible_place_is_a_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LawscopeError, match=rf"^cannot write .*{place}: .*choose .*\.$"):
        save_page(make_report(), tmp_path / place)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(errno.ENOSPC, "disk is full"), (errno.EACCES, "permissions"), (errno.EIO, "choose another")],
)
def test_a_failed_write_keeps_the_old_page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    remedy: str,
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(self: Path, target: Path) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(LawscopeError, match=remedy):
        save_page(make_report(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
