"""The network is measured as it is and returned as it was."""

import copy
import random

import numpy as np
import pytest
import torch
from tests import cases, oracles
from tests.observers import read
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lawscope as ls
from lawscope.capture.taps import Tap
from lawscope.errors import LawscopeError


def activations(case, model, names, pooling="auto"):
    """Rows of the named stations in one plain forward pass."""
    batches = list(case.batches())
    chosen = [s for s in ls.stations(model, batches) if s.name in names]
    taps = [Tap(station, pooling=pooling) for station in chosen]
    keep = read(model, batches, *taps)
    return {tap.station.name: keep.all(tap) for tap in taps}


@pytest.mark.parametrize("case", cases.CASES, ids=str)
@pytest.mark.parametrize("selector", ["layers", "blocks"])
def test_separation_equals_the_definition_on_every_case(case, selector):
    if selector == "blocks" and not case.blocks:
        with pytest.raises(LawscopeError, match="no repeated composite modules"):
            ls.separation(case.model(), list(case.batches()), stations="blocks")
        return
    model = case.model()
    names = case.layers if selector == "layers" else case.blocks
    result = ls.separation(model, list(case.batches()), stations=selector)
    assert result.stations == names
    # The same stations are hooked: torch's fused attention gives way to hooks and rounds otherwise
    features = activations(case, model, {*case.layers, *case.blocks})
    for name, value in zip(names, result.values, strict=True):
        assert value == pytest.approx(oracles.fuzziness(features[name], cases.labels()), rel=1e-8)


def test_what_is_read_is_what_the_network_computes():
    """Independent of our capture: recompute the functional network by hand."""
    case = next(c for c in cases.CASES if c.name == "functional")
    model = case.model().eval()
    x = cases.vectors()
    with torch.no_grad():
        h1 = torch.relu(model.fc1(x))
        h2 = torch.relu(model.fc2(h1))
        h3 = torch.relu(model.fc3(h2))
        h4 = torch.nn.functional.gelu(model.fc4(h3))
    result = ls.separation(model, list(case.batches()))
    expected = [oracles.fuzziness(h, cases.labels()) for h in (x, h1, h2, h3, h4)]
    assert result.values == pytest.approx(expected, rel=1e-6)


def test_in_place_activations_do_not_spoil_an_earlier_station():
    model = cases.sequential().eval()
    x, y = cases.vectors(), cases.labels()
    with torch.no_grad():
        before = model[1](model[0](x))
    result = ls.separation(model, (x, y), stations=["input", "1", "2", "4"])
    assert result.values[1] == pytest.approx(oracles.fuzziness(before, y), rel=1e-6)


def test_masked_mean_first_and_last_pooling():
    case = next(c for c in cases.CASES if c.name == "bert")
    model = case.model().eval()
    batch = cases.tokens()
    with torch.no_grad():
        hidden = model.bert(**batch, output_hidden_states=True).hidden_states[-1]
    mask = batch["attention_mask"][..., None]
    last = batch["attention_mask"].sum(1) - 1
    by_hand = {
        "mean": (hidden * mask).sum(1) / mask.sum(1),
        "first": hidden[:, 0],
        "last": hidden[torch.arange(len(hidden)), last],
    }
    by_hand["custom"] = hidden.amax(1)
    for pooling, features in by_hand.items():
        chosen = (lambda h: h.amax(1)) if pooling == "custom" else pooling
        result = ls.separation(
            model,
            [{**batch, "labels": cases.labels()}],
            stations="bert.encoder.layer.?",
            pooling=chosen,
        )
        assert result.values[-1] == pytest.approx(
            oracles.fuzziness(features, cases.labels()), rel=1e-5
        )
        assert result.settings["pooling"][-1] == ("<lambda>" if pooling == "custom" else pooling)


def snapshot(model):
    return (
        [(n, m.training) for n, m in model.named_modules()],
        [(n, len(m._forward_hooks), len(m._forward_pre_hooks)) for n, m in model.named_modules()],
        [(n, p.requires_grad, p.grad, p._version) for n, p in model.named_parameters()],
        {n: b.clone() for n, b in model.named_buffers()},
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
    )


