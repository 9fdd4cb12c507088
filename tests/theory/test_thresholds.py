"""Thresholds beyond two groups, and ratios beyond reason."""

import math

import numpy as np
import pytest

import lawscope as ls
from lawscope.theory.layer_peeled import two_groups


@pytest.mark.parametrize(("A", "B", "length"), [(5, 5, 0.3), (4, 3, 0.5), (9, 1, 1.0)])
def test_nearly_two_groups_have_the_thresholds_of_two(A, B, length):
    """A majority split by a hair is solved by the general roots."""
    found = ls.peel([1.0] * (A - 2) + [1 - 1e-7] * 2 + [0.5] * B, length, length)
    assert len(found.groups) == 3
    tau = (A + B) * length
    assert found.threshold == pytest.approx(two_groups.find_collapse_ratio(A, B, tau), rel=1e-6)
    # R₁ is read off phases of solved programs, whose edge is as sharp as ABSENT.
    assert found.vanishing == pytest.approx(two_groups.find_vanishing_ratio(A, B, tau), rel=2e-4)


@pytest.mark.parametrize(("each", "most", "vanishes"), [(4, 10.0, False), (100, 1000.0, True)])
def test_ten_groups_change_phase_at_their_thresholds(each, most, vanishes):
    counts = np.repeat(np.geomspace(most, 1, 10), each)
    found = ls.peel(counts)

    def phase(ratio):
        at = ls.peel(np.where(counts == 1, most / ratio, counts))
        return next(g.phase for g in at.groups if g.count == most / ratio)

    assert phase(found.threshold * 0.995) == "separated"
    assert phase(found.threshold * 1.005) == "collapsed"
    assert (found.vanishing is not None) == vanishes
    if vanishes:
        assert phase(found.vanishing * 0.99) == "collapsed"
        assert phase(found.vanishing * 1.01) == "vanished"


@pytest.mark.parametrize(
    ("counts", "energy", "phases"),
    [
        ([1e12, 1], 5.0, ["separated", "collapsed"]),
        ([1e12] * 3 + [1] * 3, 5.0, ["separated", "collapsed"]),
        ([1e12] * 3 + [1] * 3, 0.01, ["separated", "vanished"]),
        ([1e12] * 3 + [1e6] * 2 + [1] * 3, 5.0, ["separated", "collapsed", "collapsed"]),
        ([1e50] * 3 + [1e-49] * 3, 5.0, ["separated", "collapsed"]),
        ([1e12] + [1] * 4, 50.0, ["separated", "separated"]),
        ([3, 3], 0.01, ["separated"]),
    ],
)
def test_absurd_ratios_have_the_right_phase(counts, energy, phases):
    found = ls.peel(counts, energy, energy)
    assert [g.phase for g in found.groups] == phases
    assert found.gap <= 1e-9 * found.loss
    # The closed forms of the thresholds must say the same.
    if len(phases) == 2:
        assert (found.ratio < (found.threshold or math.inf)) == (phases[1] == "separated")
        assert (found.ratio >= (found.vanishing or math.inf)) == (phases[1] == "vanished")
