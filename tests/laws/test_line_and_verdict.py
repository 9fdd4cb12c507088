"""The fit against numpy, the intervals against a closed form, the verdict both ways."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lawscope.laws.advice import advise
from lawscope.laws.line import fit_line, half_life
from lawscope.laws.uncertainty import Replicates
from lawscope.laws.verdict import RULE, judge

NOISE = np.random.default_rng(0).normal(size=(8, 12))


def replicates(curve, spread):
    """Jackknife replicates whose standard error is about ``spread``."""
    noise = NOISE[:, : len(curve)]
    return Replicates(curve + spread / math.sqrt(8) * noise, "jackknife")


def verdict(curve, spread):
    curve = np.array(curve, dtype=float)
    again = replicates(curve, spread)
    return judge(fit_line(np.exp(curve), again), curve, again)


@given(st.lists(st.floats(-20, 20), min_size=3, max_size=20).filter(lambda v: np.std(v) > 1e-3))
def test_the_fit_is_numpys(log_values):
    curve = np.array(log_values)
    fit = fit_line(np.exp(curve))
    slope, intercept = np.polyfit(np.arange(len(curve)), curve, 1)
    assert fit.slope == pytest.approx(slope, abs=1e-9)
    assert fit.intercept == pytest.approx(intercept, abs=1e-8)
    r = np.corrcoef(np.arange(len(curve)), curve)[0, 1]
    assert fit.pearson == pytest.approx(r, abs=1e-9)
    assert fit.residuals.sum() == pytest.approx(0, abs=1e-8)
    assert fit.rho == pytest.approx(math.exp(slope))


def test_the_papers_half_life():
    """ρ = 0.818 gives 3.45 layers (003)."""
    assert half_life(math.log(0.818)) == pytest.approx(3.45, abs=0.005)
    assert half_life(0.1) == math.inf


def test_fewer_than_two_points_and_zeros_have_no_line():
    assert math.isnan(fit_line(np.array([1.0])).slope)
    assert math.isnan(fit_line(np.array([1.0, 0.0, 2.0])).pearson)
    assert math.isnan(fit_line(np.array([2.0, 2.0, 2.0])).pearson)


def test_jackknife_interval_of_a_slope_is_students():
    """For a linear statistic of equal folds it is mean ± t·s/√F, known in closed form."""
    from scipy.stats import t

    rng = np.random.default_rng(1)
    folds = rng.normal(size=(10, 5))
    curve = folds.mean(axis=0)
    deleted = (folds.sum(axis=0) - folds) / 9
    low, high = Replicates(deleted, "jackknife").interval(lambda c: c, curve)
    width = t.ppf(0.975, 9) * folds.std(axis=0, ddof=1) / math.sqrt(10)
    assert low == pytest.approx(curve - width)
    assert high == pytest.approx(curve + width)


def test_bootstrap_interval_is_reversed():
    curves = np.exp(np.random.default_rng(2).normal(size=(4000, 1)))
    low, high = Replicates(curves, "bootstrap").interval(lambda c: c, np.array([1.0]))
    q = np.quantile(curves, [0.025, 0.975])
    assert (low[0], high[0]) == pytest.approx((2 - q[1], 2 - q[0]))


def test_verdict_holds_and_its_three_ways_to_fail():
    line = -0.5 * np.arange(8)
    assert verdict(line, 0.02)[0] == "holds"
    flat = -0.05 * np.arange(8)
    assert verdict(flat, 0.005)[0] == "does not hold"
    assert "less than a halving" in verdict(flat, 0.005)[1]
    rising = +0.5 * np.arange(8)
    assert verdict(rising, 0.02)[0] == "does not hold"
    bent = -np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 3.0, 6.0])
    assert verdict(bent, 0.02)[0] == "does not hold"
    assert "uneven" in verdict(bent, 0.02)[1]
    outlier = -0.5 * np.arange(12.0)
    outlier[5] -= 1.6
    assert verdict(outlier, 0.001)[0] == "does not hold"


def test_verdict_cannot_be_told():
    line = -0.5 * np.arange(8)
    assert verdict(line, 3.0)[0] == "cannot be told"
    assert verdict(line[:3], 0.01) == (
        "cannot be told",
        "3 stations are too few to tell a line from a bend; at least 4 are needed.",
    )
    fit = fit_line(np.exp(line))
    assert judge(fit, line, None)[0] == "cannot be told"
    dead = line.copy()
    dead[2] = np.nan
    assert "no logarithm" in verdict(dead, 0.01)[1]
    assert "four stations" in RULE


def advice(curve, spread=0.01, others=None, granularity="layers", counts=(100, 100)):
    curve = np.array(curve, dtype=float)
    again = replicates(curve, spread)
    fit = fit_line(np.exp(curve), again)
    return advise(
        verdict=judge(fit, curve, again)[0],
        granularity=granularity,
        stations=[f"s{i}" for i in range(len(curve))],
        curve=curve,
        fit=fit,
        replicates=again,
        granularities={granularity: fit, **(others or {})},
        counts=np.array(counts),
    )


def test_advice_on_depth_names_the_layer_after_which_nothing_happens():
    sentence = advice([0, -1, -2, -3, -4, -3.98, -3.97, -3.96])[0]
    assert sentence.startswith("Depth beyond layer 4 ('s4') does nothing here: the last 3 layers")
    flat = [0, 0.1, 0.2, 0.1, 0.3]
    assert "does not lower D (from 1 to 1.35), as if untrained: check" in advice(flat)[0]
    merged = advice(flat, counts=(500, 5))[0]
    assert "rare classes had merged (there are between 5 and 500 samples per class)" in merged


def test_advice_on_balance_both_ways():
    assert "train longer" in advice([0, -3, -6, -9, -9.3, -9.6, -9.9])[0]
    assert "unfreeze it" in advice([0, -0.3, -0.6, -0.9, -4, -7, -10])[0]


def test_advice_on_granularity_risers_and_samples():
    straight = fit_line(np.exp(-np.arange(6.0)))
    said = advice([0, -0.2, -0.2, -2, -2.1, -4, -4.2, -7], others={"blocks": straight})
    assert any("By blocks the line is straighter" in s for s in said)
    assert any("2 layers raise D: 's2', 's4'." in s for s in advice([0, -2, -1, -4, -3, -6]))
    curve = -0.5 * np.arange(8)
    biased = Replicates(curve - 0.05 + 0.001 * NOISE[:, :8], "jackknife")
    fit = fit_line(np.exp(curve), biased)
    said = advise(
        verdict="holds",
        granularity="layers",
        stations=[str(i) for i in range(8)],
        curve=curve,
        fit=fit,
        replicates=biased,
        granularities={},
        counts=np.array([7, 20]),
    )
    assert "as few as 7" in said[-1]


def test_advice_names_where_an_uneven_curve_leaves_its_line():
    curve = [0, -1, -2, -3, -6, -6.5, -7, -7.5, -8, -12]
    said = advice(curve, spread=0.1)[0]
    assert said.startswith("D falls, but unevenly: 's8' leaves the line most, with 4.39")


def test_a_law_that_holds_is_the_advice():
    assert advice(-0.5 * np.arange(8))[0].startswith("The law holds: each layer keeps about 61%")


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((-0.999, -0.985), "holds"),
        ((-0.999, -0.970), "cannot be told"),
        ((-0.975, -0.960), "does not hold"),
    ],
)
def test_the_whole_interval_of_r_decides(ends, expected):
    """Each end matters: r itself is the same in all three."""
    curve = -0.5 * np.arange(8)
    again = replicates(curve, 0.02)
    fit = fit_line(np.exp(curve), again)
    judged = dataclasses.replace(fit, interval={**fit.interval, "pearson": ends})
    assert judge(judged, curve, again)[0] == expected
