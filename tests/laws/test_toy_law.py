"""A law that nothing in the package names reaches every face of it by being registered."""

import dataclasses
import io
import json
import textwrap
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from tests.cases import CASES
from tests.laws.toy_law import SIZES
from torch import nn

import lawscope as ls
from lawscope.errors import NotApplicableError
from lawscope.laws import registry
from lawscope.laws.separation.law import SEPARATION, SeparationSettings

TOKENS = next(case for case in CASES if case.name == "tokens")


@pytest.fixture
def registered():
    ls.register(SIZES)
    yield
    del registry._LAWS["sizes"]


def scanned(**more):
    return ls.scan(TOKENS.model(), list(TOKENS.batches()), loss=nn.CrossEntropyLoss(), **more)


def test_it_is_in_the_report_and_in_all_renderings(registered, tmp_path):
    report = scanned()
    assert report.sizes.seen == 60 * 5  # rows per token beside pooled rows of separation
    assert report.separation.values.shape == (3,)  # the stream of a residual network
    assert report.to_dict()["results"]["sizes"]["schema"] == "toy.sizes/1"
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(report)
    page = report.save(tmp_path / "report.html").read_text()
    for face in (console.export_text(), page, report._repr_html_()):
        assert "Toy law of sizes" in face
        assert "Toy advice" in face
    assert ls.load(tmp_path / "report.html") == report
    assert ls.load(report.save(tmp_path / "r.lawscope.json")).sizes == report.sizes


def test_its_gradients_are_those_of_autograd(registered):
    report = scanned(laws=["sizes"])
    model = TOKENS.model().eval()
    rows = []
    model.encoder.layers[1].norm2.register_forward_hook(lambda m, a, out: rows.append(out))
    total = 0.0
    for x, y in TOKENS.batches():
        rows.clear()
        (gradient,) = torch.autograd.grad(nn.CrossEntropyLoss()(model(x), y), rows)
        total += float(gradient.flatten(0, 1).norm(dim=1).sum())
    assert report.sizes.sizes[1, -1] == pytest.approx(total, rel=1e-5)


def test_without_a_loss_it_is_skipped_with_its_reason(registered):
    report = ls.scan(TOKENS.model(), list(TOKENS.batches()))
    assert report.sizes is None
    assert "loss=" in report.skipped["sizes"]


def test_it_is_measured_on_data_without_labels(registered):
    batches = [x for x, _ in TOKENS.batches()]
    report = ls.scan(TOKENS.model(), batches, loss=lambda output, labels: output.square().mean())
    assert list(report.results) == ["symmetry", "alignment", "conservation", "sizes"]
    assert "labels" in report.skipped["separation"]


def test_a_law_that_turns_out_to_have_no_meaning_is_skipped(registered):
    class Late(SIZES.observe):
        def result(self, control=None):
            raise NotApplicableError("it has no meaning here")

    ls.register(dataclasses.replace(SIZES, observe=Late))
    report = scanned()
    assert report.skipped["sizes"] == "it has no meaning here"
    assert report.separation is not None


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (nn.CrossEntropyLoss(reduction="none"), "of shape"),
        (lambda output, labels: 3.0, "gives a float"),
        (lambda output, labels: output.detach().sum(), "does not depend on the output"),
    ],
)
def test_a_loss_without_gradients_is_said_in_a_sentence(registered, loss, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.scan(TOKENS.model(), list(TOKENS.batches()), loss=loss, laws=["sizes"])


def test_what_cannot_be_a_law_is_not_registered():
    class Nameless(SIZES.result):
        schema = ""

    wrong = {
        "not a lawscope.Law": "sizes",
        "'gradient', which is not known": dataclasses.replace(SIZES, needs={"gradient"}),
        "have no schema": dataclasses.replace(SIZES, result=Nameless),
    }
    for sentence, law in wrong.items():
        with pytest.raises(ls.LawscopeError, match=sentence):
            ls.register(law)


def test_settings_that_extend_others_check_what_they_inherit():
    @dataclasses.dataclass(frozen=True)
    class More(SeparationSettings):
        beside: bool = ls.option(True, "a setting more.")

    with pytest.raises(ls.LawscopeError, match="weighting='cuont' is not known"):
        More(weighting="cuont")


def test_a_misspelt_setting_is_an_error_with_the_nearest_name(registered):
    with pytest.raises(ls.LawscopeError, match="largest="):
        scanned(settings={"sizes": {"largst": 3}})
    with pytest.raises(ls.LawscopeError, match="stations="):
        scanned(statoins="layers")


def test_an_installed_package_cannot_take_the_name_of_a_law(monkeypatch):
    other = dataclasses.replace(SIZES, name="separation")
    point = SimpleNamespace(
        name="mine", value="mine", dist=SimpleNamespace(name="toy-laws"), load=lambda: other
    )
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    with pytest.warns(ls.LawscopeWarning, match="'mine' of toy-laws .* a law 'separation' already"):
        laws = registry.all_laws()
    assert laws["separation"] is SEPARATION


def test_a_known_law_is_found_without_looking_through_all_packages(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", pytest.fail)
    assert registry.find_law("separation") is SEPARATION


def test_an_installed_package_offers_it_by_an_entry_point_to_every_face(
    tmp_path, monkeypatch, call_lawscope
):
    monkeypatch.setattr(registry, "_LAWS", dict(registry._LAWS))
    monkeypatch.setattr(registry, "_loaded", set())
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "toy_laws-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-laws\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[lawscope.laws]\nsizes = tests.laws.toy_law:SIZES\n")
    (tmp_path / "net.py").write_text(
        textwrap.dedent(
            """
            import torch
            from torch import nn
            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
            y = torch.arange(60) % 3
            data = [(torch.randn(60, 4) + torch.eye(3, 4)[y], y)]
            """
        )
    )
    command = ["scan", str(tmp_path / "net.py"), "--laws", "sizes", "--loss", "cross-entropy"]
    command += ["--set", "sizes.largest=3", "--no-control", "--out", str(tmp_path / "out")]

    def run(*arguments):
        code, out, err = call_lawscope(*arguments)
        assert code == 0, err
        return out

    printed = json.loads(run(*command, "--json"))
    saved = json.loads((tmp_path / "out" / "run.lawscope.json").read_text())
    for document in (printed, saved):
        assert document["results"]["sizes"]["schema"] == "toy.sizes/1"
    page = (tmp_path / "out" / "report.html").read_text()
    notebook = ls.load(tmp_path / "out" / "report.html")._repr_html_()
    for face in (run(*command), page, notebook):
        assert "Toy law of sizes" in face
        assert "Toy advice" in face
    assert SIZES.papers[0] in page
    assert SIZES.papers[0] == ls.citation("sizes")
