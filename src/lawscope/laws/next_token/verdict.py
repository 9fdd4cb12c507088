"""Does PR fall along a straight line through the blocks, and what does its curve advise?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.formatting import fixed, many, number
from lawscope.laws.base import Answer, Verdict, decide
from lawscope.laws.line import LineFit, Replicates, judge_straightness, log_or_nan, residual_shares
from lawscope.laws.next_token.result import NextToken
from lawscope.statistics.prediction_residual import ENOUGH

MIN_BLOCKS = 4
STRAIGHT = -0.9
BENT = 0.2

RULE = (
    "The law holds when two things are certain at the 95 % level: (1) the fitted line of log PR "
    "over the blocks falls; (2) the Pearson correlation of log PR with the block index is below "
    f"{STRAIGHT}. It does not hold when one of them is certainly false. Otherwise, with fewer than "
    f"{MIN_BLOCKS} blocks, fewer than {ENOUGH} tokens per feature, or without an interval, it "
    "cannot be told. A bend of the last block or two, away from the line through the others by "
    f"certainly more than {BENT:.0%} of its fall, is named and does not decide."
)


def judge(
    fit: LineFit, curve: FloatArray, replicates: Replicates | None, n: int, d: int
) -> tuple[Verdict, str]:
    """Apply :data:`RULE` to log PR per block, of n tokens with d features each."""
    if len(curve) < MIN_BLOCKS:
        said = f"{many(len(curve), 'block')} {'is' if len(curve) == 1 else 'are'} too few"
        lack = f"{said} to tell a line from a bend; at least {MIN_BLOCKS} are needed."
        return "cannot be told", lack
    if not np.isfinite(curve).all():
        return "cannot be told", "at some block PR is zero or undefined, so it has no logarithm."
    if n < ENOUGH * d:
        return "cannot be told", (
            f"{many(n, 'token')} for {many(d, 'feature')} are too few ({number(n / d)} per "
            f"feature, {ENOUGH} are needed): the line would be one through noise."
        )
    if replicates is None or not np.isfinite(replicates.curves).all():
        return "cannot be told", "there are too few sequences for an interval."
    return decide([_falls(fit), judge_straightness(fit, STRAIGHT, "block")])


def _falls(fit: LineFit) -> Answer:
    low, high = fit.interval["slope"]
    said = f"log PR changes by {number(fit.slope)} [{number(low)}, {number(high)}] per block"
    if high < 0:
        return True, said
    if low >= 0:
        return False, (
            f"{said}: PR rises with depth, as in an untrained network; check that the weights were "
            "loaded"
        )
    return None, f"{said}, which does not settle whether PR falls"


@dataclass(frozen=True)
class Bend:
    """Last blocks that leave the line through the others."""

    blocks: int  # 1 or 2
    share: float  # of the last one off the line, in units of the line's fall; above it positive
    interval: tuple[float, float]  # 95 %, of the share


def find_bend(curve: FloatArray, replicates: Replicates | None) -> Bend | None:
    """Return the bend of the last block or two in log PR per block, if it is certain.

    The line goes through all blocks but the last two, or all but the last where that would leave
    fewer than four. The last block is bent when it is certainly off by more than :data:`BENT` of
    the line's fall; the one before belongs to the bend when it is too, to the same side.
    """
    last = min(2, len(curve) - MIN_BLOCKS)
    if last < 1 or replicates is None or not np.isfinite(replicates.curves).all():
        return None

    def shares(values: FloatArray) -> FloatArray:
        return residual_shares(values, last)[-last:]

    low, high = replicates.interval(shares, curve)
    sides = np.where(low > BENT, 1, np.where(high < -BENT, -1, 0))
    if sides[-1] == 0:
        return None
    blocks = 2 if last == 2 and sides[0] == sides[1] else 1
    return Bend(blocks, float(shares(curve)[-1]), (float(low[-1]), float(high[-1])))


def advise(result: NextToken) -> tuple[str, ...]:
    """Name last blocks of a model that has learned after which PR is surely not lower."""
    replicates, curve = result.replicates, log_or_nan(result.pr[1:])
    if not result.learned or replicates is None or not np.isfinite(replicates.curves).all():
        return ()
    low, high = replicates.interval(lambda c: c[-1] - c[:-1], curve)
    idle = 0
    while idle < len(low) and low[-1 - idle] >= 0:
        idle += 1
    if idle in (0, len(low)):
        return ()
    ends = np.expm1([low[-idle], high[-idle]])
    those = f"its last {idle} blocks" if idle > 1 else f"'{result.blocks[-1]}'"
    return (
        f"Compare the loss of the model with and without {those}: PR is surely not lower after "
        f"{'them' if idle > 1 else 'it'} (higher by {ends[0]:.1%} to {ends[1]:.1%}).",
    )


def find_facts(result: NextToken) -> list[str]:
    """Return the bend of the last blocks, the block that leaves the line most, the control."""
    fit, blocks, facts = result.fit, result.blocks[1:], list[str]()
    bend = find_bend(log_or_nan(result.pr[1:]), result.replicates)
    if bend is not None:
        least, most = sorted(map(abs, bend.interval))
        named = (
            f"'{blocks[-1]}' ends" if bend.blocks == 1 else f"'{blocks[-2]}' and '{blocks[-1]}' end"
        )
        facts.append(
            f"The line bends at the end: {named} {'above' if bend.share > 0 else 'below'} the line "
            f"through the other blocks, by {abs(bend.share):.0%} of its fall "
            f"[{least:.0%}, {most:.0%}]."
        )
    control = fit if result.control is None else result.control.fit
    if control is not fit and np.isfinite([fit.pearson, control.pearson]).all():
        facts.append(
            f"The same network untrained has r = {fixed(control.pearson, 3)} and "
            f"ρ = {fixed(control.rho, 3)}, against {fixed(fit.pearson, 3)} and "
            f"{fixed(fit.rho, 3)} here."
        )
    if np.isfinite(fit.residuals).all():
        worst = int(np.abs(fit.residuals).argmax())
        facts.append(
            f"'{blocks[worst]}' leaves the line most, with "
            f"{np.exp(fit.residuals[worst]):.3f} times the PR that equal progress would give it."
        )
    return facts
