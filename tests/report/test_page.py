from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up import NASTY, Report, make_collapse, make_next_token, make_report, make_separation

from lawscope.formatting import typeset
from lawscope.report.page import breakable, render_page
from lawscope.result import Result

VOID = {"meta", "img", "link", "br", "hr", "input", "wbr"}
NAMES = tuple("abcde")


class Page(HTMLParser):
    """Reads HTML, checks that every element is closed, and keeps what the tests ask about."""

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

    def says(self, words: str) -> bool:
        """Whether the words stand in the text, wherever lines may break in them."""
        return "".join(words.split()).lower() in "".join("".join(self.words).split()).lower()


CASES: dict[str, dict[str, Any]] = {
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
        "collapse": make_collapse(NASTY),
        "skipped": {NASTY[0]: NASTY[2]},
    },
    "one station": {"values": [3.0], "verdict": "cannot be told", "granularities": {}},
    "deep": {"values": 30 * 0.95 ** np.arange(80), "verdict": "does not hold"},
    "collapsed": {"collapse": make_collapse(NAMES)},
    "equal": {"collapse": make_collapse(NAMES, 0)},
    "many collapsed": {"collapse": make_collapse(tuple(f"class {k}" for k in range(100)), 30)},
    "skipped": {"skipped": {"collapse": "There is no head."}},
}
TEXTS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "tokens alone": {"control": False, "interval": False, "advice": (), "warnings": ()},
    "targets": {"others": {"current": make_next_token(control=False)}},
    "nasty tokens": {"pr": [0.9, 0.8, 0.7], "blocks": NASTY[:3], "advice": NASTY},
    "deep tokens": {"pr": 0.99 * 0.99 ** np.arange(97), "verdict": "does not hold"},
    "one block": {"pr": [0.9, 0.8], "interval": False, "verdict": "cannot be told"},
    "undefined": {"pr": [0.9, 0.8, np.nan, 0.7, 0.0], "interval": False},
}


@pytest.fixture(params=[*CASES, *TEXTS], scope="module")
def report(request: pytest.FixtureRequest) -> Report:
    if request.param in CASES:
        return make_report(**CASES[request.param])
    found = make_next_token(**TEXTS[request.param])
    return Report("a small GPT", {"next_token": found}, settings={"text": ["corpus.txt"]})


def rendered(result: Result, document: object = None) -> str:
    return render_page(result, json.dumps(document, ensure_ascii=False))


def test_the_page_is_well_formed_and_loads_nothing(report: Report) -> None:
    html = rendered(report)
    page = Page(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [tag for tag, _ in page.tags].count("h1") == 1
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "object", "embed", "img", "base"}
        assert not {"src", "srcset", "href", "xlink:href", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html
    assert not re.search(r"/(home|work|tmp|usr)/", html)


def test_names_from_outside_cannot_become_markup(report: Report) -> None:
    page = Page(rendered(report, NASTY))
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "alert(1)" not in page.scripts[1]
    assert "<" not in page.scripts[0]
    assert json.loads(page.scripts[0]) == list(NASTY)


def test_everything_that_was_measured_is_said(report: Report) -> None:
    page = Page(rendered(report))
    said = [report.name, *report.skipped.values(), *report.provenance.versions.values()]
    for section in report.sections().values():
        said += [section.title, section.verdict, section.headline, section.rule]
        said += [*section.advice, *section.findings, *section.warnings, *section.about]
        said += [cell for table in section.tables for row in table.rows for cell in row]
        said += [words for pair in section.settings for words in pair]
        said += [words for n in section.numbers for words in (n.value, n.interval, n.control)]
    for words in said:
        assert page.says(typeset(words)), words
    for author in {"Weijie J. Su"} | ({"Papyan"} if "collapse" in report.results else set()):
        assert page.says(author)
    text = " ".join(page.words).lower()
    assert not re.search(r"\bnan\b|inf to", text)


def test_a_single_result_is_a_page_of_one_section() -> None:
    page = Page(rendered(make_separation()))
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert page.says("Law of data separation")
    assert page.says("pooling.kind mean")


@pytest.mark.parametrize(("stations", "classes"), [(9, 3), (9, 100), (21, 10), (40, 10)])
def test_a_usual_page_is_small(stations: int, classes: int) -> None:
    names = [f"class {k}" for k in range(classes)]
    report = make_report(values=30 * 0.8 ** np.arange(stations), class_names=names)
    assert len(rendered(report).encode()) < 200_000


def test_a_head_with_many_classes_adds_little() -> None:
    sizes = [
        len(rendered(make_collapse(tuple(f"class {k}" for k in range(K)), K // 3)))
        for K in (10, 300)
    ]
    assert sizes[1] - sizes[0] < 110_000


def test_parts_without_content_are_left_out() -> None:
    full = rendered(make_report())
    bare = rendered(make_report(control=False, advice=(), warnings=()))
    for part in ('data-toggle="control"', "<h3>Warnings", "<h3>Advice"):
        assert part in full
        assert part not in bare


@pytest.mark.parametrize("suffix", ["html", "lawscope.json"])
def test_a_saved_page_can_be_loaded(tmp_path: Path, suffix: str) -> None:
    from lawscope.result import load

    report = make_report(collapse=make_collapse(("</script>", "b", "c", "d")))
    path = report.save(tmp_path / f"run.{suffix}")
    assert load(path) == report


def test_module_paths_may_break_after_their_joints_and_numbers_not() -> None:
    assert breakable("layer.0.b<c is 0.5") == "layer.<wbr>0.<wbr>b&lt;c is 0.5"
