"""Settings of another type or number are sentences, as early as can be."""

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import lawscope as ls
from lawscope.errors import LawscopeError

CASE = cases.CASES[0]
NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize("measure", [ls.separation, ls.scan])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"stations": 3}, "stations=3 is not known; choose 'layers'"),
        ({"stations": None}, "stations=None is not known"),
        ({"stations": [3]}, r"stations=\[3\] is not known"),
        ({"stations": (n for n in ["input"])}, "stations=<generator .* is not known"),
        ({"class_names": 3}, "class_names=3 is no list of names"),
        ({"class_names": "abcd"}, "class_names='abcd' is no list"),
        ({"class_names": dict(enumerate(NAMES))}, "is no list"),
        ({"class_names": np.array("a")}, "is no list"),
        ({"class_names": iter(NAMES)}, "is no list"),
    ],
)
def test_another_type_is_a_sentence(measure, settings, sentence):
    with pytest.raises(LawscopeError, match=sentence):
        measure(CASE.model(), list(CASE.batches()), **settings)


@pytest.mark.parametrize("folds", ["x", 2.5, None, [4]])
def test_folds_are_a_whole_number(folds):
    with pytest.raises(LawscopeError, match=r"folds=.* is not a whole number; use one of at least"):
        ls.separation(CASE.model(), list(CASE.batches()), folds=folds)


def test_what_is_a_list_or_a_number_in_other_clothes_is_taken():
    data = list(CASE.batches())
    plain = ls.separation(CASE.model(), data, stations=["input", "2"], folds=4, class_names=NAMES)
    other = ls.separation(
        CASE.model(),
        data,
        stations=np.array(["input", "2"]),
        folds=np.int64(4),
        class_names=np.array(NAMES),
    )
    assert other.to_dict()["settings"]["selector"] == ["input", "2"]
    assert other.class_names == plain.class_names == ("a", "b", "c", "d")
    assert all(type(name) is str for name in other.class_names)
    assert other.interval == pytest.approx(plain.interval)


class Counting(nn.Module):
    """Counts the samples that pass through."""

    def __init__(self):
        super().__init__()
        self.inner, self.samples = CASE.model(), 0

    def forward(self, x):
        self.samples += len(x)
        return self.inner(x)


def by_class():
    """All samples sorted by label, fifteen of each class."""
    order = cases.labels().argsort(stable=True)
    return TensorDataset(cases.vectors()[order], cases.labels()[order])


@pytest.mark.parametrize("measure", [ls.separation, ls.scan])
@pytest.mark.parametrize(
    ("data", "samples"),
    [
        ((cases.vectors(), cases.labels()), 11),
        (list(DataLoader(by_class(), batch_size=15)), 11),
        (DataLoader(TensorDataset(cases.vectors(), cases.labels()), batch_size=15), 11),
        (DataLoader(by_class(), batch_size=15), 11 + cases.SAMPLES),
    ],
    ids=["pair", "list", "first batch", "first pass"],
)
def test_too_few_names_are_noticed_early(measure, data, samples):
    model = Counting()
    with pytest.raises(LawscopeError, match=r"There are 2 class names for .*; give one per class"):
        measure(model, data, class_names=["a", "b"], memory="3KB", uncertainty=None)
    # A scan also looks for the head with a few samples.
    assert model.samples in (samples, samples + 11)


def test_more_names_than_labels_can_index_are_noticed_after_the_first_pass():
    model, data = Counting(), (cases.vectors(), 10 * cases.labels())
    with pytest.raises(LawscopeError, match="5 class names for 4 classes"):
        ls.separation(model, data, class_names=[*NAMES, "e"], strategy="two-pass")
    assert model.samples == 11 + cases.SAMPLES


def test_a_sampler_may_show_fewer_classes_than_its_data_has():
    rows = torch.nonzero(cases.labels() < 2)[:, 0].tolist()
    dataset = TensorDataset(cases.vectors(), cases.labels())
    loader = DataLoader(dataset, batch_size=9, sampler=SubsetRandomSampler(rows))
    result = ls.separation(CASE.model(), loader, class_names=["a", "b"])
    assert result.class_names == ("a", "b")


def test_a_sentence_for_each_kind_of_interval_that_cannot_be():
    net = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(6, 6), nn.Tanh())])
    y = torch.arange(8) % 4
    data = (cases.vectors(8), y)
    jack = ls.separation(net, data)
    assert "with a fold left out, no class has two" in jack.reason
    boot = ls.separation(net, data, uncertainty="bootstrap")
    assert boot.verdict == "cannot be told"
    assert "in some resamples every class is one sample" in boot.reason
    assert "fold" not in boot.reason
