"""What a measurement of the law of next-token prediction shows people."""

from __future__ import annotations

import math

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.formatting import MISSING, between, fixed, many, number, percent, signed
from lawscope.laws.line import key_number, line_charts
from lawscope.laws.next_token.result import NextToken
from lawscope.laws.next_token.verdict import RULE, find_facts
from lawscope.section import Chart, KeyNumber, Lines, Section, Table


def section_of(result: NextToken) -> Section:
    """Return the section of a result."""
    about = [
        "In a trained language model every block is expected to lower the prediction residual PR "
        "by the same factor: on a log scale the points fall on a line.",
        "PR = 1 − R² of a linear regression with intercept from a token's features after a block "
        f"to the vocabulary index of its {result.target} token. The embedding is measured and does "
        "not belong to the line.",
        "Adjusted: corrected for the number of features. Cross-validated: every fold of windows "
        "predicted from the others. One-hot: free of the order of the vocabulary.",
    ]
    if result.control is not None:
        about.append("An untrained network often gives a line too, upwards.")
    tables = [_block_table(result)]
    if result.others:
        tables.append(_target_table(result))
    return result._section(
        title="Law of next-token prediction",
        numbers=_numbers(result),
        facts=(
            many(result.n, "token"),
            f"{many(result.d, 'feature')} ({number(result.n / result.d)} tokens each)",
            many(len(result.blocks) - 1, "block"),
            f"target: {result.target} token",
        ),
        charts=_charts(result),
        tables=tables,
        findings=find_facts(result),
        rule=RULE,
        papers=("next_token",),
        about=about,
    )


def _numbers(result: NextToken) -> list[KeyNumber]:
    fit, control = result.fit, result.control
    beside = None if control is None else control.fit
    ends = "" if control is None else _ends(control)
    ratio = "" if control is None else percent(control.ratio)
    about_r = "correlation of log PR with the block; −1 is a perfect line"
    about_ratio = "what all blocks together keep of PR"
    return [
        key_number(fit, beside, "pearson", "r", 4, about_r),
        key_number(fit, beside, "rho", "ρ", 4, "decay ratio: what each block keeps of PR"),
        KeyNumber("PR", _ends(result), "from the first block to the last", control=ends),
        KeyNumber("R", percent(result.ratio), about_ratio, control=ratio),
    ]


def _ends(result: NextToken) -> str:
    return f"{fixed(result.pr[1], 3)} → {fixed(result.pr[-1], 3)}"


def _intervals(result: NextToken) -> FloatArray | None:
    """Return the 95 % interval of PR at every block, shape (L + 1, 2); NaN at the embedding."""
    if result.replicates is None:
        return None
    ends = result.replicates.of_values(np.log(result.pr[1:]))
    return np.concatenate([[[np.nan, np.nan]], ends])


def _charts(result: NextToken) -> list[Chart]:
    control, length, ends = result.control, len(result.pr), _intervals(result)
    notes = []
    if math.isfinite(result.fit.rho):
        start, rho = fixed(math.exp(result.fit.intercept), 4), fixed(result.fit.rho, 4)
        notes.append(f"Line: PR ≈ {start} · {rho}ˡ⁻¹.")
    if ends is not None:
        notes.append(
            "Circles: PR adjusted for the number of features, with 95 % intervals by leaving out "
            "folds of windows."
        )
    charts = line_charts(
        result.fit,
        None if control is None else (control.pr, control.fit),
        first=1,
        title="Prediction residual by block",
        symbol="PR",
        quantity="prediction residual PR = 1 − R²",
        unit="block",
        stations=result.blocks,
        values=result.pr,
        interval=ends,
        estimate=None if ends is None else result.pr_adjusted,
        digits=4,
        note=" ".join(notes),
    )
    if result.others:
        charts.append(
            Lines(
                title="The same features, asked for other tokens of the text",
                names=[f"{name} token" for name in result.targets],
                values=np.stack([law.pr for law in result.targets.values()]),
                x=np.arange(length, dtype=np.float64),
                x_label="block",
                y_label="prediction residual PR",
                ticks=result.blocks,
                log=True,
            )
        )
    return charts


def _block_table(result: NextToken) -> Table:
    ends, beside = _intervals(result), result.control
    columns = ["l", "block", "PR", "adjusted"] + ([] if ends is None else ["95 %"])
    columns += ["cross-validated", "one-hot", "fitted", "residual"]
    columns += ["untrained PR"] if beside is not None else []
    columns += ["rank", "condition"]
    rows = []
    for index, row in enumerate(result.table().to_dict("records")):
        cells = [str(index), row["block"], fixed(row["PR"], 5), fixed(row["adjusted"], 5)]
        if ends is not None:
            cells.append(between(ends[index].tolist(), lambda end: fixed(end, 5), MISSING))
        others = ("cross-validated", "one-hot", "fitted")
        cells += [*(fixed(row[name], 5) for name in others), signed(row["residual"], 5)]
        cells += [fixed(beside.pr[index], 5)] if beside is not None else []
        rows.append([*cells, str(row["rank"]), number(row["condition"])])
    return Table("Blocks", columns, rows, words=2)


def _target_table(result: NextToken) -> Table:
    rows = [
        [name, *(fixed(x, 4) for x in (*law.pr[[0, 1, -1]], law.fit.pearson, law.fit.rho))]
        for name, law in result.targets.items()
    ]
    columns = ["target", "PR embedding", "PR first block", "PR last block", "r", "ρ"]
    return Table("Targets", columns, rows)
