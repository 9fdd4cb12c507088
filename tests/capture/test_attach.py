"""Observers in somebody's own training loop, and nothing left of them afterwards."""

import pytest
import torch
from tests import cases
from tests.observers import Keep
from torch import nn
from torch.nn import functional as F
from torch.utils._device import DeviceContext
from torch.utils.checkpoint import checkpoint

import lawscope as ls
from lawscope.capture.session import Session
from lawscope.capture.taps import Tap
from lawscope.data.source import Source
from lawscope.laws.collapse.law import COLLAPSE
from lawscope.laws.separation.law import SEPARATION

BATCHES = list(zip(cases.vectors().split(15), cases.labels().split(15), strict=True))


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(5, 4)
    )


def opened(model):
    session = Session(model, Source(BATCHES))
    by_name = {s.name: s for s in session.stations}
    taps = [Tap(by_name["input"]), Tap(by_name["2"]), Tap(by_name["1"], "output gradient", "raw")]
    return session, Keep(*taps), taps


def train(model, optimizer, watch=None):
    """A training loop; what its own hooks saw of activations, and gradients before them."""
    activations, gradients = [], []
    torch.manual_seed(1)
    norm = model[1].register_forward_hook(
        lambda m, a, o: o.register_hook(gradients.append) and None
    )
    act = model[2].register_forward_hook(lambda m, a, o: activations.append(o.detach().clone()))
    for x, y in BATCHES:
        if watch is not None:
            watch.labels(y)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    norm.remove()
    act.remove()
    return torch.cat(activations), torch.cat(gradients)


def leftovers(model, optimizer):
    return (
        [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
        [m.training for m in model.modules()],
        len(optimizer._optimizer_step_post_hooks),
        [p.requires_grad for p in model.parameters()],
    )


def test_forward_backward_and_steps_are_seen_and_training_is_as_without():
    alone, watched = network(), network()
    expected = train(alone, torch.optim.SGD(alone.parameters(), lr=0.1))
    session, keep, taps = opened(watched)
    optimizer = torch.optim.SGD(watched.parameters(), lr=0.1)
    before = leftovers(watched, optimizer)
    with session.attach([keep], optimizer) as watch:
        train(watched, optimizer, watch)
    assert leftovers(watched, optimizer) == before
    for ours, theirs in zip(
        watched.state_dict().values(), alone.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(watched.parameters(), alone.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)
    assert torch.equal(keep.all(taps[0]), cases.vectors())
    assert torch.equal(keep.all(taps[1]), expected[0])
    assert torch.equal(keep.all(taps[2]), expected[1])
    assert (keep.steps, keep.ended, keep.done) == (4, 4, True)
    assert [b.labels.tolist() for b in keep.batches] == [y.tolist() for _, y in BATCHES]


def test_nothing_is_seen_in_a_pause_and_no_gradient_is_waited_for():
    model = network()
    session, keep, taps = opened(model)
    x, y = BATCHES[0]
    with session.attach([keep]) as watch:
        with watch.pause():
            model(x)
        with torch.no_grad():
            model(x)
        F.cross_entropy(model(x), y)  # no backward pass
        F.cross_entropy(model(x), y).backward()
    assert [len(keep.rows[tap]) for tap in taps] == [3, 3, 1]
    assert keep.ended == 3


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_loop_that_fails_leaves_nothing_behind(failure):
    model = network()
    session, keep, _ = opened(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = leftovers(model, optimizer)

    def fail(module, args):
        raise failure("stop")

    def loop():
        with session.attach([keep], optimizer):
            model(BATCHES[0][0])
            handle = model[4].register_forward_pre_hook(fail)
            try:
                model(BATCHES[0][0])
            finally:
                handle.remove()

    with pytest.raises(failure, match="stop"):
        loop()
    assert leftovers(model, optimizer) == before
    assert not keep.done


class Functional(nn.Module):
    """Calls relu as a function, and ``meanwhile`` before its second layer."""

    def __init__(self, meanwhile=lambda: None):
        super().__init__()
        self.a, self.b, self.meanwhile = nn.Linear(6, 5), nn.Linear(5, 4), meanwhile

    def forward(self, x):
        x = torch.relu(self.a(x))
        self.meanwhile()
        return self.b(x)


class Refuse(Keep):
    def begin_batch(self, batch):
        raise ls.LawscopeError("stop")


def fail(failure):
    raise failure("stop")


@pytest.mark.parametrize(
    ("failure", "kind"), [(KeyboardInterrupt, Keep), (RuntimeError, Keep), (None, Refuse)]
)
@pytest.mark.filterwarnings("ignore:module forward hook")
def test_no_function_mode_is_left_and_none_of_others_taken(failure, kind):
    model = Functional()
    session = Session(model, Source(BATCHES))
    watching = kind(Tap(next(s for s in session.stations if s.name == "relu()")))
    if failure is not None:
        model.meanwhile = lambda: fail(failure)

    def loop():
        with session.attach([watching]):
            model(BATCHES[0][0])

    with DeviceContext("cpu"):
        before = torch._C._len_torch_function_stack()
        with pytest.raises(failure or ls.LawscopeError, match="stop"):
            loop()
        assert torch._C._len_torch_function_stack() == before


@pytest.mark.parametrize(
    ("law", "settings"),
    [(SEPARATION, {"strategy": "two-pass"}), (COLLAPSE, {"memory": 1})],
)
def test_a_law_that_reads_the_data_twice_is_refused(law, settings):
    session = Session(network(), Source(BATCHES))
    observer = law.observe(session, law.settings.read(law.name, settings))
    with pytest.raises(ls.LawscopeError, match="shows it once"), session.attach([observer]):
        pass


def test_functions_compiled_and_checkpointed_parts_are_watched():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b, self.c = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 4)

        def inner(self, x):
            return torch.relu(self.b(x))

        def forward(self, x):
            x = torch.relu(self.a(x))
            return self.c(checkpoint(self.inner, x, use_reentrant=False))

    model = Functional()
    session = Session(model, Source(BATCHES))
    taps = [Tap(s) for s in session.stations if s.name in ("relu()", "relu()#2", "b")]
    keep = Keep(*taps)
    x, y = BATCHES[0]
    with session.attach([keep]):
        F.cross_entropy(model(x), y).backward()
    assert [len(keep.rows[tap]) for tap in taps] == [1, 1, 1]
    assert torch.equal(keep.all(taps[-1]), torch.relu(model.b(torch.relu(model.a(x)))))


def test_a_station_that_never_runs_is_an_error_also_here():
    model = network()
    session, keep, _ = opened(model)
    model.forward = lambda x: model[4](model[0](x))
    with session.attach([keep]), pytest.raises(ls.LawscopeError, match="never ran"):
        model(BATCHES[0][0])
