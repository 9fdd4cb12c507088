"""Networks with habits of their own are left as found too."""

import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls
from lawscope.capture.untouched import untouched
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
        with untouched(model, "train"):
            model(cases.vectors())
            model[1].running_mean.resize_(3)

    with pytest.raises(RuntimeError, match="size of tensor"):
        spoil()
    assert torch.equal(model[0].running_mean, torch.zeros(6))
    assert torch.equal(model[1].running_var, torch.ones(6))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_scripted_part_is_named():
    scripted = torch.jit.script(nn.Linear(6, 5))
    model = nn.Sequential(scripted, nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 4))
    with pytest.raises(LawscopeError, match="model's part '0' is a TorchScript module"):
        ls.separation(model, (cases.vectors(), cases.labels()))
    assert model.training
