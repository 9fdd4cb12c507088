"""The rule of the law of next-token prediction, on made-up curves."""

import numpy as np
import pytest

from lawscope.laws.line import fit_line
from lawscope.laws.next_token_advice import advise
from lawscope.laws.next_token_verdict import RULE, find_bend, judge
from lawscope.laws.uncertainty import Replicates


def measured(curve, noise=1e-4, folds=5):
    """A curve of log PR with jackknife replicates that differ by ``noise``."""
    curve = np.asarray(curve, dtype=np.float64)
    wobble = np.random.default_rng(0).normal(size=(folds, len(curve)))
    replicates = Replicates(curve + noise * (wobble - wobble.mean(axis=0)), "jackknife")
    return fit_line(np.exp(curve), replicates), curve, replicates


LINE = -0.02 * np.arange(10)


@pytest.mark.parametrize(
    ("curve", "noise", "verdict", "said"),
    [
        (LINE, 1e-4, "holds", "r = -1.0000"),
        (-LINE, 1e-4, "does not hold", "PR rises with depth, as in an untrained network"),
        (LINE * 0, 1e-2, "cannot be told", "does not settle whether PR falls"),
        (LINE + 0.1 * (np.arange(10) % 2), 1e-5, "does not hold", "progress per block is uneven"),
        (LINE, 0.1, "cannot be told", "does not settle"),
        (LINE[:3], 1e-4, "cannot be told", "3 blocks are too few"),
        (np.where(LINE < -0.1, np.nan, LINE), 1e-4, "cannot be told", "no logarithm"),
    ],
)
def test_rule(curve, noise, verdict, said):
    fit, curve, replicates = measured(curve, noise)
    given, reason = judge(fit, curve, replicates, n=10_000, d=16)
    assert (given, said in reason) == (verdict, True), reason


def test_too_little_data_decides_nothing():
    fit, curve, replicates = measured(LINE)
    assert judge(fit, curve, replicates, n=700, d=16)[0] == "cannot be told"
    assert judge(fit, curve, None, n=10_000, d=16)[0] == "cannot be told"
    assert "95 %" in RULE


@pytest.mark.parametrize(
    ("last", "blocks", "side"),
    [([0.1], 1, "above"), ([-0.1], 1, "below"), ([0.1, 0.2], 2, "above")],
)
def test_a_bend_at_the_end_is_named(last, blocks, side):
    curve = LINE.copy()
    curve[-len(last) :] += last
    fit, curve, replicates = measured(curve)
    bend = find_bend(curve, replicates)
    assert bend.blocks == blocks
    assert bend.share == pytest.approx(last[-1] / 0.18, rel=0.05)
    names = [f"h.{i}" for i in range(10)]
    advice = advise(verdict="holds", blocks=names, fit=fit, bend=bend, n=10_000, d=16, control=None)
    assert any(f"{side} the line" in sentence and "'h.9'" in sentence for sentence in advice)


def test_a_straight_line_has_no_bend():
    _, curve, replicates = measured(LINE)
    assert find_bend(curve, replicates) is None
    noisy = LINE.copy()
    noisy[-1] += 0.1
    assert find_bend(*measured(noisy, noise=0.5)[1:]) is None
    assert find_bend(curve, None) is None


def test_advice_rests_on_numbers():
    def said(fit, verdict, n=10_000, control=None):
        names = [f"h.{i}" for i in range(10)]
        return advise(verdict=verdict, blocks=names, fit=fit, bend=None, n=n, d=16, control=control)

    falling, rising = measured(LINE)[0], measured(-LINE)[0]
    assert said(falling, "holds")[0].startswith("The law holds: each block keeps about 98.02%")
    assert "check that the weights were loaded" in said(rising, "does not hold")[0]
    assert said(rising, "cannot be told", n=100)[0].startswith("Measure 700 tokens more")
    assert "untrained has r = 1.000" in said(falling, "holds", control=rising)[-1]
    uneven = measured(LINE + 0.1 * (np.arange(10) == 4))[0]
    assert "'h.4' leaves the line most" in said(uneven, "does not hold")[0]
