"""What the page and the terminal say about collapse: words and tables."""

from __future__ import annotations

import numpy as np

from lawscope.laws.collapse_result import Collapse
from lawscope.report.numbers import MISSING, count, fixed, number, percent
from lawscope.report.view import Table

VERDICTS = {"holds": "collapsed as predicted", "does not hold": "not collapsed as predicted"}
MOST_CLASSES = 60
SHORT = ("NC1 Papyan", "NC2 means angle_error", "NC2 classifiers angle_error", "NC3", "NC4")


def number_table(result: Collapse) -> Table:
    """Every number with its convention, interval and prediction."""
    rows = [
        [
            row["metric"].replace("_", " ") if row["metric"].startswith("NC2") else row["metric"],
            row["convention"],
            number(row["value"]),
            f"{number(row['low'])} to {number(row['high'])}" if row["low"] == row["low"] else "",
            number(row["predicted"]),
        ]
        for row in result.table().to_dict("records")
    ]
    return Table("Numbers", ["number", "convention", "value", "95 %", "predicted"], rows, words=2)


def class_table(result: Collapse) -> Table:
    """Class by class, those with the nearest rival first where there are many."""
    table = result.by_class()
    caption = "Classes at the head"
    if len(table) > MOST_CLASSES:
        table = table.sort_values("cosine", ascending=False).head(MOST_CLASSES)
        caption += f": the {MOST_CLASSES} whose classifier has the nearest rival"
    rows = [
        [
            row["class"],
            row["nearest classifier"],
            fixed(row["cosine"], 2),
            count(round(row["training samples"])),
            percent(row["accuracy"]),
            row["predicted phase"] or MISSING,
        ]
        for row in table.to_dict("records")
    ]
    columns = ["class", "nearest classifier", "cosine", "samples", "told right", "predicted"]
    return Table(caption, columns, rows, words=2)


def short_table(result: Collapse) -> list[tuple[str, str, str, str]]:
    """The few numbers a terminal shows: name, value, interval, prediction."""
    known = {row[0]: row for row in number_table(result).rows}
    wanted = [known[name.replace("_", " ")] for name in SHORT]
    rows = [(name, value, between, told) for name, _, value, between, told in wanted]
    told = MISSING if result.predicted is None else fixed(result.predicted.minority_cosine[0], 3)
    cosine = fixed(result.minority_cosine.classifiers, 3)
    return [*rows, (f"cosine of {minority_words(result)}", cosine, "", told)]


def minority_words(result: Collapse) -> str:
    """Which classes the minority cosine is about."""
    if len(result.minority) == len(result.classes):
        return "all classifiers"
    return f"{len(result.minority)} minority classifiers"


def head_words(result: Collapse) -> str:
    """The head in a sentence."""
    head = result.head
    rows, width = head.weight.shape
    bias = "no bias" if head.bias is None else f"bias {percent(result.bias_share)} of the logits"
    more = f", {head.positions} of positions" if head.positions else ""
    more += f", under a {head.after}" if head.after else ""
    return f"{head.name}: {head.kind}, {width} features, {rows} rows, {bias}{more}"


def counts_words(result: Collapse) -> str:
    """The class sizes of the prediction in a few words."""
    sizes = result.training_counts
    if np.ptp(sizes) == 0:
        return f"{len(sizes)} classes of {sizes[0]:g} samples"
    return (
        f"{len(sizes)} classes of {sizes.min():g} to {sizes.max():g} samples, a ratio of "
        f"{number(float(sizes.max() / sizes.min()))}"
    )
