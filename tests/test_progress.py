"""The bar counts, says the rate, appears before the first step, and knows what was done before."""

import io
import time

import pytest
from rich.console import Console

import lawscope.progress as module


@pytest.fixture
def stderr(monkeypatch):
    """What a terminal would show."""
    text = io.StringIO()
    monkeypatch.setattr(
        module, "Console", lambda **_: Console(file=text, force_terminal=True, width=120)
    )
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    return text


def test_tokens_per_second_and_what_was_done_before(stderr):
    with module.progress("measuring", 1000, show=True, unit="tokens", done=400) as advance:
        advance(100)
        advance(200)
        time.sleep(0.2)
    assert "700 of 1,000 tokens" in stderr.getvalue()


def test_the_step_under_way_is_named_before_it_is_done(stderr):
    with module.progress("measuring", 12, show=True, unit="batch"):
        time.sleep(0.3)
    assert "batch 1 of 12" in stderr.getvalue()


def test_nothing_is_shown_without_a_terminal(stderr):
    with module.progress("measuring", 10, show=False) as advance:
        advance(10)
        time.sleep(0.1)
    assert stderr.getvalue() == ""
