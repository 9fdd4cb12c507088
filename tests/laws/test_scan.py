"""A scan keeps what it has measured: a control that fails, a network with two heads."""

import json
import subprocess
import sys

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
    assert report.separation.control is None
    assert report.settings["control"] == "none"
    assert sentence in report.skipped["control"]
    alone = ls.separation(net(), list(CASE.batches()))
    assert report.separation.values == pytest.approx(alone.values)
    assert sentence in json.dumps(report.to_dict(), allow_nan=False)
    assert sentence in report.save(tmp_path / "r.html").read_text()
    return True


@pytest.mark.parametrize("control", ["auto", cases.sequential()])
def test_data_read_once_serves_the_control_too(control):
    once = ls.scan(net(), iter(list(CASE.batches())), control=control)
    often = ls.scan(net(), list(CASE.batches()), control=control)
    assert once.separation.control.values == pytest.approx(often.separation.control.values)
    assert once.separation.values == pytest.approx(ls.separation(net(), CASE.batches()).values)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"laws": []}, "names no law; there are separation"),
        ({"laws": 5}, "laws=5 names no law"),
        ({"laws": [["separation"]]}, "There is no law"),
        ({"settings": {"separation": None}}, "give a dict for each law"),
        ({"settings": ["separation"]}, "give a dict for each law"),
        ({"loss": "cross-entropy"}, "cannot be called"),
        ({"distributed": "no"}, "is not True, False or None"),
    ],
)
def test_what_is_not_a_choice_is_said_in_a_sentence(given, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.scan(net(), list(CASE.batches()), **given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"stations": "blocks"},
            r"None .* \(collapse\) has a setting stations=; .* separation too",
        ),
        ({"statoins": "blocks"}, "No law has a setting statoins=; did you mean stations="),
        ({"contrl": "auto"}, "No law has a setting contrl=; did you mean control="),
        ({"checkpoint": "c"}, "checkpoint= is for laws of text, .*; collapse is not one"),
    ],
)
def test_what_the_laws_measured_do_not_have_is_a_sentence(given, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.scan(net(), list(CASE.batches()), laws=["collapse"], **given)


def test_random_generators_are_left_as_found_also_by_a_generator():
    def drawn():
        for _, y in CASE.batches():
            yield torch.randn(len(y), 6), y

    model, before = net(), torch.get_rng_state()
    ls.scan(model, drawn())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_process_is_left_as_found():
    """No allocator settings, environment variables, thread counts or flags of torch change."""
    code = """
import ctypes, os, torch
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
looked_up, look_up = [], ctypes.CDLL.__getitem__
ctypes.CDLL.__getitem__ = lambda self, name: looked_up.append(name) or look_up(self, name)

def state():
    backends = torch.backends
    flags = [backends.cudnn.benchmark, backends.cudnn.deterministic, backends.cudnn.allow_tf32]
    flags += [backends.cuda.matmul.allow_tf32, backends.mkldnn.enabled, torch.is_grad_enabled()]
    flags += [torch.get_float32_matmul_precision(), torch.get_default_dtype()]
    flags += [torch.are_deterministic_algorithms_enabled(), torch.get_num_interop_threads()]
    return dict(os.environ), torch.get_num_threads(), flags

torch.set_num_threads(3)
before = state()
import lawscope as ls
from tests.cases import CASES
from torch import nn
ls.scan(CASES[0].model(), list(CASES[0].batches()), loss=nn.CrossEntropyLoss(), control="auto")
assert state() == before, (before, state())
assert not [name for name in looked_up if name.startswith("mall")], looked_up
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_checkpoint_of_nothing_is_the_reason_why_nothing_is_measured(tmp_path):
    batches = [torch.randint(0, 10, (4, 7))]
    with pytest.raises(ls.LawscopeError, match="No law can be measured here"):
        ls.scan(nn.Sequential(nn.Embedding(10, 4)), batches, checkpoint=tmp_path / "c")


def test_a_control_that_fails_half_way_costs_itself_only(tmp_path):
    class Tired(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = net(), 0

        def forward(self, x):
            self.calls += 1
            if self.calls > 5:
                raise RuntimeError("enough")
            return self.inner(x)

    with pytest.warns(ls.LawscopeWarning, match="no control: .*enough"):
        report = ls.scan(net(), list(CASE.batches(5)), control=Tired())
    assert without_control(report, "raised RuntimeError: enough", tmp_path)


def test_a_network_that_cannot_be_copied_has_no_control(tmp_path):
    report = ls.scan(net(Uncopied), list(CASE.batches()), control="auto")
    assert without_control(report, "pass the untrained network itself", tmp_path)


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
    assert "head='fine'" in report.skipped["collapse"]
    alone = ls.separation(model, data)
    assert report.separation.values == pytest.approx(alone.values)
    named = ls.scan(model, data, head="coarse")
    assert named.collapse.head.name == "coarse"
    assert named.collapse.nc3 == pytest.approx(ls.collapse(model, data, head="coarse").nc3)
    assert "collapse" not in named.skipped


@pytest.mark.parametrize("head", ["corse", 3])
def test_a_head_that_is_not_there_is_a_sentence(head):
    with pytest.raises(ls.LawscopeError, match=f"no module head={head!r}"):
        ls.scan(TwoHeads(), list(CASE.batches()), head=head)


def test_the_laws_are_measured_in_one_capture():
    report = ls.scan(CASE.model(), list(CASE.batches()), control="auto", name="net")
    alone = ls.separation(CASE.model(), list(CASE.batches()))
    assert report.separation.values == pytest.approx(alone.values)
    collapsed = ls.collapse(CASE.model(), list(CASE.batches()))
    assert report.collapse.nc1 == pytest.approx(collapsed.nc1)
    assert report.advice == report.separation.advice + report.collapse.advice
    assert list(report.skipped) == ["next_token", "elasticity", "alignment", "conservation"]
    control = report.separation.control
    assert control.values[0] == pytest.approx(alone.values[0])
    assert control.values[1:] != pytest.approx(alone.values[1:])
    assert report.provenance.versions["torch"] == torch.__version__
    laws = ["separation", "collapse", "symmetry", *report.skipped]
    assert list(report.table()["law"]) == laws


def test_weights_that_cannot_be_drawn_again_have_no_control():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(6, 6))

        def forward(self, x):
            return torch.relu(torch.relu(x @ self.w) @ self.w)

    with pytest.warns(FutureWarning, match="weight_norm"):
        normed = nn.utils.weight_norm(nn.Linear(6, 6))
    for model in (Fixed(), nn.Sequential(normed, nn.ReLU(), nn.Linear(6, 4))):
        report = ls.scan(model, list(CASE.batches()), control="auto")
        assert report.separation.control is None
        assert "control" in report.skipped
