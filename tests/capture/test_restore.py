"""Networks with habits of their own are left as found too."""

import numpy as np
import pytest
import torch
from tests import cases, oracles
from torch import nn

import lawscope as ls
from lawscope.capture.restore import eager, restoring
from lawscope.errors import LawscopeError


class Merging(nn.Linear):
    """Adds its adapter to the weights in eval mode, as loralib does."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.adapter = nn.Parameter(0.1 * torch.randn(outputs, inputs))
        self.merged = False

    def train(self, mode=True):
        super().train(mode)
        if mode == self.merged:
            self.weight.data += -self.adapter if mode else self.adapter
            self.merged = not mode
        return self

    def forward(self, x):
        weight = self.weight if self.merged else self.weight + self.adapter
        return nn.functional.linear(x, weight, self.bias)


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("part", [True, False])
def test_weights_merged_for_measuring_are_taken_apart_again(mode, training, part):
    torch.manual_seed(0)
    model = nn.Sequential(Merging(6, 8), nn.ReLU(), Merging(8, 8), nn.ReLU(), nn.Linear(8, 4))
    model.train(training)
    model[2].train(part)
    before = [(m.training, getattr(m, "merged", None)) for m in model.modules()]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    ls.separation(model, (cases.vectors(), cases.labels()), mode=mode, uncertainty=None)
    assert [(m.training, getattr(m, "merged", None)) for m in model.modules()] == before
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_network_that_fails_on_its_way_to_eval_mode_is_in_train_mode_again(failure):
    class Refusing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = cases.sequential()

        def train(self, mode=True):
            super().train(mode)
            if not mode:
                raise failure("no eval")
            return self

        def forward(self, x):
            return self.inner(x)

    model = Refusing()
    with pytest.raises(failure, match="no eval"):
        ls.separation(model, (cases.vectors(), cases.labels()))
    assert all(module.training for module in model.modules())


class Sparse(nn.Module):
    """A sparse buffer that every call overwrites, before a dense one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mixing", torch.eye(6).to_sparse())
        self.inner = cases.sequential()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        mixed = (self.mixing @ x.T).T
        self.mixing.mul_(2)
        return self.inner(mixed)


def test_a_sparse_buffer_is_put_back():
    model, (x, y) = Sparse(), (cases.vectors(), cases.labels())
    expected = ls.separation(model.inner, (x, y), uncertainty=None)
    mixing = model.mixing
    result = ls.separation(model, (x, y), uncertainty=None)
    assert result.values[0] == pytest.approx(expected.values[0], rel=1e-9)
    assert model.mixing is mixing
    assert torch.equal(mixing.to_dense(), torch.eye(6))
    assert model.calls == 0
    assert model.training


def test_what_cannot_be_put_back_costs_nothing_else():
    model = nn.Sequential(nn.BatchNorm1d(6), nn.BatchNorm1d(6))

    def spoil():
        with restoring(model, "train"):
            model(cases.vectors())
            model[1].running_mean.resize_(3)

    with pytest.raises(RuntimeError, match="size of tensor"):
        spoil()
    assert torch.equal(model[0].running_mean, torch.zeros(6))
    assert torch.equal(model[1].running_var, torch.ones(6))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_scripted_network_or_part_gets_a_sentence():
    with pytest.raises(LawscopeError, match="The model is a TorchScript module"):
        ls.separation(torch.jit.script(cases.sequential()), (cases.vectors(), cases.labels()))
    scripted = torch.jit.script(nn.Linear(6, 5))
    model = nn.Sequential(scripted, nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 4))
    with pytest.raises(LawscopeError, match="model's part '0' is a TorchScript module"):
        ls.separation(model, (cases.vectors(), cases.labels()))
    assert model.training


@pytest.fixture
def labels():
    return torch.arange(60) % 4


