"""What taps give: outputs, inputs and gradients, as samples, positions or as they are."""

import pytest
import torch
from tests import cases
from tests.language_models import build, token_batches
from tests.observers import Keep, read
from torch import nn
from torch.nn import functional as F

import lawscope as ls
from lawscope.capture.session import Session, run_together
from lawscope.capture.taps import Tap
from lawscope.data.source import Source
from lawscope.data.tokens import TokenSource


def station(model, data, name):
    return next(s for s in ls.stations(model, data) if s.name == name)


class Tokens(nn.Module):
    """Per token Linear and ReLU, then the mean."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.act, self.head = nn.Linear(8, 6), nn.ReLU(inplace=True), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.act(self.body(x)).mean(1))


def batches(x):
    return list(zip(x.split(20), cases.labels().split(20), strict=True))


def test_two_observers_read_one_station_differently_at_the_same_time():
    model, data = Tokens(), batches(cases.sequences())
    here = station(model, data, "act")
    taps = Tap(here), Tap(here, rows="positions"), Tap(here, rows="raw"), Tap(here, pooling="last")
    pooled, tokens, raw, last = map(Keep, taps)
    Session(model, Source(data)).run([pooled, tokens, raw, last])
    with torch.no_grad():
        expected = torch.relu(model.body(cases.sequences()))
    assert torch.allclose(raw.all(), expected)
    assert torch.allclose(tokens.all(), expected.flatten(0, 1))
    assert torch.allclose(pooled.all(), expected.mean(1))
    assert torch.allclose(last.all(), expected[:, -1])


def test_positions_of_a_convolution_are_pixels():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 4))
    x = cases.images()
    here = station(model, (x, cases.labels()), "1")
    keep = read(model, batches(x), Tap(here, rows="positions"))
    with torch.no_grad():
        expected = torch.relu(model[0](x)).permute(0, 2, 3, 1).reshape(-1, 5)
    assert torch.allclose(keep.all(), expected)


def test_inputs_of_modules_and_functions():
    model = next(c for c in cases.CASES if c.name == "functional").model()
    x = cases.vectors()
    taps = [Tap(station(model, (x, cases.labels()), n), "input") for n in ("fc2", "gelu()")]
    keep = read(model, batches(x), *taps)
    model.eval()
    with torch.no_grad():
        h1 = torch.relu(model.fc1(x))
        before = model.fc4(torch.relu(model.fc3(torch.relu(model.fc2(h1)))))
    assert torch.allclose(keep.all(taps[0]), h1, atol=1e-6)
    assert torch.allclose(keep.all(taps[1]), before, atol=1e-6)


def by_hand(model, x, y):
    """Gradients of the loss at "body" and "act", one sample at a time."""
    made = {"body": [], "act": []}
    for one, label in zip(x, y, strict=True):
        body = model.body(one[None])
        act = torch.relu(body)
        loss = F.cross_entropy(model.head(act.mean(1)), label[None])
        for parts, gradient in zip(
            made.values(), torch.autograd.grad(loss, [body, act]), strict=True
        ):
            parts.append(gradient)
    return {name: torch.cat(parts) for name, parts in made.items()}


def summed(output, labels):
    return F.cross_entropy(output, labels, reduction="sum")


@pytest.mark.parametrize("frozen", [False, True])
def test_output_gradients_are_those_of_every_sample_and_touch_nothing(frozen):
    model, x, y = Tokens(), cases.sequences(), cases.labels()
    expected = by_hand(model, x, y)
    model.requires_grad_(not frozen)
    data = batches(x)
    taps = [Tap(station(model, data, n), "output gradient", "raw") for n in ("body", "act")]
    beside = Tap(station(model, data, "body"), rows="raw")
    keep = read(model, data, *taps, beside, loss=summed)
    # The activation overwrites the output of the layer before it, whose gradient is another.
    for tap, name in zip(taps, ("body", "act"), strict=True):
        assert torch.allclose(keep.all(tap), expected[name], atol=1e-7)
    with torch.no_grad():
        assert torch.allclose(keep.all(beside), model.body(x))
    assert not keep.all(beside).requires_grad
    assert all(p.grad is None and p.requires_grad != frozen for p in model.parameters())
    with pytest.raises(ls.LawscopeError, match="loss="):
        read(model, data, *taps)


def test_the_gradient_at_the_raw_data_and_where_none_arrives():
    class Unused(Tokens):
        def forward(self, x):
            self.body(-x)
            return super().forward(x)

    model, x, y = Unused(), cases.sequences(), cases.labels()
    data = batches(x)
    raw = Tap(station(model, data, "input"), "output gradient", "raw")
    unused = Tap(station(model, data, "body"), "output gradient", "raw")
    keep = read(model, data, raw, unused, loss=summed)
    leaf = x.clone().requires_grad_()
    F.cross_entropy(model(leaf), y, reduction="sum").backward()
    assert torch.allclose(keep.all(raw), leaf.grad, atol=1e-7)
    assert not keep.all(unused).any()


def test_what_the_loss_raises_is_a_sentence():
    def loss(logits, labels):
        raise IndexError("Target 7 is out of bounds")

    model, data = cases.sequential(), (cases.vectors(), cases.labels())
    tap = Tap(station(model, data, "0"), "output gradient", "raw")
    with pytest.raises(ls.LawscopeError, match="The loss raised IndexError: Target 7"):
        read(model, data, tap, loss=loss)


def test_the_loss_of_a_text_is_that_of_the_next_token():
    model, ids = build("gpt2"), token_batches(1)[0]
    session = Session(model, TokenSource([ids]))
    tap = Tap(session.blocks.all[-1], "output gradient", "positions")
    keep, seen = Keep(tap), []

    def loss(logits, targets):
        seen.append((logits.shape, targets))
        return F.cross_entropy(logits, targets)

    session.run([keep], loss)
    assert torch.equal(seen[0][1], ids[:, 1:].flatten())
    model.eval()
    kept = {}
    hook = model.transformer.h[-1].register_forward_hook(lambda m, a, o: kept.update(h=o))
    logits = model(ids).logits
    hook.remove()
    hidden = kept["h"][0] if isinstance(kept["h"], tuple) else kept["h"]
    value = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    (expected,) = torch.autograd.grad(value, hidden)
    assert torch.allclose(keep.all(), expected.flatten(0, 1), atol=1e-7)


def test_several_networks_see_the_same_batches_and_draw_as_they_would_alone():
    torch.manual_seed(0)
    models = [
        nn.Sequential(nn.Linear(6, 5), nn.Dropout(), nn.ReLU(), nn.Linear(5, 4)) for _ in range(3)
    ]
    data = batches(cases.vectors())

    def opened(model):
        session = Session(model, Source(data), mode="train")
        return session, Keep(Tap(next(s for s in session.stations if s.name == "2")))

    state = torch.get_rng_state()
    alone = []
    for model in models:
        session, keep = opened(model)
        session.run([keep])
        alone.append(keep.all())
    together = [opened(model) for model in models]
    run_together([(session, [keep]) for session, keep in together], Source(data))
    for (_, keep), expected in zip(together, alone, strict=True):
        assert torch.equal(keep.all(), expected)
    assert torch.equal(state, torch.get_rng_state())


def test_a_network_that_switches_gradients_on_is_measured():
    def descend(net, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(x.square().sum(), x)
            return net.inner(x - 0.1 * slope)

    x, y = cases.vectors(), cases.labels()
    model = cases.Net(descend, inner=cases.sequential())
    found = ls.separation(model, [(x, y)], stations="inner.?", uncertainty=None)
    plain = ls.separation(model.inner, [(0.8 * x, y)], stations="?", uncertainty=None)
    assert found.values == pytest.approx(plain.values, rel=1e-5)


def test_a_dict_is_handed_over_as_it_is_where_forward_has_no_such_names():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = cases.sequential()

        def forward(self, batch):
            return self.inner(batch["x"] + batch["shift"])

    class Named(Whole):
        def forward(self, x, shift):
            return self.inner(x + shift)

    x, y = cases.vectors(), cases.labels()
    given = {"x": x, "shift": torch.ones_like(x), "extra": torch.zeros(len(x))}
    for model in (Whole(), Named()):
        expected = ls.collapse(model.inner, [(x + 1, y)], uncertainty=None)
        for batch in ((given, y), {**given, "labels": y}):
            found = ls.collapse(model, [batch], uncertainty=None)
            assert found.nc3 == pytest.approx(expected.nc3, rel=1e-9)
            assert len(ls.stations(model, batch)) > 3


def test_an_empty_first_batch_is_passed_over():
    model, (x, y) = cases.sequential(), (cases.vectors(), cases.labels())
    for measure in (ls.separation, ls.collapse):
        plain = measure(model, [(x, y)], uncertainty=None).to_dict()
        found = measure(model, [(x[:0], y[:0]), (x, y)], uncertainty=None).to_dict()
        changing = {"settings": 0, "provenance": 0}
        assert {**found, **changing} == {**plain, **changing}
