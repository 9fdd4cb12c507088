"""What the curve of PR advises."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lawscope.laws.line import log_or_nan
from lawscope.laws.next_token.result import NextToken
from lawscope.laws.next_token.verdict import Bend, find_bend
from lawscope.statistics.prediction_residual import ENOUGH


def advise(result: NextToken) -> tuple[str, ...]:
    """Return sentences that each rest on a number they quote; the most important first."""
    fit, n, d, blocks = result.fit, result.n, result.d, result.blocks[1:]
    bend = find_bend(log_or_nan(result.pr[1:]), result.replicates)
    sentences: list[str] = []
    if result.verdict == "holds":
        sentences.append(
            f"The law holds: each block keeps about {fit.rho:.2%} of the prediction residual."
        )
    if n < ENOUGH * d:
        sentences.append(
            f"Measure {ENOUGH * d - n} tokens more: {n} are {n / d:.3g} per feature, and the line "
            f"means something from {ENOUGH}."
        )
    low = fit.interval.get("slope", (np.nan, np.nan))[0]
    if low > 0 and n >= ENOUGH * d:
        sentences.append(
            f"PR rises with depth (r = {fit.pearson:.3f}), which is what untrained networks do: "
            "check that the weights were loaded, or train longer."
        )
    if bend is not None:
        sentences.append(_bend(blocks, bend))
    if result.control is not None:
        control = result.control.fit
        sentences.append(
            f"The same network untrained has r = {control.pearson:.3f} and ρ = {control.rho:.4f}, "
            f"against {fit.pearson:.3f} and {fit.rho:.4f} here."
        )
    if not sentences:
        worst = int(np.abs(np.nan_to_num(fit.residuals)).argmax())
        sentences.append(
            f"'{blocks[worst]}' leaves the line most, with "
            f"{np.exp(fit.residuals[worst]):.3f} times the PR that equal progress would give it."
        )
    return tuple(sentences)


def _bend(blocks: Sequence[str], bend: Bend) -> str:
    least, most = sorted(map(abs, bend.interval))
    named = f"'{blocks[-1]}'" if bend.blocks == 1 else f"'{blocks[-2]}' and '{blocks[-1]}'"
    side = "above" if bend.share > 0 else "below"
    return (
        f"The line bends at the end: {named} end{'s' if bend.blocks == 1 else ''} {side} the line "
        f"through the other blocks, by {abs(bend.share):.0%} of its fall "
        f"[{least:.0%}, {most:.0%}]."
    )
