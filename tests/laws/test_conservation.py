"""Conservation as a law: charges, distance from noise equilibrium, verdict, advice, cost."""

import copy
import io
import math

import numpy as np
import pytest
import torch
from rich.console import Console
from tests import language_models
from tests.laws import networks_with_symmetry as nets
from torch import nn

import lawscope as ls
from lawscope.laws.conservation import observer
from lawscope.laws.conservation.distance import distance_of
from lawscope.laws.conservation.noise import Equilibrium
from lawscope.laws.conservation.section import say_left_out
from lawscope.laws.conservation.verdict import LEAST_SHARE, MARGIN, WORTH, judge

LOSS = nn.functional.cross_entropy
GENERATOR = torch.Generator().manual_seed(4)
X = torch.randn(1200, 6, generator=GENERATOR)
Y = torch.arange(1200) % 3


def square(output, labels):
    return output.square().mean()


def entropy(output, labels):
    """A loss without labels that does not see the same added to all logits."""
    return -(output.softmax(-1) * output.log_softmax(-1)).sum(-1).mean()


def network():
    torch.manual_seed(0)
    layers = nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3)
    return nn.Sequential(*layers)


def rescaled(factor):
    """Return the same function with other scales of the first layer's units."""
    model = network()
    with torch.no_grad():
        for parameter in model[0].parameters():
            parameter *= factor
        model[2].weight /= factor
    return model


def test_charges_and_distance_are_those_of_their_functions():
    model = network()
    found = ls.conservation(model, (X, Y), LOSS, samples=1200)
    charges = ls.charges(model, X).charges
    assert [(c.kind, c.where) for c in found.charges] == [(c.kind, c.where) for c in charges]
    for ours, theirs in zip(found.charges, charges, strict=True):
        assert ours.numbers == theirs.numbers == theirs.values.size
        assert ours.rms == pytest.approx(np.sqrt(np.mean(theirs.values**2)))
        assert ours.largest == pytest.approx(np.abs(theirs.values).max())
    noise = ls.noise_equilibrium(model, (X, Y), LOSS)
    assert found.samples == noise.samples == 1200
    scale = np.concatenate([place.scale for place in noise.places])
    assert found.distance.value == pytest.approx(np.sqrt(np.nanmean(scale**2)), rel=1e-6)
    by_place = {one.where: one.distance for one in found.charges if one.kind == "rescaling"}
    for place in noise.places:
        expected = np.sqrt(np.nanmean(place.scale**2))
        assert by_place[place.where].value == pytest.approx(expected, rel=1e-6)
        low, high = by_place[place.where].interval
        half = (place.interval[:, 1] - place.interval[:, 0]) / 2
        assert high - expected == pytest.approx(np.sqrt(np.nanmean(half**2)), rel=1e-6)
        assert low == pytest.approx(max(0, 2 * expected - high), rel=1e-6)
    assert found.distance.dead == int(np.isnan(scale).sum())


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("size", [0.0, 0.05, 1.0])
def test_the_interval_of_the_distance_holds_however_units_correlate(size, correlation):
    rng = np.random.default_rng(0)
    units, error, inside = 20, 0.1, 0
    truth = size * rng.standard_normal(units)
    distance = np.sqrt(np.mean(truth**2))
    for _ in range(1000):
        shared, own = rng.standard_normal(1), rng.standard_normal(units)
        noise = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
        scale = truth + error * noise
        ends = np.stack([scale - 1.96 * error, scale + 1.96 * error], axis=1)
        low, high = distance_of([Equilibrium("a → b", scale, ends)]).interval
        inside += low <= distance <= high
    assert inside >= 935


