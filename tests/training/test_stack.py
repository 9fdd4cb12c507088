"""A stack gives what the loop gives, network by network."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from lawscope.errors import LawscopeError
from lawscope.training.loop import train
from lawscope.training.optimizers import OPTIMIZERS, Rule, register_optimizer
from lawscope.training.recipe import Recipe
from lawscope.training.stack import BatchNorm, train_stack
from lawscope.zoo.networks.catalogue import build

RATES = {"sgd": 0.03, "momentum": 0.03, "adam": 1e-3}
# In float64 rounding starts at 1e-16 and 24 steps amplify it by less than 1e4.
FLOAT64, FLOAT32 = 1e-10, 1e-3


def networks(count: int, dtype: torch.dtype = torch.float64, **options: object) -> list[nn.Module]:
    settings = {"depth": 4, "inputs": 6, "width": 8, "classes": 3, **options}
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(build("feedforward", **settings).to(dtype))
    return made


def data(count: int, dtype: torch.dtype = torch.float64, samples: int = 50):
    generator = torch.Generator().manual_seed(0)
    x = [torch.randn(samples, 6, generator=generator, dtype=dtype) for _ in range(count)]
    return x, [torch.arange(samples) % 3 for _ in range(count)]


def outputs(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Logits with the statistics of the batch.

    A bias before BatchNorm has no gradient but rounding, which Adam divides by itself: the loop
    moves it at random by a learning rate a step. The normalised features do not depend on it; the
    running mean follows it with a lag.
    """
    return model.train()(x)


def both_ways(models: list[nn.Module], recipes: list[Recipe], dtype=torch.float64):
    """Trained as a stack and one by one: (networks, outcomes) of each way."""
    x, y = data(len(models), dtype)
    alone = copy.deepcopy(models)
    together = train_stack(models, x, y, recipes)
    return (
        together,
        [train(model, *each) for model, *each in zip(alone, x, y, recipes, strict=True)],
        alone,
        x,
    )


@pytest.mark.parametrize("options", [{}, {"norm": False}, {"nonlinear": False}, {"widths": [5, 9]}])
@pytest.mark.parametrize("optimizer", RATES)
def test_stack_equals_loop_in_float64(optimizer: str, options: dict) -> None:
    models = networks(3, **options)
    recipes = [
        Recipe(
            optimizer=optimizer,
            lr=RATES[optimizer] * (1 + index),
            weight_decay=0.01 * index,
            epochs=6,
            batch_size=16,
            seed=index,
        )
        for index in range(3)
    ]
    together, one_by_one, alone, x = both_ways(models, recipes)
    for model, twin, inputs, a, b in zip(models, alone, x, together, one_by_one, strict=True):
        torch.testing.assert_close(
            outputs(model, inputs), outputs(twin, inputs), rtol=0, atol=FLOAT64
        )
        assert a.loss == pytest.approx(b.loss, abs=1e-3)
        if optimizer != "adam":  # which moves the biases of the loop at random, see outputs()
            state = twin.state_dict()
            for name, value in model.state_dict().items():
                if name.endswith(("running_mean", "running_var", "bias")):
                    torch.testing.assert_close(value, state[name], rtol=0, atol=FLOAT64)


@pytest.mark.parametrize("optimizer", RATES)
def test_stack_equals_loop_in_float32(optimizer: str) -> None:
    models = networks(2, torch.float32)
    recipes = [Recipe(optimizer=optimizer, lr=RATES[optimizer], epochs=3, batch_size=16)] * 2
    _, _, alone, x = both_ways(models, recipes, torch.float32)
    for model, twin, inputs in zip(models, alone, x, strict=True):
        torch.testing.assert_close(
            outputs(model, inputs), outputs(twin, inputs), rtol=0, atol=FLOAT32
        )


def test_a_lone_last_sample_is_left_out_as_in_the_loop() -> None:
    models = networks(2)
    recipes = [Recipe(lr=1e-3, epochs=2, batch_size=49, seed=seed) for seed in range(2)]
    _, _, alone, x = both_ways(models, recipes)
    for model, twin, inputs in zip(models, alone, x, strict=True):
        torch.testing.assert_close(
            outputs(model, inputs), outputs(twin, inputs), rtol=0, atol=FLOAT64
        )


def test_frozen_layers_keep_their_weights_and_the_rest_learns() -> None:
    models = networks(2)
    for model in models:
        model[1].requires_grad_(False)
    before = copy.deepcopy(models)
    recipes = [Recipe(lr=1e-2, epochs=2, batch_size=16)] * 2
    _, _, alone, x = both_ways(models, recipes)
    for model, twin, old, inputs in zip(models, alone, before, x, strict=True):
        assert torch.equal(model[1].linear.weight, old[1].linear.weight)
        assert torch.equal(model[1].norm.weight, old[1].norm.weight)
        assert not torch.equal(model[1].norm.running_mean, old[1].norm.running_mean)
        assert not torch.equal(model[0].linear.weight, old[0].linear.weight)
        torch.testing.assert_close(
            outputs(model, inputs), outputs(twin, inputs), rtol=0, atol=FLOAT64
        )


