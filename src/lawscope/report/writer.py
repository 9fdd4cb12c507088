"""Text for a terminal: spelled in ASCII where it must be, bars of block characters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lawscope.laws.line import log_or_nan
from lawscope.report.view import Card

STYLES = {"holds": "bold green", "does not hold": "bold red", "cannot be told": "bold yellow"}
EIGHTHS_ACROSS = " ▏▎▍▌▋▊▉█"
EIGHTHS_UP = " ▁▂▃▄▅▆▇█"
SPELLED = str.maketrans(
    {
        "ρ": "rho",
        "−": "-",
        "–": "-",
        "—": "-",
        "×": "x",
        "…": "..",
        "∞": "inf",
        "≈": "~",
        "Σ": "sum",
    }
    | {"’": "'", "²": "2", "ε": "eps"}
)


class Writer:
    """Text for one console: spelled in ASCII where it must be, never as markup."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.ascii = console.options.ascii_only

    def plain(self, words: str) -> str:
        """What this console can show of ``words``; control characters become "?"."""
        spaced = "".join(" " if letter.isspace() else letter for letter in words)
        shown = "".join(letter if letter.isprintable() else "?" for letter in spaced)
        return shown.translate(SPELLED).encode("ascii", "replace").decode() if self.ascii else shown

    def text(self, words: str, style: str = "") -> Text:
        """A styled piece of text."""
        return Text(self.plain(words), style=style)

    def bar(self, share: float, width: int) -> str:
        """A horizontal bar that fills ``share`` of ``width`` cells; nothing for NaN."""
        if math.isnan(share):
            return ""
        if self.ascii:
            return "#" * max(1, round(share * width))
        whole, eighths = divmod(max(1, round(8 * share * width)), 8)
        return "█" * whole + EIGHTHS_ACROSS[eighths].strip()

    def column(self, share: float, height: int) -> list[str]:
        """The cells of a vertical bar, top first."""
        filled = 0 if math.isnan(share) else max(1, round(8 * share * height))
        cells = [max(0, min(8, filled - 8 * row)) for row in reversed(range(height))]
        return [("#" if cell >= 4 else " ") if self.ascii else EIGHTHS_UP[cell] for cell in cells]


def print_sentences(title: str, mark: str, sentences: Iterable[str], write: Writer) -> None:
    """A list with a heading, or nothing."""
    grid = Table.grid(padding=(0, 1))
    for index, sentence in enumerate(sentences, start=1):
        grid.add_row(write.text(mark.format(index), "dim"), write.text(sentence))
    if grid.rows:
        write.console.print()
        write.console.print(write.text(title, "bold"))
        write.console.print(grid)


def card_table(
    cards: Sequence[Card], meanings: Sequence[str], control: Sequence[Card] | None, write: Writer
) -> Table:
    """Key numbers as rows: symbol, value, interval, a few words; the control's value beside."""
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "left", "left", "right"):
        table.add_column(justify=justify, no_wrap=True)
    between = "95 %" if any(card.interval for card in cards) else ""
    titles = ("", "", between, "", "" if control is None else "untrained")
    table.add_row(*(write.text(title, "dim") for title in titles))
    beside = [""] * len(cards) if control is None else [card.value for card in control]
    for card, meaning, untrained in zip(cards, meanings, beside, strict=True):
        table.add_row(
            write.text(card.symbol, "bold"),
            write.text(card.value),
            write.text(card.interval, "dim"),
            write.text(meaning, "dim"),
            write.text(untrained),
        )
    return table


def log_shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where each value stands between the smallest and the largest in log scale, a little above 0.

    What has no logarithm is NaN.
    """
    logs = log_or_nan(values)
    known = logs[np.isfinite(logs)]
    if not len(known):
        return logs
    span = float(np.ptp(known)) or 1.0
    return np.asarray(0.05 + 0.95 * (logs - known.min()) / span)