def test_units_without_an_interval_are_left_out_of_the_distance():
    scale, nan = np.array([0.3, 5.0, np.nan]), np.nan
    ends = np.array([[0.2, 0.4], [nan, nan], [nan, nan]])
    found = distance_of([Equilibrium("a → b", scale, ends)])
    assert found.value == pytest.approx(0.3)
    assert found.interval == pytest.approx((0.2, 0.4))
    assert (found.units, found.living, found.measured, found.dead) == (3, 2, 1, 1)
    assert judge(found, 1000, "")[0] == "does not hold"  # half of the active units
    assert LEAST_SHARE == 0.5
    more = Equilibrium("b → c", np.array([5.0]), np.array([[nan, nan]]))
    few = distance_of([Equilibrium("a → b", scale, ends), more])
    verdict, reason = judge(few, 1000, "")
    assert verdict == "cannot be told"
    assert "1 of 3 active units" in reason
    assert say_left_out(few).startswith("2 of 3 active units are left out of the distance: too few")
    none = distance_of([Equilibrium("b → c", np.array([5.0, 1.0]), np.full((2, 2), nan))])
    assert say_left_out(none).startswith("All 2 active units are left out")


def test_verdict_and_advice_follow_the_scale_of_units():
    away = ls.conservation(rescaled(6.0), (X, Y), LOSS)
    assert away.verdict == "does not hold"
    assert away.distance.interval[0] > WORTH
    assert away.advice[0].startswith("Balance the scales of units before training on")
    assert f"a factor of {math.exp(away.distance.value):.2f}"[:-1] in away.advice[0]
    model = rescaled(6.0)
    ls.teleport(model, (X, Y), "noise-equilibrium", loss=LOSS)
    there = ls.conservation(model, (X, Y), LOSS, samples=1200)
    assert there.verdict == "holds"
    assert there.distance.value < 1e-3
    assert there.distance.interval[1] < MARGIN
    assert not there.advice
    model = rescaled(6.0)
    ls.teleport(model, (X, Y), "balanced")  # what the advice says
    assert not ls.conservation(model, (X, Y), LOSS).advice
    plain = ls.conservation(network(), (X, Y), LOSS)
    assert plain.verdict == "does not hold"
    assert not plain.advice


def test_a_terminal_without_unicode_spells_the_symbols():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=file, width=100).print(ls.conservation(network(), (X, Y), LOSS))
    file.seek(0)
    assert "root mean square of lambda*" in " ".join(file.read().split())


def test_few_samples_give_no_interval_and_no_verdict():
    found = ls.conservation(rescaled(6.0), (X[:500], Y[:500]), LOSS)
    assert found.verdict == "cannot be told"
    assert "1000 different samples, and there are 500" in found.reason
    assert math.isnan(found.distance.value)
    assert not found.advice
    assert len(found.charges) == 4


def test_which_samples_are_taken_does_not_depend_on_their_order():
    order = Y.argsort()
    found = ls.conservation(network(), (X, Y), LOSS)
    again = ls.conservation(network(), (X[order], Y[order]), LOSS)
    assert found.samples == again.samples == 1000
    assert found.distance.value == pytest.approx(again.distance.value, rel=1e-9)


@pytest.mark.parametrize("loss", [square, entropy])
def test_a_scan_of_unlabelled_data_with_a_loss_has_it(loss, tmp_path):
    report = ls.scan(network(), list(X.split(100)), loss=loss, control="auto")
    found = report.conservation
    assert "labels" in report.skipped["elasticity"]
    assert found.samples == 1000
    assert found.control is not None
    kinds = {one.kind for one in found.charges}
    # The sum of the logits is conserved where the loss does not see it.
    assert ("translation" in kinds) is (loss is entropy)
    refused = [one for one in found.missing if "the loss changes" in one.why]
    assert bool(refused) is (loss is square)
    assert ls.load(report.save(tmp_path / "r.html")).conservation == found
    assert "Conservation laws and noise equilibrium" in report._repr_html_()
    assert "conservation" not in ls.scan(network(), list(X.split(100))).results


