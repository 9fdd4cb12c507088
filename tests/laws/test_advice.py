"""Every rule of docs/advice.md, on a network where it must speak and on one where it must not."""

import copy
import re

import numpy as np
import pytest
import torch
from torch import nn

import lawscope as ls
from lawscope.zoo.networks.language import gpt

# Every other corner of a cube: a simplex.
CORNERS = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


class Squeeze(nn.Module):
    """tanh(gain·x)/tanh(gain): classes at the corners of a cube stay there and become tighter."""

    def __init__(self, gain):
        super().__init__()
        self.linear = nn.Linear(3, 3, bias=False)
        self.linear.weight.data = gain * torch.eye(3)
        self.gain = torch.tensor(gain)

    def forward(self, x):
        return torch.tanh(self.linear(x)) / torch.tanh(self.gain)


def cube(counts=(200,) * 4, noise=0.2):
    """Samples around corners of a cube, as many of each as asked for."""
    torch.manual_seed(0)
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return CORNERS[y] + noise * torch.randn(len(y), 3), y


def squeezing(*gains, classes=4, head=None):
    layers = [each if isinstance(each, nn.Module) else Squeeze(each) for each in gains]
    last = nn.Linear(3, classes, bias=False)
    last.weight.data = CORNERS[:classes].clone() if head is None else head
    return nn.Sequential(*layers, last)


def advice_of(model, data=None, **settings):
    result = ls.separation(model, cube() if data is None else data, **settings)
    assert len(result.advice) <= 3
    return result, " ".join(result.advice)


class Same(nn.Module):
    """A layer that changes nothing."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, bias=False)
        self.linear.weight.data = torch.eye(3)

    def forward(self, x):
        return self.linear(x)


def test_a_top_that_keeps_d_is_named_and_a_working_one_is_not():
    result, said = advice_of(squeezing(0.9, 0.9, 0.9, 0.9, Same(), Same()))
    assert result.learned
    assert said.startswith("Try a network that ends after '3")
    assert "the last 2 layers multiply D by between 1.00 and 1.00" in said
    _, said = advice_of(squeezing(0.9, 0.9, 0.9, 0.9, Same()))
    assert "the last layer multiplies D" in said
    _, said = advice_of(squeezing(0.9, 0.9, 0.9, 0.9, 0.9))
    assert said == ""


def test_nothing_is_advised_before_the_network_has_learned():
    wrong = CORNERS[:4].roll(1, dims=0)
    result, said = advice_of(squeezing(0.9, 0.9, 0.9, 0.9, Same(), Same(), head=wrong))
    assert result.accuracy < 0.1
    assert result.learned is False
    assert said == ""
    headline = result.section().headline
    assert re.match(
        r"The network classifies .* answering the largest class would give 25.0 %", headline
    )
    assert "scaled as in training" in headline


def test_a_network_no_better_than_its_control_gets_no_advice():
    model = squeezing(0.9, 0.9, 0.9, 0.9, Same(), Same())
    result, said = advice_of(model, control=model)
    assert (result.learned, said) == (False, "")
    assert "before it was trained" in result.section().headline


def test_a_backbone_is_known_to_have_learned_by_its_control_alone():
    def backbone(*gains):
        return nn.Sequential(*map(Squeeze, gains[:4]), Same(), Same())

    model = backbone(0.9, 0.9, 0.9, 0.9)
    result, said = advice_of(model)
    assert np.isnan(result.accuracy)
    assert (result.learned, said) == (None, "")
    result, said = advice_of(model, control=backbone(0.1, 0.1, 0.1, 0.1))
    assert result.learned
    assert said.startswith("Try a network that ends after")


@pytest.mark.parametrize(
    ("gains", "begins"),
    [
        ((1.6, 1.6, 0.5, 0.5), "Train longer, until the top"),
        ((0.5, 0.5, 1.6, 1.6), "Train the bottom longer or unfreeze it"),
        ((0.9, 0.9, 0.9, 0.9), ""),
        ((0.5, 1.6), ""),  # three stations, of which the law cannot be told
    ],
)
def test_halves_out_of_balance_are_named(gains, begins):
    _, said = advice_of(squeezing(*gains))
    assert said.startswith(begins)
    assert bool(said) == bool(begins)


class Block(nn.Module):
    """Two layers as of ``Squeeze``, whose division is left to the next, so that tanh ends them."""

    def __init__(self, size, *gains):
        super().__init__()
        self.layers = nn.ModuleList()
        for gain in gains:
            linear = nn.Linear(3, 3, bias=False)
            linear.weight.data = gain / size * torch.eye(3)
            self.layers.append(linear)
            size = float(torch.tanh(torch.tensor(gain)))

    def forward(self, x):
        for linear in self.layers:
            x = torch.tanh(linear(x))
        return x


def test_a_straighter_granularity_is_named():
    def network(*gains):
        last = float(torch.tanh(torch.tensor(gains[1])))
        blocks = [Block(last if i else 1.0, *gains) for i in range(4)]
        head = nn.Linear(3, 4)
        head.weight.data, head.bias.data = CORNERS[:4].clone(), torch.zeros(4)
        return nn.Sequential(*blocks, head)

    # The second layer of a block does nearly all of the work.
    _, said = advice_of(network(0.3, 2.0), stations="layers")
    assert "Measure with stations='blocks'" in said
    _, said = advice_of(network(1.4, 1.4), stations="layers")
    assert "Measure with" not in said


class Merge(nn.Module):
    """Brings the means of the last two classes together, and adds a wave along their difference."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, bias=False)
        self.between = torch.tensor([0.0, 1, -1]) / 2**0.5
        self.linear.weight.data = torch.eye(3) - 0.95 * self.between.outer(self.between)

    def forward(self, x):
        return self.linear(x) + 0.2 * torch.sin(40 * x.sum(dim=1))[:, None] * self.between


