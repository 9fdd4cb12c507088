"""Labels of every kind are classes, and what is not classes is said to be so."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from tests.laws.toy_law import SIZES
from torch import nn
from torch.utils.data import DataLoader

import lawscope as ls
from lawscope.errors import LawscopeError, LawscopeWarning, NotApplicableError
from lawscope.laws import registry
from lawscope.statistics.class_scatter import ClassScatter

pytestmark = pytest.mark.filterwarnings("ignore::lawscope.errors.LawscopeWarning")

torch.manual_seed(0)
Y = torch.arange(90) % 3
X = torch.randn(90, 6) + 2 * torch.eye(6)[Y]
NAMES = ("ant", "bee", "cat")
TEXT = np.array(NAMES)[Y.numpy()]
LABELS = {
    "float": Y.float(),
    "float16": Y.half(),
    "float column": Y[:, None].float(),
    "numpy float64": Y.numpy().astype(float),
    "list of floats": Y.double().tolist(),
    "uint16": Y.numpy().astype(np.uint16),
    "big-endian": Y.numpy().astype(">i4"),
    "object": Y.numpy().astype(object),
    "one-hot": torch.eye(3)[Y],
    "one-hot integers": torch.eye(3, dtype=torch.int64)[Y],
    "one-hot bool": np.eye(3, dtype=bool)[Y],
    "pandas": pd.Series(Y.numpy(), index=range(90, 0, -1)),
    "pandas one-hot": pd.get_dummies(TEXT),
    "digits": [str(int(label)) for label in Y],
}
TEXTS = {
    "list": TEXT.tolist(),
    "tuple": tuple(TEXT.tolist()),
    "array": TEXT,
    "object": TEXT.astype(object),
    "bytes": TEXT.astype("S"),
    "pandas": pd.Series(TEXT),
    "pandas categories": pd.Series(TEXT).astype("category"),
    "Categorical": pd.Categorical(TEXT),
}


def network(rows=3):
    torch.manual_seed(1)
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, rows)]
    return nn.Sequential(*layers)


def batches(labels):
    """Return three batches, in which the text comes in another order each."""
    labels = labels if isinstance(labels, torch.Tensor | list | tuple) else np.array(labels)
    return [(X[i : i + 31], labels[i : i + 31]) for i in (0, 31, 62)]


@pytest.mark.parametrize("form", [lambda y: (X, y), lambda y: [(X, y)], batches])
@pytest.mark.parametrize("kind", [*LABELS, *(f"text {kind}" for kind in TEXTS)])
def test_labels_of_every_kind_are_classes(kind, form):
    text = kind.removeprefix("text ")
    labels = LABELS[kind] if kind in LABELS else TEXTS[text]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", LawscopeWarning)
        separation = ls.separation(network(), form(labels))
        collapse = ls.collapse(network(), form(labels))
    plain = ls.separation(network(), form(Y))
    np.testing.assert_array_equal(separation.values, plain.values)
    assert separation.classes.tolist() == [0, 1, 2]
    assert separation.accuracy == plain.accuracy
    assert collapse.accuracy == ls.collapse(network(), form(Y)).accuracy
    expected = NAMES if kind not in LABELS else ("0", "1", "2")
    assert separation.class_names == collapse.class_names == expected


def test_a_table_of_inputs_is_told_to_become_numbers():
    with pytest.raises(LawscopeError, match=r"is a DataFrame; pass .*to_numpy\('float32'\), y"):
        ls.separation(network(), (pd.DataFrame(X.numpy()), pd.Series(Y.numpy())))


@pytest.mark.parametrize("kind", LABELS)
def test_a_loss_that_takes_class_numbers_gets_them(kind):
    plain = ls.elasticity(network(), (X, Y), nn.CrossEntropyLoss(), probes=3)
    found = ls.elasticity(network(), (X, LABELS[kind]), nn.CrossEntropyLoss(), probes=3)
    np.testing.assert_allclose(found.classwise, plain.classwise, rtol=1e-9)


def test_zeros_and_ones_of_a_binary_loss_are_classes():
    y = (Y > 0).float()
    found = ls.scan(network(rows=1), (X, y))
    np.testing.assert_array_equal(
        found.separation.values, ls.separation(network(rows=1), (X, y.long())).values
    )
    assert "has one row" in found.skipped["collapse"]
    assert found.separation.classes.tolist() == [0, 1]
    assert ls.separation(network(), (X, y > 0)).classes.tolist() == [0, 1]


def test_text_of_a_shuffling_loader_is_numbered_in_its_own_order():
    loader = DataLoader(
        list(zip(X.double(), TEXT.tolist(), strict=True)),
        batch_size=20,
        shuffle=True,
        generator=torch.Generator().manual_seed(3),
    )
    found = ls.separation(network().double(), loader)
    plain = ls.separation(network().double(), (X.double(), Y))
    assert found.class_names == NAMES
    assert found.accuracy == plain.accuracy
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-9)


def test_names_that_are_given_place_text_or_rename_it():
    order = ("dog", "cat", "bee", "ant")
    found = ls.collapse(network(rows=4), (X, TEXT), class_names=order)
    numbers = torch.tensor([3, 2, 1])[Y]
    assert found.classes.tolist() == [1, 2, 3]
    assert found.class_names == ("cat", "bee", "ant")
    assert found.accuracy == ls.collapse(network(rows=4), (X, numbers)).accuracy
    assert ls.separation(network(), (X, TEXT), class_names=["Ant", "Bee", "Cat"]).class_names == (
        "Ant",
        "Bee",
        "Cat",
    )


def test_text_says_nothing_about_rows_of_a_wider_head():
    found = ls.scan(network(rows=5), (X, TEXT))
    assert "give class_names= in the order of the rows" in found.skipped["collapse"]
    assert found.separation.class_names == NAMES


@pytest.fixture
def toy_law():
    registry.register(SIZES)
    yield SIZES.name
    del registry._LAWS[SIZES.name]


torch.manual_seed(2)
REGRESSION = "The targets look like a regression"
OTHER_TARGETS = {
    "floats": (1, torch.rand(90), REGRESSION),
    "column of floats": (1, torch.rand(90, 1), REGRESSION),
    "ages": (1, torch.randint(18, 80, (90,)), REGRESSION),
    "ages as floats": (1, torch.randint(18, 80, (90,)).float(), REGRESSION),
    "three numbers": (3, torch.randn(90, 3), REGRESSION),
    "multi-hot": (3, (torch.rand(90, 3) > 0.4).float(), "The targets look like multi-label"),
    "multi-hot integers": (3, (torch.rand(90, 3) > 0.4).long(), "look like multi-label"),
}


@pytest.mark.parametrize("form", [lambda y: (X, y), batches])
@pytest.mark.parametrize("kind", OTHER_TARGETS)
def test_targets_that_are_not_classes_are_said_to_be_so(kind, form, toy_law):
    rows, targets, sentence = OTHER_TARGETS[kind]
    for measure in (ls.separation, ls.collapse):
        with pytest.raises(NotApplicableError, match=sentence) as error:
            measure(network(rows), form(targets))
        assert f"{measure.__name__} needs one class per sample" in str(error.value)
        assert "argmax" not in str(error.value)
    found = ls.scan(network(rows), form(targets), loss=lambda out, _: out.square().mean())
    assert list(found.results) == ["symmetry", "alignment", "conservation", toy_law]
    assert all(sentence in found.skipped[law] for law in ("separation", "collapse"))


def test_ages_that_come_one_at_a_time_are_found_out():
    data = [(X[i : i + 1], torch.tensor([18 + i])) for i in range(5)]
    with pytest.raises(NotApplicableError, match="3 values or more"):
        ls.separation(network(rows=1), data)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([*TEXT[:89].tolist(), None], "mix text with None"),
        ([*TEXT[:89].tolist(), 1.5], "mix text with 1.5"),
        (pd.Series([*TEXT[:89], None]), "mix text with nan"),
        (torch.full((90,), torch.nan), "90 of the labels are NaN"),
        (Y + 0j, "are complex"),
        (np.zeros(90, dtype="M8[s]"), "neither numbers nor text"),
        (Y.numpy().astype(np.uint64) + 2**63, "2⁶³ or more"),
        (np.ma.masked_equal(Y.numpy(), 1), "masked"),
    ],
)
def test_labels_that_say_nothing_are_a_sentence(labels, sentence):
    with pytest.raises(LawscopeError, match=sentence):
        ls.separation(network(), (X, labels))
    with pytest.raises(LawscopeError, match=sentence):
        ls.fuzziness(X, labels)


UNUSUAL = {
    "masked": lambda: np.ma.masked_less(X.numpy(), -1),
    "sparse": X.to_sparse,
    "sparse rows": X.to_sparse_csr,
    "meta": lambda: X.to("meta"),
    "nested": lambda: torch.nested.nested_tensor(list(X)),
}


@pytest.mark.filterwarnings("ignore:.* is in (prototype|beta) sta:UserWarning")
@pytest.mark.parametrize("kind", UNUSUAL)
def test_arrays_without_plain_numbers_are_a_sentence(kind):
    features, said = UNUSUAL[kind](), kind.partition(" ")[0]
    for measure in (
        lambda: ls.separation(network(), (features, Y)),
        lambda: ls.separation(network(), [(features, Y)]),
        lambda: ls.fuzziness(features, Y),
        lambda: ls.prediction_residual(features, Y),
    ):
        with pytest.raises(LawscopeError, match=said):
            measure()
    for labels in () if kind == "masked" else (features,):
        with pytest.raises(LawscopeError, match=said):
            ls.fuzziness(X, labels)


@pytest.mark.parametrize(
    "read",
    [
        lambda: ls.collapse_outlook(np.ma.masked_equal(Y.numpy(), 1)),
        lambda: ls.peel(np.ma.masked_equal([9, 9, 90], 9)),
        lambda: ls.advise_depth((np.ma.masked_less(X.numpy(), 0), Y.numpy())),
    ],
)
def test_nothing_that_is_masked_counts(read):
    with pytest.raises(LawscopeError, match="masked"):
        read()


def test_large_numbers_without_a_sign_keep_their_size():
    steps = (100 * X).round().numpy().astype(np.int64)
    # Half of them are beyond what int64 can hold, and would be negative.
    across = steps.astype(object) * 2**50 + 2**63
    expected = ls.fuzziness(across.astype(float), Y)
    assert ls.fuzziness(across.astype(np.uint64), Y) == expected


def test_text_that_cannot_be_put_in_order_is_a_sentence():
    with pytest.raises(LawscopeError, match="cannot be read twice to put them in order"):
        ls.separation(network(), iter(batches(TEXT)))
    with pytest.raises(LawscopeError, match="labels of some batches are text"):
        ls.separation(network(), [(X, TEXT), (X, Y)])
    with pytest.raises(LawscopeError, match="whose order other batches may change"):
        ClassScatter().update(X, TEXT)


def test_big_endian_data_is_taken():
    features = X.numpy().astype(">f4")
    plain = ls.separation(network(), (X, Y)).values
    np.testing.assert_array_equal(ls.separation(network(), (features, Y)).values, plain)
    assert ls.fuzziness(features, TEXT) == ls.fuzziness(X, Y)