def test_without_a_continuous_symmetry_it_is_skipped_and_says_what_was_looked_for():
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
    report = ls.scan(model, [X], loss=square)
    reason = report.skipped["conservation"]
    assert "looked for were rescaling, double rotation, scale invariance and translation" in reason
    assert "tanh is not homogeneous" in reason
    # A translation that only cross-entropy has is none of this loss.
    model[2] = nn.Linear(4, 3)
    with pytest.raises(ls.LawscopeError, match="the loss changes where the same is added"):
        ls.conservation(model, [X], square)
    assert [one.kind for one in ls.conservation(model, [X], entropy).charges] == ["translation"] * 2


def test_without_a_rescaling_there_are_charges_alone():
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    found = ls.conservation(model, (X, Y), LOSS)
    assert found.distance is None
    assert found.samples == 0
    assert found.verdict == "cannot be told"
    assert "no rescaling that is trained" in found.reason
    assert len(found.table()) == 2


def test_a_frozen_part_is_said_and_a_frozen_network_skipped():
    model = network()
    model[4].requires_grad_(False)
    found = ls.conservation(model, (X, Y), LOSS)
    by_place = {(one.kind, one.where): one for one in found.charges}
    assert by_place["rescaling", "0 → 2"].distance.measured
    assert not by_place["rescaling", "2 → 4"].conserved
    assert by_place["rescaling", "2 → 4"].distance is None
    assert found.distance.units == 8
    assert found.numbers == 8
    assert "frozen: '2 → 4'" in " ".join(found.section().findings)
    model.requires_grad_(False)
    with pytest.raises(ls.LawscopeError, match="touches a frozen parameter"):
        ls.conservation(model, (X, Y), LOSS)


def test_batch_norm_in_training_and_dropout():
    images = torch.randn(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nets.resnet()[:-1], nn.Dropout(), nn.Linear(6, 3))
    data = images, torch.arange(40) % 3
    kinds = {
        mode: {one.kind for one in ls.conservation(model, data, LOSS, mode=mode).charges}
        for mode in ("eval", "train")
    }
    assert "scale invariance" in kinds["train"] - kinds["eval"]
    assert {"rescaling", "translation"} <= kinds["eval"] & kinds["train"]


def test_a_symmetric_charge_is_as_many_numbers_as_one_side_of_its_diagonal():
    model = nn.Sequential(nn.Linear(6, 4, bias=False), nn.Linear(4, 3, bias=False))
    found = ls.conservation(model, (X, Y), LOSS)
    rotation, head = found.charges
    assert (rotation.kind, rotation.numbers) == ("double rotation", 10)
    assert found.numbers == 10 + head.numbers == 14
    assert ls.charges(model, X).table()["numbers"].tolist() == [10, 4]


def test_layers_that_share_weights_are_one():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.c(torch.relu(self.b(torch.relu(self.a(x)))))

    torch.manual_seed(0)
    model = Tied()
    found = ls.conservation(model, (X, Y), LOSS)
    expected = ls.charges(model, X)
    assert [one.where for one in found.charges] == [one.where for one in expected.charges]


def test_a_large_network_is_measured_where_samples_are_asked_for(monkeypatch):
    def refuse(*args, **how):
        raise AssertionError("gradients were taken")

    monkeypatch.setattr(observer, "MOST_WORK", 10**5)
    with monkeypatch.context() as patch:
        patch.setattr(observer, "noise_equilibrium", refuse)
        found = ls.conservation(network(), (X, Y), LOSS)
    assert found.distance is None
    assert "pass samples=1000" in found.reason
    assert len(found.charges) == 4
    assert ls.conservation(network(), (X, Y), LOSS, samples=1000).distance.measured


def test_multiplications_are_counted():
    model = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(384, 9))
    batch = observer.Batch((torch.randn(3, 1, 8, 8),), {}, None)
    assert observer.count_multiplications(model, batch) == 6 * 25 * 64 + 384 * 9


