"""What a notebook shows, and Markdown."""

from __future__ import annotations

import re

import numpy as np
import pytest
from made_up import NASTY, make_collapse, make_next_token, make_report, make_separation
from test_page import Page
from test_terminal import printed

from lawscope.report.markdown import render_markdown
from lawscope.report.page import render_notebook, render_page
from lawscope.result import Result

RESULTS = {
    "report": make_report(collapse=make_collapse(NASTY), skipped={"next_token": NASTY[0]}),
    "separation": make_separation(stations=NASTY, values=[5.0, 4.0, 3.0, 2.0, 1.0]),
    "tokens": make_next_token(advice=NASTY),
    "dead": make_separation(values=[np.nan, np.nan], advice=()),
}


def test_names_that_are_not_text_are_shown_as_far_as_they_are() -> None:
    """As os.fsdecode gives them for a folder whose name is not UTF-8."""
    odd = "caf\udce9"
    changes = {"stations": [odd, "b", "c"], "class_names": [odd, "\ud800", "d"], "advice": (odd,)}
    head = make_collapse((odd, "b", "c", "d"))
    result = make_report(odd, head, {odd: odd}, values=[3.0, 2.0, 1.0], **changes)
    for shown in (render_notebook(result), render_page(result, "{}"), printed(result)):
        assert "caf?" in shown
        assert shown.encode("utf-8")


@pytest.mark.parametrize("name", RESULTS)
def test_a_notebook_gets_closed_elements_without_script_and_ids(name: str) -> None:
    html = render_notebook(RESULTS[name])
    page = Page(html)
    assert not {"script", "html", "body", "iframe", "img", "link"} & {tag for tag, _ in page.tags}
    assert not [a for _, each in page.tags for a in each if a == "id" or a.startswith("on")]
    assert page.tags[0] == ("div", {"class": "lawscope"})
    assert [tag for tag, _ in page.tags].count("details") > 0


def test_no_style_of_a_notebook_reaches_beyond_its_own() -> None:
    style = re.search(r"<style>(.*?)</style>", render_notebook(RESULTS["tokens"]), re.DOTALL)
    assert style is not None
    depth, selectors, start = 0, [], 0
    text = style[1]
    for place, letter in enumerate(text):
        if letter == "{":
            if depth == 0:
                selectors.append(text[start:place].strip())
            depth += 1
        elif letter == "}":
            depth -= 1
            start = place + 1
    assert depth == 0
    assert all(".lawscope" in selector for selector in selectors), selectors


def test_a_result_shows_itself_in_a_notebook() -> None:
    result = RESULTS["report"]
    assert isinstance(result, Result)
    assert result._repr_html_() == render_notebook(result)


@pytest.mark.parametrize("name", RESULTS)
def test_markdown_has_whole_tables_and_no_markup_of_names(name: str) -> None:
    text = render_markdown(RESULTS[name])
    assert text.startswith("# ")
    blocks = re.findall(r"(?:^\|.*\|$\n)+", text, re.MULTILINE)
    assert blocks
    for block in blocks:
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(columns) == 1
    assert not re.search(r"(?<!\\)<", text)


def test_markdown_says_verdict_advice_and_papers() -> None:
    text = render_markdown(RESULTS["report"])
    for words in (
        "**the law holds on these samples**: On these samples r = −0.998",
        "about 45 % of",
        "Papyan",
        "untrained",
    ):
        assert words in text


@pytest.mark.parametrize("several", [True, False])
def test_the_accuracy_stands_once_above_everything_else(several: bool) -> None:
    head = make_collapse(tuple("abcde"))
    result = make_report(collapse=head, accuracy=head.accuracy) if several else head
    (fact,) = [fact for fact in head.section().facts if "accuracy" in fact]
    page = Page(render_page(result, "{}"))
    words = [words for words in page.words if "--paper" not in words]  # without the style
    for text in (printed(result), render_markdown(result), " ".join(words)):
        assert text.count(fact) == 1
        assert text.index(fact) < text.index("NC1")
        assert text.index(fact) < text.index("as predicted")