def assert_same(before, after):
    for old, new in zip(before, after, strict=True):
        if isinstance(old, torch.Tensor):
            assert torch.equal(old, new)
        elif isinstance(old, dict):
            assert old.keys() == new.keys()
            assert all(torch.equal(old[name], new[name]) for name in old)
        else:
            assert old == new


class Counting(nn.Module):
    """Writes to a buffer and draws random numbers even in eval mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x + 1e-3 * torch.randn_like(x)


def awkward_model():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), Counting(), nn.Linear(5, 5), nn.ReLU())
    model[0].weight.requires_grad_(False)
    model[1].eval()  # a part in another mode than the rest
    model[3].register_forward_hook(lambda module, args, output: None)
    return model


@pytest.mark.parametrize("failure", [None, RuntimeError, KeyboardInterrupt])
def test_the_model_is_returned_exactly_as_found(failure):
    model = awkward_model()
    if failure is not None:

        def fail(module, args):
            if len(args[0]) < 17:  # the last batch, when hooks are long in place
                raise failure("stop")

        model[3].register_forward_pre_hook(fail)
    before = snapshot(model)
    batches = list(cases.CASES[0].batches())
    if failure is None:
        ls.separation(model, batches, strategy="two-pass")
    else:
        with pytest.raises((ls.LawscopeError, KeyboardInterrupt), match="stop"):
            ls.separation(model, batches)
    assert_same(before, snapshot(model))


def test_a_shuffling_loader_is_read_twice_in_the_same_order():
    dataset = TensorDataset(cases.vectors(), cases.labels())
    model = cases.sequential()
    for generator in (None, torch.Generator().manual_seed(5)):
        loader = DataLoader(dataset, batch_size=13, shuffle=True, generator=generator)
        two = ls.separation(model, loader, strategy="two-pass")
        one = ls.separation(model, loader, strategy="held")
        assert two.settings["passes"] == 2
        assert two.values == pytest.approx(one.values, rel=1e-12)
        ends = two.population.interval
        assert ends == pytest.approx(one.population.interval, rel=1e-9)


def test_other_data_in_the_second_pass_is_an_error():
    class Restless:
        def __init__(self):
            self.random = random.Random(0)

        def __iter__(self):
            batches = list(cases.CASES[0].batches())
            self.random.shuffle(batches)
            return iter(batches)

    with pytest.raises(LawscopeError, match="second pass"):
        ls.separation(cases.sequential(), Restless(), strategy="two-pass")


def test_a_generator_is_enough_for_one_pass_and_an_error_for_two():
    case = cases.CASES[0]
    once = ls.separation(case.model(), case.batches())
    assert once.settings["passes"] == 1
    assert once.values == pytest.approx(ls.separation(case.model(), list(case.batches())).values)
    with pytest.raises(LawscopeError, match=r"used up.* leave strategy= to lawscope"):
        ls.separation(case.model(), case.batches(), strategy="two-pass")
    with pytest.raises(LawscopeError, match="read only once"):
        ls.separation(case.model(), case.batches(), memory="2KB", uncertainty=None)


def test_a_model_without_values_says_so():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    with pytest.raises(ls.LawscopeError, match=r"0\.weight is on the meta device"):
        ls.separation(model, [(torch.zeros(6, 4), torch.arange(6) % 2)])


def test_compiled_and_parallel_wrappers_are_looked_through():
    case = cases.CASES[0]
    plain = ls.separation(case.model(), list(case.batches()))
    for wrap in (nn.DataParallel, torch.compile):
        wrapped = wrap(case.model())
        result = ls.separation(wrapped, list(case.batches()))
        assert result.stations == plain.stations
        assert result.values == pytest.approx(plain.values, rel=1e-9)
    in_place = case.model()
    in_place.compile()
    kept = in_place._compiled_call_impl
    assert ls.separation(in_place, list(case.batches())).values == pytest.approx(plain.values)
    assert in_place._compiled_call_impl is kept


def test_a_station_that_runs_only_sometimes_is_named():
    def sometimes(net, x):
        x = torch.relu(net.a(x))
        return net.c(net.extra(net.b(x)) if len(x) in (11, 17) else x)

    parts = {"a": nn.Linear(6, 5), "b": nn.Linear(5, 5), "c": nn.Linear(5, 4), "extra": nn.Tanh()}
    with pytest.raises(LawscopeError, match="'extra' was asked for and never ran in a batch of 9"):
        ls.separation(cases.Net(sometimes, **parts), list(cases.CASES[0].batches()))


def test_selecting_what_never_runs_or_does_not_exist():
    net = cases.Net(lambda net, x: net.used(x), used=cases.sequential(), idle=nn.Linear(2, 2))
    batches = list(cases.CASES[0].batches())
    with pytest.raises(LawscopeError, match="'idle' was asked for and never ran"):
        ls.separation(net, batches, stations=["used.2", "idle"])
    with pytest.raises(LawscopeError, match=r"No station matches 'usd\.2'. Near it: used\.2"):
        ls.separation(net, batches, stations="usd.2")
    globbed = ls.separation(net, batches, stations="used.[24]")
    assert globbed.stations == ("used.2", "used.4")
    assert globbed.granularity == "chosen"


def test_half_precision_networks_are_measured_in_float64():
    case = cases.CASES[0]
    model = case.model().to(torch.bfloat16).eval()
    x, y = cases.vectors().to(torch.bfloat16), cases.labels()
    result = ls.separation(model, (x, y), stations=["input", "0", "2"])
    with torch.no_grad():
        hidden = model[0](x)
    expected = [oracles.fuzziness(x, y), oracles.fuzziness(hidden, y)]
    assert result.values[:2] == pytest.approx(expected, rel=1e-9)


def test_repeated_calls_leave_nothing_behind():
    import gc

    case = cases.CASES[4]
    model, batches = case.model(), list(case.batches())

    def tensors():
        ls.separation(model, batches)
        gc.collect()
        return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())

    first = tensors()
    assert {tensors() for _ in range(3)} == {first}


def test_tokens_first_layout_is_turned():
    def tokens_first(net, x):
        x = x.transpose(0, 1)
        for layer in net.layers:
            x = layer(x)
        return net.head(x.mean(0))

    torch.manual_seed(0)
    layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16) for _ in range(3))
    model = cases.Net(tokens_first, layers=layers, head=nn.Linear(8, cases.CLASSES)).eval()
    x, y = cases.sequences(), cases.labels()
    result = ls.separation(model, (x, y), stations="layers.*")
    with torch.no_grad():
        h = copy.deepcopy(model.layers[0])(x.transpose(0, 1)).mean(0)
    index = result.stations.index("layers.0")
    assert result.values[index] == pytest.approx(oracles.fuzziness(h, y), rel=1e-5)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(zip(cases.vectors(), cases.labels(), strict=True))


def test_streaming_datasets_have_no_length():
    expected = ls.separation(cases.CASES[0].model(), (cases.vectors(), cases.labels())).values
    for data in (Stream(), DataLoader(Stream(), batch_size=9)):
        result = ls.separation(cases.CASES[0].model(), data)
        assert result.values == pytest.approx(expected, rel=1e-6)


def test_a_users_hook_on_the_network_itself_is_respected():
    model = cases.CASES[0].model()
    model.register_forward_pre_hook(lambda module, args: (args[0] / 2,))
    result = ls.separation(model, (cases.vectors(), cases.labels()), stations=["0", "2"])
    plain = cases.CASES[0].model().eval()
    with torch.no_grad():
        halved = plain[0](cases.vectors() / 2)
    assert result.values[0] == pytest.approx(oracles.fuzziness(halved, cases.labels()), rel=1e-6)


def test_buffers_that_were_none_are_none_again():
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", None)
            self.inner = cases.sequential()

        def forward(self, x):
            self.cache = x.detach()
            return self.inner(x)

    model = Caching()
    ls.separation(model, (cases.vectors(), cases.labels()))
    assert model.cache is None
    assert list(model._buffers) == ["cache"]


def test_random_state_survives_a_loader_that_fails_at_once():
    class Failing:
        def __iter__(self):
            torch.rand(1)
            raise RuntimeError("no data today")

    model = cases.sequential()
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="no data today"):
        ls.separation(model, Failing())
    assert torch.equal(before, torch.get_rng_state())


def test_layers_without_a_row_per_sample_are_said_to_be_left_out():
    def per_token(net, x):
        h = torch.relu(net.a(x.reshape(-1, 8)))
        return net.c(torch.relu(net.b(h.reshape(len(x), 40))))

    net = cases.Net(per_token, a=nn.Linear(8, 8), b=nn.Linear(40, 8), c=nn.Linear(8, 4))
    with pytest.warns(ls.LawscopeWarning, match=r"Left out: 1 layer .*'relu\(\)'"):
        result = ls.separation(net, (cases.sequences(), cases.labels()))
    assert result.stations == ("input", "relu()#2")


def test_named_inputs_the_network_does_not_know_are_left_out():
    case = cases.CASES[0]
    x, y = cases.vectors(), cases.labels()
    batches = [{"input": x, "labels": y, "idx": torch.arange(len(y))}]
    assert ls.separation(case.model(), batches).values == pytest.approx(
        ls.separation(case.model(), (x, y)).values, rel=1e-6
    )


def test_inputs_of_changing_size_name_the_station():
    net = nn.Sequential(
        nn.Conv1d(8, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 4)
    )
    batches = [(torch.randn(20, 8, t), cases.labels(20)) for t in (5, 6)]
    with pytest.raises(LawscopeError, match="Station 'input' gives 48 features in this batch"):
        ls.separation(net, batches)


def test_train_mode_uses_the_statistics_of_each_batch_and_leaves_the_network_alone() -> None:
    torch.manual_seed(0)
    y = torch.arange(60) % 3
    x = torch.randn(60, 5) + 2 * torch.eye(5)[y]
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    batches = list(zip(x.split(20), y.split(20), strict=True))
    seen = ls.separation(net, batches, mode="train", uncertainty=None)
    fresh = nn.BatchNorm1d(8)  # weight 1, bias 0, as in the network
    with torch.no_grad():
        features = torch.cat([torch.relu(fresh(net[0](part))) for part in x.split(20)])
    assert seen.values[-1] == pytest.approx(ls.fuzziness(features, y), rel=1e-6)
    assert seen.settings["mode"] == "train"
    assert not net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert ls.separation(net, batches, uncertainty=None).values[-1] != seen.values[-1]
    with pytest.raises(LawscopeError, match="mode='test' is not known"):
        ls.separation(net, batches, mode="test")


class Named(nn.Module):
    """Takes its inputs by name, all of them or those of a layer inside."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.fc, self.kind = nn.Linear(4, 3), kind
        self.forward = getattr(self, f"take_{kind}")

    def take_one(self, x):
        return self.fc(x)

    def take_two(self, x, y):
        return self.fc(x + y)

    def take_keyword(self, *, x):
        return self.fc(x)

    def take_any(self, **inputs):
        return self.take_one(**inputs)


@pytest.mark.parametrize(
    ("kind", "keys", "takes"),
    [
        ("one", ("q", "z"), "x"),
        ("two", ("x", "q"), "x, y"),
        ("keyword", ("q",), "x"),
        ("any", ("q",), "inputs"),
    ],
)
def test_names_of_inputs_that_do_not_fit_are_a_sentence(kind, keys, takes):
    batch = {key: torch.randn(6, 4) for key in keys}, torch.arange(6) % 3
    said = f"name their inputs {', '.join(keys)}, and the forward of Named takes {takes}: it raised"
    with pytest.raises(LawscopeError, match=said):
        ls.scan(Named(kind), [batch])


def test_what_a_network_raises_at_inputs_that_fit_is_not_put_on_their_names():
    net = Named("one")
    net.fc = None
    with pytest.raises(ls.LawscopeError, match="raised TypeError: 'NoneType' object is not call"):
        ls.scan(net, [({"x": torch.randn(6, 4)}, torch.arange(6) % 3)])
