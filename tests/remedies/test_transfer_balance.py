"""The balance on made-up curves, its interval against a closed form, the verdict each way."""

import json
import math

import numpy as np
import pytest
import torch
from tests.populations import make_noise, make_population
from tests.report.made_up import make_separation

import lawscope as ls
from lawscope.remedies.transfer_balance import TransferBalance, compute_balance, transfer_balance
from lawscope.zoo.networks.feedforward import feedforward


def measured(log_values, spread=0.01, **how):
    """A measurement of that curve whose jackknife standard error is about ``spread``."""
    values = np.exp(np.array(log_values, dtype=float))
    stations = ["input", *(f"layer{i}" for i in range(1, len(values)))]
    population = make_population(values, spread, **how)
    return make_separation(values, stations, ["a", "b"], population=population)


def test_the_numbers_are_means_per_layer():
    balance = compute_balance(measured([0, -1, -2, -2.5, -3, -3.5, -4]), 2)
    assert balance.bottom == pytest.approx(1.0)
    assert balance.top == pytest.approx(0.5)
    assert balance.difference == pytest.approx(0.5)
    assert balance.balance == pytest.approx(0.5 / (4 / 6))
    assert balance.table()["factor"].tolist() == pytest.approx([math.exp(-1), math.exp(-0.5)])
    assert balance.table()["layers"].tolist() == [2, 4]


def test_the_interval_is_students_on_the_influence_of_the_folds():
    """``bottom`` is linear in log D, so its error is known in closed form."""
    from scipy.stats import t

    curve, noise = -2.0 * np.arange(5), make_noise(5)
    balance = compute_balance(measured(curve, 0.05), 3)
    width = t.ppf(0.975, 7) * 0.05 * np.linalg.norm(noise[:, 0] - noise[:, 3]) / 3
    assert balance.interval["bottom"] == pytest.approx((2 - width, 2 + width))


def test_a_number_never_stands_beside_the_interval_of_another():
    """Where D of few samples bends the curve, the interval is of what the population does."""
    curve = np.array([0.0, -1, -2, -3, -4])
    population = make_population(np.exp([0.7, -1, -2, -3, -4]))
    result = make_separation(np.exp(curve), list("01234"), ["a", "b"], population=population)
    table = compute_balance(result, 2).table().set_index("part")
    assert table["improvement"].tolist() == pytest.approx([1, 1])
    assert table["population"].tolist() == pytest.approx([1.35, 1])
    assert (table["low"] < table["population"]).all()
    assert (table["population"] < table["high"]).all()
    assert list(table.columns).index("low") == list(table.columns).index("population") + 1


def test_a_station_without_an_upper_end_leaves_its_part_open():
    balance = compute_balance(measured([0, -1, -2, -3, -4], open_stations=[0]), 2)
    assert np.isnan(balance.interval["bottom"]).all()
    assert balance.interval["top"] == pytest.approx((1, 1), abs=0.03)
    assert balance.verdict == "cannot be told"


@pytest.mark.parametrize(
    ("curve", "spread", "verdict", "said"),
    [
        ([0, -1, -2, -3, -4, -5, -6], 0.01, "balanced", "in balance"),
        ([0, -2, -4, -6, -6.2, -6.4, -6.6], 0.01, "bottom ahead", "train the top longer"),
        ([0, -0.2, -0.4, -0.6, -2.6, -4.6, -6.6], 0.01, "top ahead", "the bottom longer upstream"),
        ([0, -1, -2, -3, -4, -5, -6], 0.35, "cannot be told", "too wide to tell"),
        ([0, 1, 2, 3, 4, 5, 6], 0.01, "cannot be told", "does not lower D"),
    ],
)
def test_the_verdict_each_way(curve, spread, verdict, said):
    balance = compute_balance(measured(curve, spread))
    assert balance.split == 3
    assert balance.verdict == verdict
    assert said in balance.advice
    assert said in str(balance)


def test_the_tolerance_decides_what_is_equal():
    curve = [0, -1.1, -2.2, -3.3, -4.2, -5.1, -6]
    assert compute_balance(measured(curve), tolerance=0.3).verdict == "balanced"
    assert compute_balance(measured(curve), tolerance=0.1).verdict == "bottom ahead"


def test_without_an_interval_nothing_is_certain():
    bare = make_separation(np.exp(-np.arange(5.0)), list("01234"), ["a", "b"], False)
    balance = compute_balance(bare)
    assert balance.verdict == "cannot be told"
    assert "Without an interval" in balance.advice
    assert balance.interval == {}


@pytest.mark.parametrize(
    ("split", "said"),
    [
        (0, "choose 1 to 5 of the 6 layers"),
        (6, "choose 1 to 5 of the 6 layers"),
        ("input", "choose 1 to 5 of the 6 layers"),
        ("layr3", "did you mean layer3"),
    ],
)
def test_a_cut_that_cannot_be(split, said):
    with pytest.raises(ls.LawscopeError, match=said):
        compute_balance(measured(-np.arange(7.0)), split)


def test_other_mistakes():
    with pytest.raises(ls.LawscopeError, match="at least 3"):
        compute_balance(measured([0, -1]))
    with pytest.raises(ls.LawscopeError, match="tolerance=0"):
        compute_balance(measured(-np.arange(7.0)), tolerance=0)
    with pytest.raises(ls.LawscopeError, match="tolerance='a'"):
        compute_balance(measured(-np.arange(7.0)), tolerance="a")
    for split in (1.5, True):
        with pytest.raises(ls.LawscopeError, match=f"split={split} is neither .* choose 1 to 5"):
            compute_balance(measured(-np.arange(7.0)), split)


def test_on_a_network_it_is_the_balance_of_its_separation():
    torch.manual_seed(0)
    y = torch.arange(120) % 4
    x = torch.randn(120, 100) + torch.randn(4, 100)[y]
    net = feedforward(6, classes=4)
    balance = transfer_balance(net, (x, y), "layer2.relu")
    D = ls.separation(net, (x, y)).values
    assert balance.split == 2
    assert balance.bottom == pytest.approx(math.log(D[0] / D[2]) / 2)
    assert balance.top == pytest.approx(math.log(D[2] / D[5]) / 3)
    document = json.loads(json.dumps(balance.to_dict(), allow_nan=False))
    assert TransferBalance.from_dict(document) == balance
    marks, line = balance.plot().get_lines()
    assert marks.get_ydata() == pytest.approx(D)
    assert line.get_ydata()[[0, 2, 5]] == pytest.approx(D[[0, 2, 5]])


def test_a_balance_that_is_not_a_number_can_be_saved():
    balance = compute_balance(measured(np.arange(7.0)))
    document = json.loads(json.dumps(balance.to_dict(), allow_nan=False))
    assert document["balance"] == "NaN"
    assert math.isnan(TransferBalance.from_dict(document).balance)