def test_memory_bounds_the_samples_that_are_kept():
    found = ls.conservation(network(), (X, Y), LOSS, memory="2.4KB")
    assert found.samples == 100


def test_samples_of_different_lengths_are_measured():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)).mean(1))

    long = [(torch.randn(10, length, 6), torch.arange(10) % 3) for length in (3, 5, 4, 3)]
    assert ls.conservation(Mean(), long, LOSS).samples == 40


def test_the_network_is_left_as_found_also_where_the_loss_cannot_be_computed_of_one_sample():
    model = network().train()
    before = copy.deepcopy(model.state_dict())

    def of_many(output, labels):
        if len(output) == 1:
            raise ValueError("one sample has no spread")
        return LOSS(output, labels)

    found = ls.conservation(model, (X, Y), of_many)
    assert found.verdict == "cannot be told"
    assert "was not measured" in found.reason
    assert "one sample has no spread" in found.reason
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert model.training


def test_gradients_of_nan_are_no_dead_units():
    def broken(output, labels):
        first = output[:, 0]
        return torch.where(first > 0.5, (first * 0).sqrt() * first, first).mean()

    model = network()
    found = ls.conservation(model, [X], broken)
    assert found.distance is None
    assert "gradient of NaN" in found.reason
    with pytest.raises(ls.LawscopeError, match="gradient of NaN"):
        ls.noise_equilibrium(model, [X], broken)
    with pytest.raises(ls.LawscopeError, match="gradient is NaN"):
        ls.teleport(model, [X], "noise-equilibrium", loss=broken)


def test_a_network_that_cannot_compute_gradients_of_single_samples_keeps_its_charges():
    class Fussy(nn.Sequential):
        def forward(self, x):
            if torch.is_grad_enabled():
                raise ValueError("only for evaluation")
            return super().forward(x)

    found = ls.conservation(Fussy(*network()), (X, Y), LOSS)
    assert len(found.charges) == 4
    assert "The network raised ValueError: only for evaluation" in found.reason


@pytest.mark.filterwarnings("ignore::lawscope.LawscopeWarning")
def test_beside_laws_of_text_it_is_left_out():
    model = language_models.build("gpt2")
    text = [{"input_ids": ids} for ids in language_models.token_batches(batches=2)]
    report = ls.scan(model, text, loss=LOSS, settings={"alignment": {"null": 2}})
    assert "measure it alone" in report.skipped["conservation"]


def test_a_parameter_that_nothing_reads_is_no_obstacle():
    model = network()
    expected = ls.conservation(model, (X, Y), LOSS).distance
    model[1].unused = nn.Parameter(torch.ones(3))
    assert ls.conservation(model, (X, Y), LOSS).distance == expected


def test_what_the_loss_gets_is_said_where_it_cannot_be_computed():
    text = r"takes 1 positional argument.* two arguments: the output, of shape \(\d+, 3\), and the"
    with pytest.raises(ls.LawscopeError, match=text):
        ls.conservation(network(), (X, Y), lambda output: output.square().mean())
    with pytest.raises(ls.LawscopeError, match="the second argument of the loss is None; pass"):
        ls.conservation(network(), [X], LOSS)


@pytest.mark.parametrize("samples", [2, 1000])
def test_gradients_that_are_not_finite_are_no_dead_units(samples):
    def wrong(output, labels):
        return LOSS(output, labels) * math.nan

    found = ls.conservation(network(), (X, Y), wrong, samples=samples)
    assert found.verdict == "cannot be told"
    assert found.distance is None
    assert "has a gradient of NaN or infinity" in found.reason
    assert len(found.charges) == 4


def test_one_sample_has_no_distance_and_no_warning():
    found = ls.conservation(network(), (X[:1], Y[:1]), LOSS)
    assert found.distance.measured == 0
    assert str(found).endswith("distance from noise equilibrium not measured")
