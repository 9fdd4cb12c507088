"""Stored networks are what the same settings would give today, or REVISION was raised."""

import pytest
import torch

from lawscope.studies.collapse._networks import SIMPLEX
from lawscope.studies.datasets import ImageData, TextData
from lawscope.studies.elasticity._networks import TINY_SHAPES, trainings_of
from lawscope.studies.execute import execute
from lawscope.studies.plan import REVISION, LanguageModelling, Network, Training
from lawscope.training.recipe import Recipe

TRAININGS = {
    "momentum": Training(
        Network.of("feedforward", depth=4, width=20),
        Recipe(optimizer="momentum", lr=0.01, epochs=6, batch_size=32),
        ImageData(per_class=20),
    ),
    "adam": Training(
        Network.of("feedforward", depth=4, width=20),
        Recipe(epochs=6, lr=1e-3),
        ImageData(per_class=20),
    ),
    "fixed classifier": Training(
        Network.of("feedforward", depth=3, width=20),
        Recipe(epochs=6, lr=1e-3),
        ImageData(per_class=20, repeats=(2,) * 10),
        prepare=SIMPLEX,
    ),
    "residual": Training(
        Network.of("resnet", blocks=(2, 3), copies=4, size=10),
        Recipe(epochs=2, lr=1e-3),
        ImageData(per_class=20, flatten=False),
    ),
    "language": Training(
        Network.of("language", width=16, depth=2, heads=2, context=16, rotary=True),
        Recipe("adamw", 1e-2, 8, 8, 0.1, 0),
        TextData(window=16, vocabulary=512),
        task=LanguageModelling(),
    ),
    "lock-step": trainings_of({"seeds": 1}, {**TINY_SHAPES, "steps": 60})[0],
}
# Size of all weights and loss after training. Where they change by more than rounding on another
# processor, stored networks are of the past: raise REVISION and write down what is printed.
KNOWN_REVISION = 4
KNOWN = {
    "momentum": (9.155189, 1.875234),
    "adam": (9.116310, 2.264850),
    "fixed classifier": (7.531984, 2.182594),
    "residual": (5.484926, 2.324649),
    "language": (9.826164, 5.925326),
    "lock-step": (8.728868, 1.099163),
}


def fingerprint(name):
    run = execute([TRAININGS[name]], {})[0]
    weights = torch.cat([p.detach().flatten() for p in run.network().parameters()])
    return float(weights.norm()), run.loss


def test_numbers_belong_to_this_revision():
    assert REVISION == KNOWN_REVISION


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_gives_what_it_gave(name):
    found = fingerprint(name)
    assert found == pytest.approx(KNOWN[name], rel=2e-4), f"{name}: {found}"