class Blur(Merge):
    """Adds larger waves to that, along all axes."""

    def forward(self, x):
        merged = super().forward(x)
        return merged + 3 * torch.sin(40 * merged)


def test_merged_rare_classes_are_looked_for_where_d_does_not_fall():
    data = cube((900, 900, 60, 60))
    result, said = advice_of(squeezing(1.0, Merge(), Same()), data)
    assert result.learned
    assert said.startswith("Look at the class-wise D and at ls.collapse")
    _, said = advice_of(squeezing(0.9, 0.9, 0.9), data)
    assert said == ""
    _, said = advice_of(squeezing(1.0, Merge(), Same()), cube((900,) * 4))
    assert "class-wise" not in said
    # A backbone has no accuracy to speak of.
    backbone, untrained = (squeezing(1.0, each, Same(), Same())[:-1] for each in (Merge(), Blur()))
    _, said = advice_of(backbone, data, control=untrained)
    assert "though the network separates classes better than before it was trained" in said


def collapsed(counts, energies=(1.0, 5.0), merged=(), noise=0.02, seed=0):
    """A head and features at the optimum of the Layer-Peeled Model; some classifiers merged."""
    optimum = ls.peel(counts, *energies)
    weights, means = (torch.tensor(each, dtype=torch.float32) for each in (
        optimum.weights(), optimum.features()
    ))  # fmt: skip
    if merged:
        weights[list(merged)] = weights[list(merged)].mean(dim=0)
    torch.manual_seed(seed)
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    x = means[y] + noise * torch.randn(len(y), means.shape[1])
    head = nn.Linear(*weights.T.shape, bias=False)
    head.weight.data = weights
    return nn.Sequential(nn.Identity(), head), (x, y)


def collapse_advice(model, data, **settings):
    result = ls.collapse(model, data, **settings)
    assert len(result.advice) <= 3
    return result, " ".join(result.advice)


def test_oversampling_is_advised_where_the_model_merges_rare_classes():
    counts = [1000] * 3 + [10] * 3
    result, said = collapse_advice(*collapsed(counts))
    assert result.learned
    assert set(result.phases[3:]) == {"collapsed"}
    rate = float(re.match(r"Sample classes 3, 4, 5 over ([\d.]+) times as often", said)[1])
    # At that rate, and not at nine tenths of it, the model keeps them apart.
    for times, phase in ((1.02 * rate, "separated"), (0.9 * rate, "collapsed")):
        again = ls.peel([1000] * 3 + [10 * times] * 3, *result.centred_energies)
        assert again.groups[-1].phase == phase
    _, said = collapse_advice(*collapsed([1000] * 3 + [500] * 3))
    assert said == ""


def test_rare_classes_that_will_merge_are_named_before_they_have():
    counts = [1000] * 3 + [10] * 3
    apart = ls.peel([1] * 6, 1.0, 5.0)
    model, (x, y) = collapsed(counts)
    model[1].weight.data = torch.tensor(apart.weights(), dtype=torch.float32)
    x = torch.tensor(apart.features(), dtype=torch.float32)[y] + 0.02 * torch.randn(len(y), 6)
    _, said = collapse_advice(model, (x, y))
    assert "are about to share one classifier (mean cosine −0.20" in said


def test_oversampling_is_not_advised_for_classes_of_nearly_the_same_size():
    counts = [200, 190, 180, 174]
    model, data = collapsed(counts, energies=(0.01, 0.01), noise=0.001)
    result, said = collapse_advice(model, data)
    assert result.learned
    assert "Sample" not in said


