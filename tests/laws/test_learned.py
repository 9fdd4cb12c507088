"""Whether a network has learned its data: accuracy, chance, and what cannot be known."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import lawscope as ls
from lawscope.laws.learned import AnswerCount, accuracy_interval, has_learned

COUNTS = np.array([50, 50, 100])


@pytest.mark.parametrize(
    ("accuracy", "untrained", "expected"),
    [
        (0.9, math.nan, True),
        (0.5, math.nan, False),  # the share of the largest class
        (0.58, math.nan, False),  # above it, not well
        (0.9, 0.5, True),
        (0.9, 0.88, False),
        (math.nan, 0.5, None),
    ],
)
def test_accuracy_must_be_well_above_chance_and_above_the_control(accuracy, untrained, expected):
    assert has_learned(accuracy, COUNTS, untrained) is expected


def test_few_samples_are_not_enough_to_know():
    few = np.array([2, 2])
    assert accuracy_interval(1.0, few)[0] < 0.55
    assert has_learned(1.0, few) is False
    assert has_learned(1.0, 10 * few) is True


def test_answers_are_counted_over_batches_and_named_logits():
    torch.manual_seed(0)
    scores, labels = torch.randn(60, 3), torch.randint(0, 3, (60,))
    count = AnswerCount()
    for part in range(0, 60, 20):
        output = {"loss": torch.zeros(()), "logits": scores[part : part + 20]}
        count.update(output, labels[part : part + 20])
    expected = float((scores.argmax(dim=1) == labels).float().mean())
    assert count.accuracy(np.arange(3), labels.bincount().numpy()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("output", "classes"),
    [
        (torch.zeros(4, 5, 6), [0, 1]),  # a score per position
        (torch.zeros(4, 1), [0, 1]),  # one row
        (torch.zeros(4), [0, 1]),
        (torch.zeros(4, 2), [1, 2]),  # labels beyond the rows
        (torch.zeros(4, 64), [0, 1]),  # features, or a head at chance
        ("words", [0, 1]),
    ],
)
def test_an_output_that_does_not_score_the_classes_has_no_accuracy(output, classes):
    count = AnswerCount()
    count.update(output, torch.tensor([classes[0]] + [classes[1]] * 3))
    assert math.isnan(count.accuracy(np.array(classes), np.array([1, 3])))


def test_a_wide_head_well_above_chance_counts():
    count = AnswerCount()
    labels = torch.arange(40) % 2
    count.update(torch.eye(1000)[labels], labels)
    assert count.accuracy(np.arange(2), np.array([20, 20])) == 1.0


@pytest.mark.parametrize("settings", [{}, {"strategy": "two-pass"}, {"memory": "50kB"}])
def test_the_accuracy_of_separation_is_that_of_one_plain_pass(settings):
    torch.manual_seed(0)
    y = torch.arange(300) % 3
    x = torch.randn(300, 20) + torch.eye(3, 20)[y]
    model = nn.Sequential(
        nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 3)
    )
    plain = float((model(x).argmax(dim=1) == y).float().mean())
    found = ls.separation(model, list(zip(x.split(70), y.split(70), strict=True)), **settings)
    assert found.accuracy == pytest.approx(plain)
    assert f"accuracy {100 * plain:.1f}" in found.section().facts[0]
    assert ls.Separation.from_dict(found.to_dict()).accuracy == found.accuracy


def test_class_names_that_are_not_text_can_be_printed_and_drawn():
    y = torch.arange(60) % 3
    x = torch.randn(60, 5) + 3 * torch.eye(3, 5)[y]
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    found = ls.separation(model, (x, y), class_names=["caf\udce9", "b", "c"])
    assert found.class_names == ("caf?", "b", "c")
    found.plot().figure.canvas.draw()
    assert "caf?" in found._repr_html_()