def test_a_network_that_diverges_leaves_the_others_alone() -> None:
    models = networks(2, norm=False)
    recipes = [Recipe(optimizer="sgd", lr=lr, epochs=6, batch_size=16) for lr in (1e6, 0.03)]
    together, one_by_one, alone, x = both_ways(models, recipes)
    assert not math.isfinite(together[0].loss)
    assert together[1].loss == pytest.approx(one_by_one[1].loss, abs=FLOAT64)
    torch.testing.assert_close(
        outputs(models[1], x[1]), outputs(alone[1], x[1]), rtol=0, atol=FLOAT64
    )


def test_weights_are_up_to_date_where_asked_for() -> None:
    models = networks(2)
    seen: dict[int, torch.Tensor] = {}
    x, y = data(2)
    recipes = [Recipe(lr=1e-2, epochs=4, batch_size=16)] * 2
    train_stack(
        models,
        x,
        y,
        recipes,
        lambda epoch: seen.__setitem__(epoch, models[0][0].linear.weight.detach().clone()),
        up_to_date=(2,),
    )
    short = networks(2)
    train_stack(short, x, y, [Recipe(lr=1e-2, epochs=4, batch_size=16)] * 2)
    assert not torch.equal(seen[2], seen[1])
    assert torch.equal(seen[4], short[0][0].linear.weight)


def test_what_cannot_share_a_stack_is_said() -> None:
    x, y = data(2)
    with pytest.raises(LawscopeError, match="share their epochs; got 1 and 2"):
        train_stack(networks(2), x, y, [Recipe(epochs=1), Recipe(epochs=2)])
    with pytest.raises(LawscopeError, match="data of one shape"):
        train_stack(networks(2), [x[0], x[1][:9]], [y[0], y[1][:9]], [Recipe(epochs=1)] * 2)
    odd = [nn.Sequential(nn.Linear(6, 3), nn.Tanh()) for _ in range(2)]
    with pytest.raises(LawscopeError, match="not Tanh; train this network by itself"):
        train_stack(odd, x, y, [Recipe(epochs=1)] * 2)


def test_batch_norm_is_the_librarys() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 5, 12, generator=generator, dtype=torch.float64) * 3 + 100
    theirs = nn.BatchNorm1d(5, dtype=torch.float64)
    with torch.no_grad():
        theirs.weight.uniform_(0.5, 2, generator=generator)
        theirs.bias.normal_(generator=generator)
    values = {
        name: value.clone()[None]
        for name, value in theirs.state_dict().items()
        if name != "num_batches_tracked"
    }
    slopes = {name: torch.empty(1, 5, dtype=torch.float64) for name in ("weight", "bias")}
    ours = BatchNorm(values, slopes, theirs.eps, theirs.momentum, left_out=None)
    leaf = x[0].T.clone().requires_grad_()
    expected = theirs(leaf)
    torch.testing.assert_close(ours.forward(x)[0].T, expected, rtol=1e-12, atol=1e-12)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(values[name][0], getattr(theirs, name), rtol=1e-12, atol=0)
    above = torch.randn(1, 5, 12, generator=generator, dtype=torch.float64)
    expected.backward(above[0].T)
    back = ours.backward(above, below=True)
    torch.testing.assert_close(back[0].T, leaf.grad, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(slopes["weight"][0], theirs.weight.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(slopes["bias"][0], theirs.bias.grad, rtol=1e-10, atol=1e-12)


def test_a_stack_refuses_an_optimizer_that_looks_at_whole_tensors(monkeypatch) -> None:
    monkeypatch.setitem(OPTIMIZERS, "lars", Rule(OPTIMIZERS["sgd"].make, elementwise=False))
    recipes = [Recipe(optimizer="lars", epochs=1)] * 2
    with pytest.raises(LawscopeError, match="lars is not registered as elementwise; train its"):
        train_stack(networks(2), *data(2), recipes)


def test_an_unknown_optimizer_is_a_sentence_with_those_there_are() -> None:
    with pytest.raises(LawscopeError, match="no optimizer 'adma'; choose sgd, momentum, adam, a"):
        Recipe(optimizer="adma")


def test_two_optimizers_of_one_name_are_a_sentence() -> None:
    before = OPTIMIZERS["sgd"]
    with pytest.raises(LawscopeError, match=r"two optimizers named 'sgd', in lawscope\.training"):
        register_optimizer("sgd")(lambda weights, recipe: torch.optim.SGD(weights))
    assert OPTIMIZERS["sgd"] == before
