"""A scan keeps what it has measured: a control that fails, a network with two heads."""

import json

import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls

CASE = cases.CASES[0]


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 5), nn.Linear(5, 5)
        self.fine, self.coarse = nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, x):
        h = torch.relu(self.b(torch.relu(self.a(x))))
        return self.fine(h), self.coarse(h)


class Uncopied(nn.Sequential):
    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle '_thread.lock' object")


def net(kind=nn.Sequential):
    torch.manual_seed(0)
    return kind(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 4))


def without_control(report, sentence, tmp_path):
    """The measurement is whole, and JSON and page say why there is no control."""
    assert report.control is None
    assert report.settings["control"] == "none"
    assert sentence in report.skipped["control"]
    alone = ls.separation(net(), list(CASE.batches()))
    assert report.separation.values == pytest.approx(alone.values)
    assert sentence in json.dumps(report.to_dict(), allow_nan=False)
    assert sentence in report.save(tmp_path / "r.html").read_text()
    return True


@pytest.mark.parametrize("control", ["auto", cases.sequential()])
def test_data_read_once_leaves_nothing_for_the_control(control, tmp_path):
    report = ls.scan(net(), iter(list(CASE.batches())), control=control)
    assert without_control(report, "read only once", tmp_path)


def test_data_that_ends_after_the_measurement_costs_the_control_only(tmp_path):
    class Twice:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter(list(CASE.batches()) if self.passes < 3 else [])

    with pytest.warns(ls.LawscopeWarning, match="no control: The loader is empty"):
        report = ls.scan(net(), Twice(), control=net())
    assert without_control(report, "The loader is empty", tmp_path)


def test_a_network_that_cannot_be_copied_has_no_control(tmp_path):
    with pytest.warns(ls.LawscopeWarning, match="no control: .*TypeError"):
        report = ls.scan(net(Uncopied), list(CASE.batches()), control="auto")
    assert without_control(report, "raised TypeError: cannot pickle", tmp_path)


def test_a_control_that_does_not_fit_the_data_costs_itself_only(tmp_path):
    other = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 4))
    with pytest.warns(ls.LawscopeWarning, match="no control: .*RuntimeError"):
        report = ls.scan(net(), list(CASE.batches()), control=other)
    assert without_control(report, "raised RuntimeError", tmp_path)


def test_why_a_network_has_no_control_is_said():
    fixed = net()
    fixed.append(nn.Identity())
    fixed[-1].own = nn.Parameter(torch.ones(1))
    report = ls.scan(fixed, list(CASE.batches()), control="auto")
    assert "draw new weights" in report.skipped["control"]


@pytest.mark.parametrize("control", [3, "x", True])
def test_what_is_no_control_is_refused_before_anything_runs(control):
    class Never(nn.Module):
        def forward(self, x):
            raise AssertionError("it ran")

    with pytest.raises(ls.LawscopeError, match=f"control={control!r}"):
        ls.scan(Never(), list(CASE.batches()), control=control)


def test_of_two_heads_one_is_named_or_collapse_is_left_out():
    torch.manual_seed(0)
    model, data = TwoHeads(), list(CASE.batches())
    report = ls.scan(model, data)
    assert report.collapse is None
    assert "2 linear heads ('fine', 'coarse')" in report.skipped["collapse"]
    assert "head='fine' (--head fine)" in report.skipped["collapse"]
    alone = ls.separation(model, data)
    assert report.separation.values == pytest.approx(alone.values)
    named = ls.scan(model, data, head="coarse")
    assert named.collapse.head.name == "coarse"
    assert named.collapse.nc3 == pytest.approx(ls.collapse(model, data, head="coarse").nc3)
    assert not named.skipped


@pytest.mark.parametrize("head", ["corse", 3])
def test_a_head_that_is_not_there_is_a_sentence(head):
    with pytest.raises(ls.LawscopeError, match=f"no module head={head!r}"):
        ls.scan(TwoHeads(), list(CASE.batches()), head=head)
