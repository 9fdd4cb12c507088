"""What the curve of PR advises."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lawscope.laws.line import LineFit
from lawscope.laws.next_token_verdict import Bend
from lawscope.laws.separation_result import Verdict
from lawscope.statistics.prediction_residual import ENOUGH

FloatArray = NDArray[np.float64]


def advise(
    *,
    verdict: Verdict,
    blocks: Sequence[str],
    fit: LineFit,
    bend: Bend | None,
    n: int,
    d: int,
    control: LineFit | None,
) -> tuple[str, ...]:
    """Sentences that each rest on a number they quote; the most important first.

    Args:
        verdict: on the law.
        blocks: names of the L blocks.
        fit: of the model.
        bend: of its last blocks.
        n: tokens.
        d: features.
        control: fit of the untrained network.
    """
    sentences: list[str] = []
    if verdict == "holds":
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
    if control is not None:
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
    low, high = bend.interval
    named = f"'{blocks[-1]}'" if bend.blocks == 1 else f"'{blocks[-2]}' and '{blocks[-1]}'"
    side = "above" if bend.share > 0 else "below"
    return (
        f"The line bends at the end: {named} end{'s' if bend.blocks == 1 else ''} {side} the line "
        f"through the other blocks, by {abs(bend.share):.0%} of its fall "
        f"[{min(abs(low), abs(high)):.0%}, {max(abs(low), abs(high)):.0%}]."
    )
