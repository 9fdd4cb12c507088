"""How a lab measures: under the authors' protocol as their script does, or the network itself."""

import pytest
import torch
from tests.studies import stand_ins
from tests.studies.memory import Memory
from torch import nn

from lawscope.studies import lab as lab_module
from lawscope.studies.datasets import ImageData, SentenceData, samples_of
from lawscope.studies.lab import Lab
from lawscope.studies.plan import Network, Training
from lawscope.studies.study import AUTHORS, NETWORK
from lawscope.training.recipe import Recipe

RECIPE = Recipe(epochs=1)
NET = Training(Network.of("feedforward", depth=3), RECIPE, ImageData(per_class=30))


@pytest.fixture
def seen(monkeypatch):
    """What the lab hands to the measurement: network, batches, mode."""
    calls = []

    def keep(network, batches, **how):
        calls.append((network, batches, how["mode"]))

    monkeypatch.setattr(lab_module, "separation", keep)
    return calls


def inputs(batches):
    return torch.cat([batch[0] for batch in batches])


def test_the_authors_measure_in_train_mode_in_batches_of_100_in_the_order_drawn(seen):
    memory = Memory([NET])
    for protocol in (AUTHORS, NETWORK):
        Lab({}, memory, protocol=protocol).separation(NET)
    (_, drawn, train), (_, plain, evaluated) = seen
    assert (train, evaluated) == ("train", "eval")
    assert [len(batch[0]) for batch in drawn] == [100, 100, 100]
    x = samples_of(NET.data).x
    assert torch.equal(inputs(plain), x)
    assert not torch.equal(inputs(drawn), x)
    assert torch.equal(inputs(drawn).sum(0).round(decimals=2), x.sum(0).round(decimals=2))


def test_every_order_is_another_draw(seen):
    lab = Lab({}, Memory([NET]), protocol=AUTHORS)
    for order in (0, 0, 1):
        lab.separation(NET, order=order)
    first, again, other = (inputs(batches) for _, batches, _ in seen)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_test_data_keeps_the_order_of_its_file(seen):
    Lab({}, Memory([NET]), protocol=AUTHORS).separation(NET, split="test")
    ((_, batches, _),) = seen
    assert torch.equal(inputs(batches), samples_of(NET.data).x_test)


def test_train_mode_is_about_batch_norm_not_about_dropout(seen, monkeypatch):
    stand_ins.stand_in(monkeypatch)
    training = Training(Network.of("text-encoder", depth=2), RECIPE, SentenceData(per_class=20))
    Lab({}, Memory([training]), protocol=AUTHORS).separation(training)
    ((network, _, mode),) = seen
    samples_of.cache_clear()
    assert mode == "train"
    rates = [m.p for m in network.modules() if isinstance(m, nn.Dropout)]
    rates += [m.dropout for m in network.modules() if isinstance(m, nn.MultiheadAttention)]
    assert rates
    assert set(rates) == {0.0}
