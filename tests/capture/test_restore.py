"""Networks with habits of their own are left as found too."""

import threading

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
    with pytest.raises((LawscopeError, KeyboardInterrupt), match="no eval"):
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


def clip_late(net, x):
    net.calls += 1
    if net.calls > 1:
        net.inner[0].weight.data.clamp_(-0.1, 0.1)


def write_through_numpy(net, x):
    net.inner[0].weight.detach().numpy()[:] *= 0.9


def give_other_data(net, x):
    net.inner[0].weight.data = 0.9 * net.inner[0].weight.data


def call_an_operator(net, x):
    torch.ops.aten.mul_.Scalar(net.inner[0].weight, 0.9)


def call_own_operator(net, x):
    torch.ops.lawscope_tests.double(x, second=net.inner[0].weight)


@torch.library.custom_op("lawscope_tests::double", mutates_args={"second"})
def double(first: torch.Tensor, second: torch.Tensor) -> None:
    second.mul_(2)


def activate_in_place(net, x):
    nn.functional.relu(net.inner[0].weight, inplace=True)


def begin_again(net, x):
    net.inner[0].reset_parameters()


def count_into_a_parameter(net, x):
    ones = torch.ones(8)
    nn.functional.batch_norm(torch.randn(4, 8), net.inner[0].bias, ones, training=True)


def write_into_storage(net, x):
    net.inner[0].bias.untyped_storage().fill_(0)


def parametrize(net, x):
    if not nn.utils.parametrize.is_parametrized(net.inner[0]):
        nn.utils.parametrizations.weight_norm(net.inner[0])


def learn(net, x):
    with torch.enable_grad():
        net.inner(x).square().mean().backward()
    torch.optim.SGD(net.inner.parameters(), lr=0.1).step()


def forget_gradients(net, x):
    net.zero_grad()


def freeze(net, x):
    net.inner.requires_grad_(False)


def add_hooks(net, x):
    net.inner[0].register_forward_hook(lambda module, args, output: None)
    net.inner.register_full_backward_hook(lambda *_: None)
    net.inner[3].weight.register_hook(lambda grad: grad)


def describe(model):
    """All of a network that a training would miss."""
    parameters = list(model.parameters())
    return {
        "values": [p.tolist() for p in parameters],
        "places": [p.data_ptr() for p in parameters],
        "gradients": [None if p.grad is None else p.grad.tolist() for p in parameters],
        "learning": [p.requires_grad for p in parameters],
        "their hooks": [dict(p._backward_hooks or {}) for p in parameters],
        "hooks": [(dict(m._forward_hooks), dict(m._backward_hooks)) for m in model.modules()],
        "modes": [m.training for m in model.modules()],
        "classes": [type(m) for m in model.modules()],
    }


@pytest.mark.parametrize("measure", [ls.separation, ls.collapse, ls.scan])
@pytest.mark.parametrize(
    "habit",
    [clip_late, write_through_numpy, give_other_data, call_an_operator, call_own_operator,
     activate_in_place, begin_again, count_into_a_parameter, write_into_storage, parametrize, learn,
     forget_gradients, freeze, add_hooks],
)  # fmt: skip
def test_weights_gradients_and_hooks_are_what_they_were(measure, habit):
    torch.manual_seed(0)

    def run(net, x):
        habit(net, x)
        return net.inner(x)

    model = cases.Net(run, inner=cases.sequential()[:6], calls=0)
    model.inner(cases.vectors()).sum().backward()
    model.inner[0].bias.register_hook(lambda grad: grad)
    before = describe(model)
    parts = zip(cases.vectors().split(20), cases.labels().split(20), strict=True)
    measure(model, list(parts))
    assert describe(model) == before


def test_threads_that_measure_one_network_take_turns():
    torch.manual_seed(0)
    model, data = cases.sequential(), (cases.vectors(), cases.labels())
    model.eval()[0].train()
    before, fast = describe(model), torch.backends.mha.get_fastpath_enabled()
    expected = ls.scan(model, data).separation.values
    start, found = threading.Barrier(4), []

    def measure():
        start.wait()
        found.extend(ls.scan(model, data).separation.values for _ in range(3))

    threads = [threading.Thread(target=measure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert all(np.array_equal(values, expected) for values in found)
    assert describe(model) == before
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_an_exported_program_gets_a_sentence():
    x = cases.vectors()
    part = torch.export.export(nn.Linear(6, 6).eval(), (x,)).module()
    with pytest.raises(LawscopeError, match="The model is a program of"):
        ls.separation(part, (x, cases.labels()))
    with pytest.raises(LawscopeError, match="part '0' is a program of"):
        ls.separation(nn.Sequential(part, cases.sequential()), (x, cases.labels()))


def test_a_lazy_network_gets_a_sentence_and_stays_lazy():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LazyLinear(4))
    with pytest.raises(LawscopeError, match=r"2\.weight has no shape yet"):
        ls.separation(model, (cases.vectors(), cases.labels()))
    assert model[2].has_uninitialized_params()


@pytest.mark.parametrize("measure", [ls.separation, ls.collapse, ls.scan])
def test_gradients_that_the_network_or_the_inputs_ask_for_change_nothing(measure):
    def descend(net, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            x = x - 0.1 * torch.autograd.grad(net.inner(x).sum(), x)[0]
            return net.inner(x)

    torch.manual_seed(0)
    inner, y = cases.sequential(), cases.labels()
    for model in (inner, cases.Net(descend, inner=inner)):
        plain = measure(model, (cases.vectors(), y)).table()
        asking = measure(model, (cases.vectors().requires_grad_(), y)).table()
        assert str(asking) == str(plain)


def test_a_network_that_fails_at_a_later_look_gets_a_sentence():
    def fail_later(net, x):
        net.calls.append(len(x))
        if len(net.calls) > 1:
            raise KeyError("the second time")
        return net.inner(x)

    calls = cases.Net(fail_later, inner=cases.sequential())
    calls.calls = Forgetless()
    with pytest.raises(LawscopeError, match="The network raised KeyError: 'the second time'"):
        ls.collapse(calls, (cases.vectors(), cases.labels()))


class Forgetless(list):
    """A list that is not put back, being a class of its own."""
