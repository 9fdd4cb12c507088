"""What every registered law, and one that is not ours, must do on every case for it."""

import copy
import dataclasses
import inspect
import io
import json
import warnings

import matplotlib.pyplot as plt
import pytest
import torch
from rich.console import Console
from tests import cases, language_models
from tests.laws.toy_law import SIZES
from torch.nn import functional as F

import lawscope as ls
from lawscope.laws import registry

# Labels index the head: to rename classes is to move its rows, or to give up its answers.
ROWS_ARE_LABELS = {"collapse", "elasticity"}
ANSWERS = {"accuracy"}
BY_CLASS = {
    *("classes", "class_names", "counts", "classwise"),
    *("minority", "class_accuracy", "classifier_cosines", "mean_cosines", "probed"),
}
NOT_NUMBERS = ("settings", "advice", "reason", "provenance")


class TextCase:
    """A tiny language model and token batches, in the form of the other cases."""

    def __init__(self, family):
        self.family = self.name = family

    def model(self):
        return language_models.build(self.family)

    def batches(self, size=6):
        ids = torch.cat(language_models.token_batches(batches=8))
        return list(ids.split(size))

    def __str__(self):
        return self.name


TEXTS = [TextCase(family) for family in ("gpt2", "llama", "mamba")]
LAWS = {**registry.all_laws(), "sizes": SIZES}
PAIRS = [
    pytest.param(law, case, id=f"{law}-{case}")
    for law in LAWS
    for lacks, those in (("labels", TEXTS), ("tokens", cases.CASES))
    for case in those
    if lacks not in LAWS[law].needs
]


@pytest.fixture(autouse=True)
def toy_law():
    ls.register(SIZES)
    yield
    del registry._LAWS["sizes"]


def loss(output, labels):
    """Sums, whose gradients do not depend on how the batches came."""
    return (
        output.square().sum()
        if labels is None
        else F.cross_entropy(output, labels, reduction="sum")
    )


def measure(law, model, data, **how):
    if "loss" in LAWS[law].needs:
        how = {"loss": loss, **how}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.LawscopeWarning)
        return ls.scan(model, data, laws=[law], **how).results[law]


def numbers(result):
    """Everything measured, without how long it took and how the batches came."""
    return {k: v for k, v in result.to_dict().items() if k not in NOT_NUMBERS}


def assert_close(a, b, rel):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_close(a[key], b[key], rel)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_close(x, y, rel)
    elif isinstance(a, float) and isinstance(b, float):
        assert b == pytest.approx(a, rel=rel, abs=rel)
    elif not isinstance(a, str) or a in ("NaN", "Infinity", "-Infinity"):
        assert a == b


@pytest.mark.parametrize(("law", "case"), PAIRS)
def test_batches_do_not_matter_and_the_model_is_left_as_found(law, case):
    model = case.model().double().train()
    whole = measure(law, copy.deepcopy(model), list(_double(case.batches(60))))
    before = copy.deepcopy(model.state_dict())
    split = measure(law, model, list(_double(case.batches(7))))
    assert_close(numbers(whole), numbers(split), 1e-6)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(m.training for m in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(("law", "case"), PAIRS)
def test_the_result_comes_back_and_shows_itself_everywhere(law, case, tmp_path):
    result = measure(law, case.model(), list(case.batches()), control="auto")
    json.dumps(result.to_dict(), allow_nan=False)
    assert ls.load(result.save(tmp_path / "r.lawscope.json")) == result
    assert ls.load(result.save(tmp_path / "r.html")) == result
    assert "\n" not in str(result)
    assert len(repr(result)) < 400
    assert result.provenance.weights
    assert result.provenance.data
    assert result.control.provenance.weights not in ("", result.provenance.weights)
    assert result.control.provenance.data == result.provenance.data
    assert result.verdict in ("holds", "does not hold", "cannot be told")
    assert len(result.table())
    plt.close(result.plot().figure)
    html = result._repr_html_()
    assert "<script" not in html
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(result)
    title = result.section().title
    assert title in html
    assert title in console.export_text()
    assert ls.citation(law) in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("law", [law for law in LAWS if "tokens" not in LAWS[law].needs])
def test_single_precision_gives_the_numbers_of_double(law):
    case, (x, y) = cases.CASES[0], (cases.vectors(), cases.labels())
    single = measure(law, case.model(), [(x, y)])
    double = measure(law, case.model().double(), [(x.double(), y)])
    assert_close(numbers(single), numbers(double), 1e-3)


@pytest.mark.parametrize("law", [law for law in LAWS if "labels" in LAWS[law].needs])
def test_names_of_classes_do_not_matter(law):
    x, y = cases.vectors(), cases.labels()
    model, renamed_y = cases.CASES[0].model(), 100 - 7 * y
    result = measure(law, model, [(x, y)])
    if law in ROWS_ARE_LABELS:
        moved = torch.tensor([2, 0, 3, 1])
        renamed_y = moved[y]
        with torch.no_grad():
            head = model[-1]
            head.weight[moved], head.bias[moved] = head.weight.clone(), head.bias.clone()
    renamed = measure(law, model, [(x, renamed_y)])
    without = BY_CLASS if law in ROWS_ARE_LABELS else BY_CLASS | ANSWERS
    a, b = ({k: v for k, v in numbers(r).items() if k not in without} for r in (result, renamed))
    assert_close(a, b, 1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_a_setting_that_it_does_not_have_is_an_error(law):
    with pytest.raises(ls.LawscopeError, match="no setting nothing="):
        measure(law, cases.CASES[0].model(), [], settings={law: {"nothing": 1}})


@pytest.mark.parametrize("law", [law for law in LAWS if LAWS[law].needs])
def test_what_it_needs_is_said_where_it_is_missing(law):
    with pytest.raises(ls.LawscopeError, match=r"labels|loss=|token ids"):
        measure(law, cases.CASES[0].model(), [cases.vectors()], loss=None)


@pytest.mark.parametrize("law", [law for law in LAWS if law != "sizes"])
def test_help_names_every_setting_in_lines_that_fit(law):
    said = inspect.getdoc(getattr(ls, law)).splitlines()
    assert max(map(len, said)) <= 100
    for field in dataclasses.fields(LAWS[law].settings):
        assert any(line.startswith(f"    {field.name}: ") for line in said)


def _double(batches):
    """Floating inputs in double precision, whatever the form of the batches."""
    for batch in batches:
        if isinstance(batch, tuple):
            yield batch[0].double(), batch[1]
        else:
            yield batch


def test_the_public_list_is_true():
    for name in ls.__all__:
        assert getattr(ls, name) is not None
    assert {"scan", "separation", "collapse", "next_token", "elasticity", "peel"} <= set(ls.__all__)
    assert {"stations", "studies", "load", "__version__"} <= set(ls.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        ls.nothing  # noqa: B018


def test_a_law_brings_its_own_citation():
    assert ls.citation("sizes") == SIZES.papers[0]
    assert ls.citation("collapse").startswith("Vardan Papyan")
    with pytest.raises(ls.LawscopeError, match=r"no law 'nothing' to cite; there are .*sizes"):
        ls.citation("nothing")
    for papers in ((), ("toy2026",)):
        ls.register(dataclasses.replace(SIZES, papers=papers))
        with pytest.raises(ls.LawscopeError, match="'sizes' brings no reference"):
            ls.citation("sizes")
