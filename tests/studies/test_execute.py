"""A training is what its description says."""

import numpy as np
import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.studies.execute import execute
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.samples import samples_of
from lawscope.training.recipe import Recipe
from lawscope.zoo.datasets import as_inputs, load

RECIPE = Recipe(epochs=2, lr=1e-2)
BEGUN = Training(Network.of("feedforward", depth=5), RECIPE, Data(per_class=10), checkpoints=(0, 1))


def layers(run, epoch=None):
    return [child.state_dict() for child in run.network(epoch).children()]


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a if "running" not in name)


@pytest.fixture(scope="module")
def begun():
    return execute([BEGUN], {})[0]


def test_kept_epochs_are_those_asked_for_and_the_last(begun):
    assert sorted(begun.weights) == [0, 1, 2]
    assert not same(layers(begun, 0)[0], layers(begun, 1)[0])
    assert not same(layers(begun, 1)[0], layers(begun, 2)[0])


def test_only_the_layers_named_learn(begun):
    training = Training(BEGUN.network, RECIPE, BEGUN.data, start=BEGUN, trained=(1, 3))
    run = execute([training], {BEGUN.key: begun})[0]
    kept = [same(a, b) for a, b in zip(layers(begun), layers(run), strict=True)]
    assert kept == [True, False, False, True, True]


def test_only_the_first_layers_are_copied(begun):
    training = Training(
        Network.of("feedforward", depth=4), RECIPE, BEGUN.data, seed=1, checkpoints=(0,),
        start=BEGUN, copied=2,
    )  # fmt: skip
    run = execute([training], {BEGUN.key: begun})[0]
    old, new = layers(begun), layers(run, 0)
    assert [same(old[i], new[i]) for i in range(3)] == [True, True, False]


def test_a_start_of_other_shapes_is_a_sentence(begun):
    training = Training(Network.of("feedforward", depth=5, width=7), RECIPE, start=BEGUN)
    with pytest.raises(LawscopeError, match="same shapes"):
        execute([training], {BEGUN.key: begun})


def test_classes_are_renumbered_in_the_order_given():
    samples = samples_of(Data(per_class=(4, 2), classes=(7, 3)))
    whole = load("fashion-mnist-10x10")
    assert np.bincount(samples.y).tolist() == [4, 2]
    assert samples.class_names == (whole.class_names[7], whole.class_names[3])
    sevens = {tuple(row) for row in as_inputs(whole.x_train[whole.y_train == 7]).tolist()}
    assert all(tuple(row) in sevens for row in samples.x[samples.y == 0].tolist())
    assert not any(tuple(row) in sevens for row in samples.x[samples.y == 1].tolist())


def test_a_class_that_is_not_there_is_a_sentence():
    with pytest.raises(LawscopeError, match="has no class 10"):
        samples_of(Data(classes=(0, 10)))
