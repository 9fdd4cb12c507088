"""The fit against numpy, intervals against closed forms, every rule and its advice both ways."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.populations import make_noise, make_population

from lawscope.laws.collapse.metrics import NC1
from lawscope.laws.collapse.verdict import judge_collapse, merged_classes
from lawscope.laws.line import Replicates, fit_line, half_life
from lawscope.laws.next_token import verdict as next_token
from lawscope.laws.separation.verdict import RULE, judge, judge_population

NOISE = np.random.default_rng(0).normal(size=(8, 12))


def replicates(curve, spread):
    """Jackknife replicates whose standard error is about ``spread``."""
    noise = NOISE[:, : len(curve)]
    return Replicates(curve + spread / math.sqrt(8) * noise)


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
    """ρ = 0.818 gives 3.45 layers (He & Su 2023)."""
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
    low, high = Replicates(deleted).interval(lambda c: c, curve)
    width = t.ppf(0.975, 9) * folds.std(axis=0, ddof=1) / math.sqrt(10)
    assert low == pytest.approx(curve - width)
    assert high == pytest.approx(curve + width)


def test_verdict_holds_and_its_three_ways_to_fail():
    outlier = -0.5 * np.arange(12.0)
    outlier[5] -= 1.6
    for curve, spread, expected, said in (
        (-0.5 * np.arange(8), 0.02, "holds", "at most -0.98"),
        (-0.05 * np.arange(8), 0.005, "does not hold", "less than a halving"),
        (+0.5 * np.arange(8), 0.02, "does not hold", "D rises"),
        (-np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 3.0, 6.0]), 0.02, "does not hold", "uneven"),
        (outlier, 0.001, "does not hold", ""),
    ):
        values = np.exp(curve)
        found = make_population(values, spread)
        for verdict, reason in (judge(fit_line(values), curve), (found.verdict, found.reason)):
            assert (verdict, said in reason) == (expected, True), reason


def test_verdict_cannot_be_told():
    line = -0.5 * np.arange(8)
    assert judge(fit_line(np.exp(line)), line)[0] == "holds"
    assert make_population(np.exp(line), 0.35).verdict == "cannot be told"
    short = "3 stations are too few to tell a line from a bend; at least 4 are needed."
    assert judge(fit_line(np.exp(line[:3])), line[:3]) == ("cannot be told", short)
    found = make_population(np.exp(line[:3]))
    assert (found.verdict, found.reason) == ("cannot be told", short)
    dead = line.copy()
    dead[2] = np.nan
    assert "no logarithm" in judge(fit_line(np.exp(dead)), dead)[1]
    assert make_population(np.exp(dead)) is None
    assert "four stations" in RULE


def test_a_law_that_holds_here_is_not_said_to_hold_elsewhere_while_a_station_is_unsettled():
    line = np.exp(-0.5 * np.arange(8))
    biased = make_population(line, bias=1.5)
    assert biased.verdict == "cannot be told"
    assert biased.reason.startswith("100 samples per class are too few")
    assert "1.5 times as large" in biased.reason
    assert f"at least {biased.needed} per class" in biased.reason
    # D within a fifth of D̂ takes n·4(D̂/D − 1).
    assert biased.needed == pytest.approx(200, abs=1)
    # In a sentence the number has three digits, upwards.
    many = make_population(line, bias=30.123)
    assert many.needed == pytest.approx(11650, abs=10)
    assert "at least 11\u202f700 per class" in many.reason
    assert make_population(line, bias=1.2).needed is None
    assert not make_population(line, bias=1.26).settled.any()
    unclear = make_population(line, open_stations=[0])
    assert unclear.settled.tolist() == [False] + [True] * 7
    assert unclear.verdict == "cannot be told"
    assert "at 1 station not all classes can be told apart" in unclear.reason
    # Refuted all the same where one of the conditions is certainly false.
    assert make_population(1 / line, bias=1.5).verdict == "does not hold"
    assert make_population(1 / line, open_stations=[7]).verdict == "does not hold"


def test_what_is_read_off_the_curve_of_the_population_has_students_interval():
    from scipy.stats import t

    curve = -0.5 * np.arange(6)
    found = make_population(np.exp(curve), spread := 0.03)
    low, high = found.interval_of(lambda c: np.array([c[1], c[0] + c[2]]))
    noise = make_noise(6)
    errors = spread * np.array([1, np.linalg.norm(noise[:, 0] + noise[:, 2])])
    assert (low + high) / 2 == pytest.approx([curve[1], curve[0] + curve[2]])
    assert (high - low) / 2 == pytest.approx(t.ppf(0.975, 7) * errors)
    unclear = make_population(np.exp(curve), spread, open_stations=[0])
    assert np.isnan(unclear.interval_of(lambda c: c)).tolist() == [[True] + [False] * 5] * 2


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
    values = np.exp(-0.5 * np.arange(8))
    found = make_population(values)
    fit = dataclasses.replace(found.fit, interval={**found.fit.interval, "pearson": ends})
    judged = judge_population(dataclasses.replace(found, fit=fit), values, 100)
    assert judged.verdict == expected


SIMPLEX = 1.5 * np.eye(3) - 0.5


def collapse_verdict(papyan=0.01, angle=0.0, nc3=0.0, nc4=0.001, spread=1e-6):
    """The verdict on three classes whose numbers are off the predicted by as much."""
    measured = SIMPLEX + angle * (1 - np.eye(3))
    interval = {"nc4": (nc4 - spread, nc4 + spread)}
    predicted = SimpleNamespace(cosines=SIMPLEX, nc3=0.2)
    found = judge_collapse(
        NC1(3 * papyan, papyan, 0.0), measured, 0.2 + nc3, nc4, interval, predicted
    )
    return found[0]


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("papyan", 0.099, 0.101),
        ("angle", 0.099, 0.101),
        ("nc3", 0.099, 0.101),
        ("nc3", -0.099, -0.101),
        ("nc4", 0.0099, 0.0101),
    ],
)
def test_each_of_the_four_bars_decides(name, inside, outside):
    assert collapse_verdict() == "holds"
    assert collapse_verdict(**{name: inside}) == "holds"
    assert collapse_verdict(**{name: outside}) == "does not hold"


def test_an_interval_across_the_bar_settles_nothing():
    assert collapse_verdict(nc4=0.0099, spread=0.001) == "cannot be told"
    assert collapse_verdict(papyan=math.nan) == "cannot be told"


def test_classes_are_merged_from_a_cosine_of_nine_tenths():
    pair = np.array([[1.0, 0.89], [0.89, 1.0]])
    assert merged_classes(pair) == []
    assert merged_classes(pair + 0.02) == [[0, 1]]


def measured(curve, noise=1e-4, folds=5):
    """A curve of log PR with jackknife replicates that differ by ``noise``."""
    curve = np.asarray(curve, dtype=np.float64)
    wobble = np.random.default_rng(0).normal(size=(folds, len(curve)))
    replicates = Replicates(curve + noise * (wobble - wobble.mean(axis=0)))
    return fit_line(np.exp(curve), replicates), curve, replicates


def facts_of_tokens(curve, control=None):
    fit, curve, replicates = measured(curve)
    result = SimpleNamespace(
        blocks=["embedding", *(f"h.{i}" for i in range(len(curve)))],
        pr=np.exp([0, *curve]),
        fit=fit,
        replicates=replicates,
        control=control,
    )
    return next_token.find_facts(result)


LINE = -0.02 * np.arange(10)


@pytest.mark.parametrize(
    ("curve", "noise", "verdict", "said"),
    [
        (LINE, 1e-4, "holds", "r = −1.000 ["),
        (-LINE, 1e-4, "does not hold", "PR rises with depth, as in an untrained network"),
        (LINE * 0, 1e-2, "cannot be told", "does not settle whether PR falls"),
        (LINE + 0.1 * (np.arange(10) % 2), 1e-5, "does not hold", "progress per block is uneven"),
        (LINE, 0.1, "cannot be told", "does not settle"),
        (LINE[:3], 1e-4, "cannot be told", "3 blocks are too few"),
        (np.where(LINE < -0.1, np.nan, LINE), 1e-4, "cannot be told", "no logarithm"),
    ],
)
def test_rule_of_next_tokens(curve, noise, verdict, said):
    fit, curve, replicates = measured(curve, noise)
    given, reason = next_token.judge(fit, curve, replicates, n=10_000, d=16)
    assert (given, said in reason) == (verdict, True), reason


def test_too_few_tokens_decide_nothing():
    fit, curve, replicates = measured(LINE)
    assert next_token.judge(fit, curve, replicates, n=700, d=16)[0] == "cannot be told"
    assert next_token.judge(fit, curve, None, n=10_000, d=16)[0] == "cannot be told"
    assert "95 %" in next_token.RULE


@pytest.mark.parametrize(
    ("last", "blocks", "side"),
    [([0.1], 1, "above"), ([-0.1], 1, "below"), ([0.1, 0.2], 2, "above")],
)
def test_a_bend_at_the_end_is_named(last, blocks, side):
    curve = LINE.copy()
    curve[-len(last) :] += last
    _, curve, replicates = measured(curve)
    bend = next_token.find_bend(curve, replicates)
    assert bend.blocks == blocks
    assert bend.share == pytest.approx(last[-1] / 0.18, rel=0.05)
    said = facts_of_tokens(curve)
    assert any(f"{side} the line" in sentence and "'h.9'" in sentence for sentence in said)


def test_a_straight_line_has_no_bend():
    _, curve, replicates = measured(LINE)
    assert next_token.find_bend(curve, replicates) is None
    noisy = LINE.copy()
    noisy[-1] += 0.1
    assert next_token.find_bend(*measured(noisy, noise=0.5)[1:]) is None
    assert next_token.find_bend(curve, None) is None


def test_findings_on_next_tokens_rest_on_numbers():
    control = SimpleNamespace(fit=measured(-LINE)[0])
    assert any("untrained has r = 1.000" in each for each in facts_of_tokens(LINE, control))
    uneven = LINE + 0.1 * (np.arange(10) == 4)
    assert "'h.4' leaves the line most" in facts_of_tokens(uneven)[-1]