def test_a_compiled_submodule_is_measured(labels):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
    parts = {"body": torch.compile(body, backend="eager"), "head": nn.Linear(8, 4)}
    net = cases.Net(lambda net, x: net.head(net.body(x)), **parts)
    x = torch.randn(60, 6) + torch.randn(4, 6)[labels]
    result = ls.separation(net, (x, labels), uncertainty=None)
    assert result.stations == ("input", "body._orig_mod.1", "body._orig_mod.3")
    with torch.no_grad():
        expected = oracles.fuzziness(net.body._orig_mod(x), labels)
    assert result.values[-1] == pytest.approx(expected, rel=1e-4)


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, x, attention_mask):
        return self.head(self.encoder(x, src_key_padding_mask=attention_mask == 0).mean(1))


@pytest.mark.parametrize("stations", ["blocks", "encoder.layers.?"])
def test_padded_sequences_are_measured_without_nested_tensors(labels, stations):
    torch.manual_seed(0)
    net, mask = Padded().eval(), torch.ones(60, 5, dtype=torch.long)
    mask[::3, 3:] = 0
    x = torch.randn(60, 5, 8) + torch.randn(4, 1, 8)[labels]
    outputs = []
    with torch.no_grad(), eager():
        h = x
        for layer in net.encoder.layers:
            h = layer(h, src_key_padding_mask=mask == 0)
            outputs.append((h * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))
    batch = {"x": x, "attention_mask": mask, "labels": labels}
    result = ls.separation(net, [batch], stations=stations, uncertainty=None)
    expected = [oracles.fuzziness(rows, labels) for rows in outputs]
    np.testing.assert_allclose(result.values[-3:], expected, rtol=1e-4)


@pytest.mark.parametrize("fast", [True, False])
def test_settings_are_put_back_after_an_error(fast):
    def interrupted():
        with eager():
            assert not torch.backends.mha.get_fastpath_enabled()
            raise KeyboardInterrupt

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert torch.backends.mha.get_fastpath_enabled() == fast
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class Words(nn.Module):
    """An embedding that rescales the rows it reads, before a network that clips its weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.inner = nn.Embedding(44, 6, max_norm=1.0), cases.sequential()

    def forward(self, input_ids):
        self.inner[0].weight.data.clamp_(-0.1, 0.1)
        self.inner[3].bias.data[1:] *= 2
        self.inner.extra = nn.Linear(2, 2)
        return self.inner[:6](self.words(input_ids).mean(1))


@pytest.mark.parametrize("measure", [ls.separation, ls.collapse, ls.scan])
def test_parameters_that_the_network_writes_into_are_put_back(measure):
    model = Words()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ids = cases.tokens()["input_ids"]
    parts = zip(ids.split(20), cases.labels().split(20), strict=True)
    measure(model, [{"input_ids": i, "labels": y} for i, y in parts])
    assert list(model.state_dict()) == list(before)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_buffer_of_nan_that_shares_its_memory_is_no_trouble():
    model = cases.sequential()
    model.register_buffer("limits", torch.full((1,), torch.nan).expand(4))
    ls.separation(model, (cases.vectors(), cases.labels()), uncertainty=None)
    assert model.limits.isnan().all()


def test_tensors_and_containers_that_are_plain_attributes():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.count, self.seen = nn.Linear(6, 4), torch.zeros(1), torch.zeros(1)
            self.log, self.cache = [], {}

        def forward(self, x):
            self.count += 1
            self.seen = self.seen + len(x)
            self.log.append(len(x))
            self.cache[len(x)] = x
            self.latest, self.layer.weight_sum = x, self.layer.weight.sum()
            self.layer.register_parameter("fresh", nn.Parameter(torch.zeros(1)))
            return self.layer(x)

    model = Counting()
    found, names = model.seen, [set(vars(m)) for m in model.modules()]
    ls.collapse(model, (torch.randn(40, 6), torch.arange(40) % 4))
    assert [set(vars(m)) for m in model.modules()] == names
    assert "fresh" not in dict(model.layer.named_parameters())
    assert model.count == 0
    assert model.seen is found
    assert (model.log, model.cache) == ([], {})