@pytest.mark.parametrize(("energies", "apart"), [((1.0, 5.0), True), ((0.5, 1.0), False)])
def test_label_smoothing_is_advised_where_it_keeps_classes_apart(energies, apart):
    counts = [1000] * 3 + [10] * 3
    _, said = collapse_advice(*collapsed(counts, energies))
    smoothed = ls.peel(counts, *energies, loss="label_smoothed", smoothing=0.1)
    assert all(group.phase == "separated" for group in smoothed.groups) == apart
    assert ("Train with label smoothing of 0.1" in said) == apart


def test_rare_classes_that_merged_before_the_model_says_so_are_named():
    counts = [1000] * 3 + [500] * 3
    result, said = collapse_advice(*collapsed(counts, merged=(3, 4)))
    assert said.startswith("Sample classes 3, 4 more often, up to 2 times for equal shares")
    assert any("classes 3, 4 have merged" in each for each in result.section().findings)


def test_merged_classes_that_sizes_do_not_explain_are_to_be_checked():
    _, said = collapse_advice(*collapsed([300] * 4, merged=(1, 2)))
    assert said.startswith("Check whether labels or inputs tell classes 1, 2 apart")
    _, said = collapse_advice(*collapsed([300] * 4))
    assert said == ""


def test_a_head_behind_its_features_is_to_be_trained_unless_class_means_fit_few_samples():
    model, data = collapsed([300] * 4, noise=0.6)
    model[1].weight.data += 0.8 * torch.eye(4).roll(1, dims=1) @ model[1].weight.data
    result, said = collapse_advice(model, data)
    assert result.nearest_accuracy > result.accuracy + 0.02
    assert result.learned
    assert said.startswith("Train the head longer, or on balanced batches")
    # Few samples of many random features: their own class means are near by themselves.
    torch.manual_seed(0)
    y = torch.arange(120) % 10
    x = torch.randn(120, 200) + 1.2 * torch.eye(10, 200)[y]
    head = nn.Linear(200, 10, bias=False)
    head.weight.data = torch.eye(10, 200)
    result, said = collapse_advice(nn.Sequential(nn.Identity(), head), (x, y))
    assert result.learned
    assert result.nearest_accuracy > result.accuracy + 0.2
    assert "Train the head" not in said


def test_collapse_advises_nothing_before_the_network_has_learned():
    model, data = collapsed([1000] * 3 + [10] * 3)
    model[1].weight.data = model[1].weight.data.roll(1, dims=0)
    result, said = collapse_advice(model, data)
    assert (result.learned, said) == (False, "")
    assert result.section().headline.startswith("The network classifies")


def test_a_report_has_at_most_three_sentences_and_shows_no_others():
    model, data = collapsed([1000] * 3 + [10] * 3)
    report = ls.scan(model, data)
    assert "fewer than two layers" in report.skipped["separation"]
    assert 0 < len(report.advice) <= 3
    shown = [said for section in report.sections().values() for said in section.advice]
    assert sorted(shown) == sorted(report.advice)


@pytest.fixture(scope="module")
def chain():
    """A small language model that has learned a chain of tokens, and text of that chain."""
    torch.manual_seed(0)
    following = torch.randperm(40)
    steps = [torch.randint(0, 40, (400,))]
    for _ in range(15):
        jump = torch.rand(400) < 0.3
        steps.append(torch.where(jump, torch.randint(0, 40, (400,)), following[steps[-1]]))
    text = torch.stack(steps, dim=1)
    model = gpt(vocabulary=40, width=16, depth=5, heads=2, context=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(50):
        optimizer.zero_grad()
        logits = model(text[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()
    return model.eval(), text


def test_last_blocks_that_do_not_lower_pr_are_to_be_compared(chain):
    model, text = chain
    result = ls.next_token(model, list(text.split(100)))
    assert result.learned
    idle = ls.next_token(without_last_block(model), list(text.split(100)))
    assert idle.pr[-1] == pytest.approx(idle.pr[-2], rel=1e-12)
    assert idle.learned
    assert idle.advice[0].startswith("Compare the loss of the model with and without")
    # A model that has not learned gets none, idle or not.
    same = without_last_block(model)
    assert ls.next_token(same, list(text.split(100)), control=same).advice == ()
    assert ls.next_token(same, list(text.split(100)), control=None).advice == ()


def without_last_block(model):
    """A copy whose last block adds nothing to the stream."""
    changed = copy.deepcopy(model)
    for module in changed.blocks[-1].modules():
        if isinstance(module, nn.Linear) and module.out_features == 16:
            nn.init.zeros_(module.weight)
            nn.init.zeros_(module.bias)
    return changed


def test_a_last_block_that_lowers_pr_is_left_alone(chain):
    model, text = chain
    result = ls.next_token(model, list(text.split(100)))
    assert result.pr[-1] < result.pr[-2]
    assert result.advice == ()
