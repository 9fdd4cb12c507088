"""What a measurement of next tokens is to be doubted for."""

import dataclasses
import threading
import warnings

import pytest
import torch

import lawscope as ls
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.zoo.language import gpt


def warned(monkeypatch, precision, **changed):
    """The warnings where one regression came out so."""
    compute = PredictionMoments.compute
    monkeypatch.setattr(
        PredictionMoments, "compute", lambda self: dataclasses.replace(compute(self), **changed)
    )
    torch.manual_seed(0)
    ids = torch.randint(0, 50, (60, 30))
    model = gpt(50, width=16, depth=4, heads=2, context=30)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ls.LawscopeWarning)
        ls.next_token(model, ids, precision=precision, control=None)
    return " ".join(str(one.message) for one in caught)


@pytest.mark.parametrize(
    ("precision", "lost", "said"),
    [
        ("float64", 1e-9, ""),
        ("float64", 3e-7, "rounding changes PR by about 3e-07 of itself. Begin with other parts"),
        ("fast", 0.01, ""),
        ("fast", 0.1, "other parts of the text, or use precision='float64'"),
    ],
)
def test_digits_that_rounding_took_are_told(monkeypatch, precision, lost, said):
    words = warned(monkeypatch, precision, lost=lost)
    assert ("conditioned worse" in words) == bool(said)
    assert said in words


@pytest.mark.parametrize("precision", ["float64", "fast"])
def test_directions_that_are_left_out_are_told(monkeypatch, precision):
    words = warned(monkeypatch, precision, rank=9)
    assert "dependent features (rank down to 9 of 16)" in words
    assert ("a thousandth of the largest" in words) == (precision == "fast")


@pytest.mark.filterwarnings("ignore:.*per feature.*:lawscope.errors.LawscopeWarning")
def test_a_network_that_cannot_be_copied_goes_without_its_control():
    torch.manual_seed(0)
    model = gpt(50, width=16, depth=4, heads=2, context=30)
    model.held = threading.Lock()
    result = ls.next_token(model, torch.randint(0, 50, (60, 30)), control="auto")
    assert result.control is None
