"""A report on a language model in the terminal: verdict, key numbers, blocks as bars, advice."""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lawscope.laws.language_report import LanguageReport
from lawscope.laws.next_token_result import NextToken
from lawscope.report.next_token_view import fit_cards, size_cards
from lawscope.report.numbers import fixed, shorten
from lawscope.report.view import VERDICTS
from lawscope.report.writer import STYLES, Writer, card_table, log_shares, print_sentences

MEANINGS = ("−1 is a perfect line", "kept per block", "first block to last", "kept by all")
CHART_ROWS = 5
MOST_BAR = 24
LEAST_NAME = 12


def print_language_summary(report: LanguageReport, console: Console) -> None:
    """Print what matters of a report, in at most the width of the console.

    Args:
        report: what was measured.
        console: where to print.
    """
    law, write = report.next_token, Writer(console)
    console.print(write.text(report.name, "bold"))
    verdict = write.text(VERDICTS.get(law.verdict, law.verdict), STYLES[law.verdict])
    console.print(Text.assemble(verdict, write.text(f": {law.reason}")))
    console.print()
    console.print(_key_numbers(law, write))
    sizes = ", ".join(f"{card.value} {card.symbol}" for card in size_cards(law))
    console.print(write.text(f"{sizes}; target: {law.target} token", "dim"))
    console.print()
    console.print(_chart(law, write))
    console.print()
    console.print(_blocks(law, write))
    print_sentences("advice", "{}.", report.advice, write)
    print_sentences("warnings", "!", report.warnings, write)


def _key_numbers(law: NextToken, write: Writer) -> Table:
    """The numbers of the fit as rows, those of the untrained model beside them."""
    control = None if law.control is None else fit_cards(law.control)
    return card_table(fit_cards(law), MEANINGS, control, write)


def _chart(law: NextToken, write: Writer) -> Text:
    """Columns of log PR, the embedding set apart; several blocks to a column if they are many."""
    shares = log_shares(law.pr)
    groups = np.array_split(shares[1:], min(len(shares) - 1, write.console.width - 13))
    wide = 2 if 2 * len(groups) <= write.console.width - 13 else 1
    first, *columns = (
        write.column(float(np.mean(group)), CHART_ROWS) for group in (shares[:1], *groups)
    )
    high, low = float(np.nanmax(law.pr)), float(np.nanmin(law.pr))
    edges = [fixed(high, 4), *[""] * (CHART_ROWS - 2), fixed(low, 4)]
    lines = [
        f"{write.plain(edge):>9} {cells[0]} " + "".join(cell * wide for cell in cells[1:])
        for edge, cells in zip(edges, zip(first, *columns, strict=True), strict=True)
    ]
    lines.append(" " * 10 + write.plain(f"log PR: embedding, blocks 1 to {len(law.pr) - 1}"))
    return Text("\n".join(lines), style="cyan", no_wrap=True)


def _blocks(law: NextToken, write: Writer) -> Table:
    """One row per block: PR, adjusted, cross-validated, one-hot, and a bar of log PR."""
    titles = ("#", "block", "PR", "adjusted", "CV", "one-hot", "log PR")
    numbers = [law.pr, law.pr_adjusted, law.pr_cv, law.pr_onehot]
    width = write.console.width - 4 - sum(max(8, len(t) + 1) for t in titles[2:6])
    longest = max(cell_len(write.plain(name)) for name in law.blocks)
    name_width = max(LEAST_NAME, min(longest, width * 3 // 4))
    bar_width = max(1, min(MOST_BAR, width - name_width - 3))
    table = Table.grid(padding=(0, 1))
    for place, _ in enumerate(titles):
        justify = "left" if place in (1, 6) else "right"
        table.add_column(justify=justify, no_wrap=True, overflow="crop")  # type: ignore[arg-type]
    table.add_row(*(write.text(title, "dim") for title in titles))
    shares = log_shares(law.pr)
    for index, name in enumerate(law.blocks):
        table.add_row(
            write.text(str(index), "dim"),
            Text(shorten(write.plain(name), name_width, write.plain("…"))),
            *(write.text(fixed(float(values[index]), 4)) for values in numbers),
            Text(write.bar(float(shares[index]), bar_width), style="cyan"),
        )
    return table
