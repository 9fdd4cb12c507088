"""What every registered law must do; a law joins by being registered."""

import copy
import json

import pytest
import torch
from tests import cases

import lawscope as ls
from lawscope.capture.session import open_session
from lawscope.laws import scan as _scan  # noqa: F401  registers the laws
from lawscope.laws.registry import LAWS

CASE = cases.CASES[0]
ROWS_ARE_LABELS = {"collapse"}  # labels index the head: to rename classes is to move its rows
BY_CLASS = {
    *("classes", "class_names", "counts", "classwise"),
    *("minority", "class_accuracy", "classifier_cosines", "mean_cosines"),
}


def measure(law, model, data, **settings):
    with open_session(model, data) as session:
        observer = LAWS[law](session, **settings)
        session.measure([observer])
    return observer.result()


def numbers(document):
    """Everything measured, without how long it took and how the batches came."""
    document = {k: v for k, v in document.items() if k not in ("settings", "advice", "reason")}
    return json.loads(json.dumps(document))


def assert_close(a, b, rel):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_close(a[key], b[key], rel)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_close(x, y, rel)
    elif isinstance(a, float):
        assert b == pytest.approx(a, rel=rel, abs=rel)
    else:
        assert a == b


def test_there_are_laws():
    assert {"separation", "collapse"} <= set(LAWS)


@pytest.mark.parametrize("law", LAWS)
class TestContract:
    def test_split_in_batches(self, law):
        whole = measure(law, CASE.model(), list(CASE.batches(cases.SAMPLES)))
        split = measure(law, CASE.model(), list(CASE.batches(7)))
        assert_close(numbers(whole.to_dict()), numbers(split.to_dict()), 1e-5)

    def test_dtype(self, law):
        x, y = cases.vectors(), cases.labels()
        single = measure(law, CASE.model(), [(x, y)])
        double = measure(law, CASE.model().double(), [(x.double(), y)])
        assert_close(numbers(single.to_dict()), numbers(double.to_dict()), 1e-3)

    def test_model_untouched_and_hooks_gone(self, law):
        model = CASE.model().train()
        before = copy.deepcopy(model.state_dict())
        measure(law, model, list(CASE.batches()))
        assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
        assert all(m.training for m in model.modules())
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())

    def test_result_is_plain(self, law):
        result = measure(law, CASE.model(), list(CASE.batches()))
        json.dumps(result.to_dict(), allow_nan=False)
        assert result.to_dict()["law"] == law
        assert len(result.table())
        assert result.plot() is not None
        assert result.verdict in ("holds", "does not hold", "cannot be told")
        assert result.advice
        assert all(isinstance(s, str) for s in result.advice)
        assert ls.citation(law)

    def test_relabelled_classes(self, law):
        x, y = cases.vectors(), cases.labels()
        model, renamed_y = CASE.model(), 100 - 7 * y
        result = measure(law, model, [(x, y)])
        if law in ROWS_ARE_LABELS:
            moved = torch.tensor([2, 0, 3, 1])
            renamed_y = moved[y]
            with torch.no_grad():
                head = model[-1]
                head.weight[moved], head.bias[moved] = head.weight.clone(), head.bias.clone()
        renamed = measure(law, model, [(x, renamed_y)])
        a, b = (
            {k: v for k, v in numbers(r.to_dict()).items() if k not in BY_CLASS}
            for r in (result, renamed)
        )
        assert_close(a, b, 1e-9)


def test_scan_is_the_laws_in_one_capture():
    report = ls.scan(CASE.model(), list(CASE.batches()), control="auto", name="net")
    alone = ls.separation(CASE.model(), list(CASE.batches()))
    assert report.separation.values == pytest.approx(alone.values)
    collapsed = ls.collapse(CASE.model(), list(CASE.batches()))
    assert report.collapse.nc1 == pytest.approx(collapsed.nc1)
    assert report.advice == report.separation.advice + report.collapse.advice
    assert not report.skipped
    assert report.control is not None
    assert report.control.values[0] == pytest.approx(alone.values[0])
    assert report.control.values[1:] != pytest.approx(alone.values[1:])
    assert report.versions["torch"] == torch.__version__
    json.dumps(report.to_dict(), allow_nan=False)
    assert len(report.table()) == 3


def test_control_by_module_and_what_is_no_control(tmp_path):
    data = list(CASE.batches())
    report = ls.scan(CASE.model(), data, control=cases.sequential())
    assert report.control is not None
    assert report.save(tmp_path / "r.html").read_text().startswith("<!")
    with pytest.raises(ls.LawscopeError, match="control='x'"):
        ls.scan(CASE.model(), data, control="x")


def test_a_network_that_cannot_draw_new_weights_goes_without_control():
    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(6, 6))

        def forward(self, x):
            return torch.relu(torch.relu(x @ self.w) @ self.w)

    report = ls.scan(Fixed(), list(CASE.batches()), control="auto")
    assert report.control is None


def test_the_public_list_is_true():
    for name in ls.__all__:
        assert getattr(ls, name) is not None
    assert set(ls.__all__) == {*ls._HOMES, "__version__"}
    assert set(dir(ls)) == set(ls.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ls.nothing  # noqa: B018
    with pytest.raises(KeyError, match=r"known: .*separation"):
        ls.citation("nothing")


def test_weights_made_of_other_tensors_have_no_control():
    with pytest.warns(FutureWarning, match="weight_norm"):
        net = torch.nn.Sequential(
            torch.nn.utils.weight_norm(torch.nn.Linear(6, 6)),
            torch.nn.ReLU(),
            torch.nn.Linear(6, 4),
        )
    assert ls.scan(net, list(CASE.batches()), control="auto").control is None
