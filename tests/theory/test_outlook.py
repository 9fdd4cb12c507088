"""The outlook before training against the solver itself."""

import json
import math

import pytest
import torch

import lawscope as ls


def test_every_energy_has_what_the_solver_says():
    labels = torch.tensor([7] * 500 + [2] * 500 + [3] * 5 + [4] * 5)
    found = ls.collapse_outlook(labels)
    assert found.classes.tolist() == [2, 3, 4, 7]
    for outlook in found.outlooks:
        solved = ls.peel([500, 500, 5, 5], 1.0, outlook.feature_energy)
        assert outlook.phase == solved.groups[-1].phase
        assert outlook.threshold == pytest.approx(solved.threshold)
        assert outlook.rate == pytest.approx(max(1.0, 100 / solved.threshold), rel=1e-6)
    assert "more than" in found.advice[1]
    json.dumps(found.to_dict(), allow_nan=False)
    assert len(found.table()) == 4
    assert found.plot() is not None


def test_equal_classes_have_nothing_to_fear():
    found = ls.collapse_outlook([0, 1, 2] * 10)
    assert {o.collapsed for o in found.outlooks} == {0}
    assert "no class collapses" in str(found)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([3, 3], "All 2 labels are 3"),
        ([0.0, math.nan], "float64"),
        ([[0, 1]], "one integer per sample"),
        ([], "one integer per sample"),
    ],
)
def test_bad_labels_are_a_sentence(labels, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.collapse_outlook(labels)
