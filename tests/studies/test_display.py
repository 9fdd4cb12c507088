"""Progress: bars for a terminal, lines for a log file."""

from lawscope.studies import display as module
from lawscope.studies.display import Display


def rows(display):
    tasks = display.bars.tasks
    return [(task.description, task.completed, task.total) for task in tasks if task.visible]


def use(display):
    with display.bars:
        display.expect(10)
        display.begin(
            1, "2 × feedforward (depth 20), a name that is much too long for the line", 10
        )
        display.advance(1, 4)
        display.advance(1, "measuring 3 of 57")
        display.waiting(3)
        display.say("A worker was lost.")
        shown = rows(display)
        display.waiting(0)
        display.end(1, 10)
        return shown, rows(display)


def test_bars_show_the_total_each_job_and_who_is_waited_for(capsys):
    during, after = use(Display(show=True))
    assert sorted(during) == [
        ("measuring 3 of 57", 4, 10),
        ("network-epochs", 4, 10),
        ("waiting for another process: it trains 3 of these networks", 0, None),
    ]
    assert after == [("network-epochs", 10, 10)]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "A worker was lost." in captured.err


def test_silent_where_bars_are_forbidden(capsys, monkeypatch):
    monkeypatch.setattr(module, "LINE_SECONDS", 0)
    use(Display(show=False))
    assert capsys.readouterr() == ("", "")


def test_lines_where_nobody_looks(capsys, monkeypatch):
    use(Display())
    assert capsys.readouterr() == ("", "A worker was lost.\n")
    monkeypatch.setattr(module, "LINE_SECONDS", 0)
    use(Display())
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("4 of 10 network-epochs")
    assert said[0].endswith(
        ": 2 × feedforward (depth 20), a name that is much too long for the line"
    )
    assert said[-1].startswith("10 of 10 network-epochs")


def test_a_job_begun_again_takes_its_progress_back():
    display = Display(show=True)
    with display.bars:
        display.expect(10)
        display.begin(1, "a network", 10)
        display.advance(1, 8)
        display.advance(1, 1)
        assert rows(display)[0] == ("network-epochs", 1, 10)
        display.end(1)
        display.advance(1, 9)
        assert rows(display) == [("network-epochs", 1, 10)]
