"""Progress: bars for a terminal, silence otherwise."""

import pytest

from lawscope.studies.display import Display


def use(display):
    with display:
        display.expect(10)
        display.begin(
            1, "2 × feedforward (depth 20), a name that is much too long for the line", 10
        )
        display.advance(1, 4)
        display.advance(1, "measuring 3 of 57")
        display.waiting(3)
        display.say("A worker was lost.")
        shown = display.rows()
        display.waiting(0)
        display.end(1, 10)
        return shown, display.rows()


def test_bars_tell_the_total_each_job_and_who_is_waited_for(capsys):
    during, after = use(Display(show=True))
    assert during == [
        ("network-epochs", 4, 10),
        ("measuring 3 of 57", 4, 10),
        ("waiting for another process: it trains 3 of these networks", 0, None),
    ]
    assert after == [("network-epochs", 10, 10)]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "A worker was lost." in captured.err


@pytest.mark.parametrize("show", [False, None])
def test_silent_where_nobody_looks(capsys, show):
    assert use(Display(show=show)) == ([], [])
    assert capsys.readouterr() == ("", "")


def test_a_job_begun_again_takes_its_progress_back():
    with Display(show=True) as display:
        display.expect(10)
        display.begin(1, "a network", 10)
        display.advance(1, 8)
        display.advance(1, 1)
        assert display.rows()[0] == ("network-epochs", 1, 10)
