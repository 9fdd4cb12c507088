"""Every mistake in a call of the Layer-Peeled Model is one sentence."""

import math
from functools import partial

import pytest

import lawscope as ls
from lawscope.theory.layer_peeled.layers import peel_layers
from lawscope.theory.layer_peeled.q_norm import peel_q_norm

peel, sweep, pair = ls.peel, ls.peel_sweep, [5, 1]
smoothed, adjusted = partial(peel, loss="label_smoothed"), partial(peel, loss="logit_adjusted")
weighted = partial(peel, loss="class_weighted")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: peel([5]), "two or more classes"),
        (lambda: peel([5, 0]), "class 1 is 0"),
        (lambda: peel([5, -1]), "class 1 is -1"),
        (lambda: peel([5, math.nan]), "class 1 is nan"),
        (lambda: peel([5, math.inf]), "class 1 is inf"),
        (lambda: peel(["a", "b"]), "must be numbers"),
        (lambda: peel([1e300] * 3 + [1e-300] * 3), "a ratio of 1e100"),
        (lambda: peel(pair, 0.0), "weight_energy is 0"),
        (lambda: peel(pair, 1.0, -2.0), "feature_energy is -2"),
        (lambda: peel(pair, 1e4, 1e4), "lower the energies"),
        (lambda: peel(pair, 1e-6, 1e-6), "raise the energies"),
        (lambda: peel(pair, 1e-300, 1e-300), "raise the energies"),
        (lambda: peel(pair, "one"), "weight_energy is 'one'; it must be a number"),
        (lambda: peel(pair, 1.0, None), "feature_energy is None; it must be a number"),
        (lambda: peel(pair, loss=None), "No loss is named None"),
        (lambda: peel(pair, loss="cross_entropie"), "did you mean cross_entropy"),
        (lambda: peel(pair, oversampling="ten"), "oversampling is 'ten'"),
        (lambda: peel(pair, oversampling=[1, 2, 3]), "3 rates for 2 classes"),
        (lambda: peel(pair, oversampling=-1), "rates must be positive"),
        (lambda: peel(pair, class_weights=[1, 5]), "belongs to loss='class_weighted'"),
        (lambda: peel(pair, smoothing=0.3), "belongs to loss='label_smoothed'"),
        (lambda: smoothed(pair, adjustment=2.0), "belongs to loss='logit_adjusted'"),
        (lambda: smoothed(pair, smoothing="much"), "smoothing is 'much'; it must be a number"),
        (lambda: smoothed(pair, smoothing=1.0), "between 0 and 1"),
        (lambda: adjusted(pair, adjustment=math.inf), "adjustment is inf"),
        (lambda: weighted(pair, class_weights=3), "one number per class"),
        (lambda: weighted(pair, class_weights=[1, "a"]), "class_weights is 'a'"),
        (lambda: weighted(pair, class_weights=[1, 0]), "2 positive numbers"),
        (lambda: peel([1, 1, 1]).weights(1), "use p ≥ 2"),
        (lambda: sweep([]), "ratios must be numbers of at least 1"),
        (lambda: sweep([0.5]), "ratios must be numbers of at least 1"),
        (lambda: sweep(["ten"]), "ratios must be numbers of at least 1"),
        (lambda: sweep([[1, 2], [3, 4]]), "ratios must be numbers of at least 1 in a row"),
        (lambda: sweep([10], 10.5), "classes=10.5 is not a whole number"),
        (lambda: sweep([10], "ten"), "classes='ten' is not a whole number"),
        (lambda: sweep([10], 10, 10), "majority=10 of 10 classes leaves no minority"),
        (lambda: sweep([10], 1, 1), "give at least 2"),
        (lambda: sweep([10], 10, 5, 0.0), "weight_energy is 0"),
        (lambda: peel_q_norm(pair, q=1), "q is 1; it must be above 1"),
        (lambda: peel_q_norm(pair, q=math.nan), "q is nan"),
        (lambda: peel_q_norm(pair, q=1e6), "q is 1e.06; .* at most 100"),
        (lambda: peel_q_norm(pair, q="two"), "q is 'two'; it must be a number"),
        (lambda: peel_q_norm(pair, feature_energy=0), "feature_energy is 0"),
        (lambda: peel_q_norm([1] * 5, dimension=3), "give at least 4"),
        (lambda: peel_q_norm(pair, starts=0), "starts=0 searches nothing"),
        (lambda: peel_q_norm(pair, starts=2.5), "starts=2.5 is not a whole number"),
        (lambda: peel_q_norm(pair, 1.1, 1.0, 1e6), "lower the energies"),
        (lambda: peel_layers(pair, 5), r"energies has 1 value\(s\)"),
        (lambda: peel_layers(pair, (1, "five")), r"energies\[1\] is 'five'"),
        (lambda: peel_layers([1, math.nan]), "class 1 is nan"),
        (lambda: peel_layers(pair, (1,)), "one per layer and one for the features"),
        (lambda: peel_layers(pair, (1, -1, 5)), r"energies\[1\] is -1"),
        (lambda: peel_layers(pair, (1e3, 1e3, 1e3)), "lower the energies"),
        (lambda: peel_layers(pair, activation="tanh"), "choose None or 'relu'"),
        (lambda: peel_layers([1] * 4, activation="relu", dimension=3), "at least 4 of them"),
    ],
)
def test_mistakes_are_sentences(call, said):
    with pytest.raises(ls.LawscopeError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
