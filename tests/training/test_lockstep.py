"""Networks in lock-step against a loop that trains one after the other."""

import copy

import pytest
import torch
from torch import nn

from lawscope.errors import LawscopeError
from lawscope.training.lockstep import draw_rows, train_lockstep
from lawscope.training.recipe import Recipe
from lawscope.zoo.images.arrays import as_inputs
from lawscope.zoo.images.shapes import draw_shapes
from lawscope.zoo.networks.catalogue import build

STEPS, EVERY = 60, 20


def train_alone(model, x, y, recipe, probe):
    """Train the way one writes it; return mean logits by class every 20 steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe.lr)
    generator = torch.Generator().manual_seed(recipe.seed)
    images, labels = probe
    means = []
    for step, rows in enumerate(draw_rows(generator, len(x), STEPS, recipe.batch_size)):
        if step % EVERY == 0:
            means.append([model(images[labels == k]).mean(dim=0) for k in range(3)])
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return torch.stack([torch.stack(each) for each in means])


def make_world(dtype, channels, batch):
    torch.manual_seed(0)
    models = [build("lenet", channels=channels).to(dtype) for _ in range(3)]
    pixels, labels = draw_shapes(8)
    x = as_inputs(pixels, flatten=False).to(dtype).repeat(1, channels, 1, 1)
    y = torch.from_numpy(labels)
    # The second network shares the images of the first and has labels of its own; the third has
    # fewer images.
    xs, ys = [x, x, x[:15].flip(0)], [y, (y + 1) % 3, y[:15].flip(0)]
    recipes = [Recipe("sgd", 0.01 * (1 + i), STEPS, batch, 0.0, seed=i) for i in range(3)]
    return models, xs, ys, recipes, (x[::2], y[::2])


@pytest.mark.parametrize(
    ("dtype", "channels", "batch", "tolerance"),
    [(torch.float64, 1, 1, 1e-9), (torch.float32, 1, 1, 1e-5), (torch.float64, 3, 4, 1e-9)],
)
def test_weights_and_records_are_those_of_the_plain_loop(dtype, channels, batch, tolerance):
    models, xs, ys, recipes, probe = make_world(dtype, channels, batch)
    alone = [copy.deepcopy(model) for model in models]
    means = [train_alone(*each, probe) for each in zip(alone, xs, ys, recipes, strict=True)]
    ended = []
    found = train_lockstep(models, xs, ys, recipes, probe, EVERY, ended.append)
    for one, other in zip(models, alone, strict=True):
        for (name, weight), expected in zip(
            one.named_parameters(), other.parameters(), strict=True
        ):
            assert torch.allclose(weight, expected, rtol=0, atol=tolerance), name
    assert found.steps.tolist() == [0, 20, 40, 60]
    assert torch.allclose(found.means[:, :-1], torch.stack(means), rtol=0, atol=tolerance)
    x, y = probe
    for index, model in enumerate(alone):
        logits = model(x).detach()
        loss = nn.functional.cross_entropy(logits, y)
        assert float(found.losses[index, -1]) == pytest.approx(float(loss), abs=tolerance)
        right = (logits.argmax(dim=1) == y).double().mean()
        assert float(found.accuracies[index, -1]) == pytest.approx(float(right), abs=tolerance)
    assert ended == list(range(1, STEPS + 1))


def test_models_are_up_to_date_where_asked():
    models, xs, ys, recipes, probe = make_world(torch.float32, 1, 1)
    first = copy.deepcopy(models[0])
    seen = {}

    def keep(step):
        seen[step] = models[0].head.bias.clone()

    train_lockstep(models, xs, ys, recipes, probe, 1000, keep, up_to_date=[7])
    train_lockstep([first], xs[:1], ys[:1], [Recipe("sgd", 0.01, 7, 1, 0.0)], probe, 1000)
    assert torch.allclose(seen[7], first.head.bias, rtol=0, atol=1e-6)
    assert torch.equal(seen[8], seen[7])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"optimizer": "adam"}, "learn by sgd"),
        ({"weight_decay": 0.1}, "learn by sgd"),
        ({"epochs": 5}, "share optimizer, steps"),
        ({}, "as lenet is"),
    ],
)
def test_what_cannot_go_in_lockstep_is_said(change, words):
    models, xs, ys, recipes, probe = make_world(torch.float32, 1, 1)
    wrong = [Recipe(**{**vars(recipe), **change}) for recipe in recipes]
    if "epochs" in change:
        wrong[0] = recipes[0]
    if not change:
        models = [nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(1024, 3)) for _ in models]
    with pytest.raises(LawscopeError, match=words):
        train_lockstep(models, xs, ys, wrong, probe, EVERY)
