"""What the page and the terminal say about next-token prediction: curve, cards, tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lawscope.laws.line import LineFit
from lawscope.laws.next_token_result import NextToken
from lawscope.laws.separation_result import FloatArray
from lawscope.report.curve import Quantity
from lawscope.report.numbers import MISSING, count, fixed, number, percent
from lawscope.report.view import Card, Table, between

RESIDUAL = Quantity(
    symbol="PR",
    name="prediction residual PR = 1 − R²",
    first=1,  # the embedding is measured and does not belong to the line
    digits=4,
    least_pad=1.001,
    least_reach=1e-4,
)


@dataclass(frozen=True, eq=False)
class ResidualCurve:
    """PR of the embedding and the blocks, as the charts take it."""

    stations: tuple[str, ...]
    values: FloatArray
    interval: FloatArray | None
    fit: LineFit
    granularity: str = "blocks"


def curve_of(result: NextToken) -> ResidualCurve:
    """A result with its line by station index: 0 is the embedding, which the line leaves out."""
    fit = replace(
        result.fit,
        intercept=result.fit.intercept - result.fit.slope,
        residuals=np.concatenate([[np.nan], result.fit.residuals]),
    )
    return ResidualCurve(result.blocks, result.pr, interval_of(result), fit)


def interval_of(result: NextToken) -> FloatArray | None:
    """95 % interval of PR at every block, shape (L + 1, 2); NaN at the embedding."""
    if result.replicates is None:
        return None
    low, high = result.replicates.interval(lambda curve: curve, np.log(result.pr[1:]))
    ends = np.exp(np.stack([low, high], axis=1))
    return np.concatenate([[[np.nan, np.nan]], ends])


def fit_cards(result: NextToken) -> list[Card]:
    """What the fitted line says, in the order it matters."""
    fit = result.fit
    return [
        Card(
            "r",
            fixed(fit.pearson, 4),
            "correlation of log PR with the block; −1 is a perfect line",
            between(fit, "pearson", 4),
        ),
        Card(
            "ρ",
            fixed(fit.rho, 4),
            "decay ratio: what each block keeps of PR",
            between(fit, "rho", 4),
        ),
        Card(
            "PR",
            f"{fixed(result.pr[1], 3)} → {fixed(result.pr[-1], 3)}",
            "from the first block to the last",
        ),
        Card("R", percent(result.ratio), "what all blocks together keep of PR"),
    ]


def size_cards(result: NextToken) -> list[Card]:
    """How much was measured."""
    return [
        Card("tokens", count(result.n), "whose next token was predicted"),
        Card("features", count(result.d), f"of a token; {number(result.n / result.d)} tokens each"),
        Card("blocks", count(len(result.blocks) - 1), "places where PR was measured"),
    ]


def block_table(result: NextToken) -> Table:
    """One row per block, the embedding first."""
    ends, beside = interval_of(result), result.control
    table = result.table()
    columns = ["l", "block", "PR"] + ([] if ends is None else ["low", "high"])
    columns += ["adjusted", "cross-validated", "one-hot", "fitted", "residual"]
    columns += ["untrained PR"] if beside is not None else []
    columns += ["rank", "condition"]
    rows = []
    for index, row in enumerate(table.to_dict("records")):
        cells = [str(index), row["block"], fixed(row["PR"], 5)]
        cells += [] if ends is None else [fixed(end, 5) for end in ends[index]]
        cells += [fixed(row[name], 5) for name in ("adjusted", "cross-validated", "one-hot")]
        cells += [fixed(row["fitted"], 5), f"{row['residual']:+.5f}".replace("-", "−")]
        if np.isnan(row["residual"]):
            cells[-1] = MISSING
        cells += [fixed(beside.pr[index], 5)] if beside is not None else []
        rows.append([*cells, str(row["rank"]), number(row["condition"])])
    return Table("Blocks", columns, rows, words=2)


def control_table(result: NextToken) -> Table:
    """The trained model and the untrained one side by side."""
    named = [("trained", result), ("untrained", result.control)]
    rows = [
        [name, fixed(law.fit.pearson, 4), fixed(law.fit.rho, 4), percent(law.ratio)]
        for name, law in named
        if law is not None
    ]
    return Table("Beside the untrained model", ["model", "r", "ρ", "R"], rows)


def target_table(result: NextToken) -> Table:
    """What else the same features were asked to predict."""
    rows = [
        [
            name,
            fixed(law.pr[0], 4),
            fixed(law.pr[1], 4),
            fixed(law.pr[-1], 4),
            fixed(law.fit.pearson, 4),
            fixed(law.fit.rho, 4),
        ]
        for name, law in result.targets.items()
    ]
    columns = ["target", "PR embedding", "PR first block", "PR last block", "r", "ρ"]
    return Table("Targets", columns, rows)
