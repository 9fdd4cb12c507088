"""The bar counts, tells the rate, and knows what was done before."""

import io

import pytest
from rich.console import Console

import lawscope.progress as module


@pytest.fixture
def stderr(monkeypatch):
    """What a terminal would show."""
    text = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: Console(file=text, force_terminal=True, width=120)
    )
    monkeypatch.setattr(module, "PATIENCE_SECONDS", -1.0)
    return text


def test_tokens_per_second_and_what_was_done_before(stderr):
    with module.progress("measuring", 1000, show=True, unit="tokens", done=400) as advance:
        advance(100)
        advance(200)
    shown = stderr.getvalue()
    assert "700/1000" in shown
    assert "tokens/s" in shown


def test_nothing_is_shown_without_a_terminal_or_without_a_unit(stderr):
    with module.progress("measuring", 10, show=False, unit="tokens") as advance:
        advance(10)
    assert stderr.getvalue() == ""
    with module.progress("training", 10, show=True) as advance:
        advance(10)
    assert "10/10" in stderr.getvalue()
    assert "/s" not in stderr.getvalue()
