from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lawscope.errors import LawscopeError
from lawscope.zoo.images.sampling import as_drawn, balanced


@st.composite
def draws(draw: st.DrawFn) -> tuple[Any, Any, list[int], int]:
    """Examples numbered 0, 1, 2, …, their shuffled labels, counts that can be had, and a seed."""
    available = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    counts = [draw(st.integers(0, size)) for size in available]
    seed = draw(st.integers(0, 2**32))
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(available)), available))
    return np.arange(len(y)), y, counts, seed


@given(draws())
def test_exact_counts_without_repeats_and_labels_still_fit(
    case: tuple[Any, Any, list[int], int],
) -> None:
    x, y, counts, seed = case
    drawn, labels = balanced(x, y, counts, seed)
    assert np.bincount(labels, minlength=len(counts)).tolist() == counts
    assert len(set(drawn.tolist())) == len(drawn)
    np.testing.assert_array_equal(labels, y[drawn])
    np.testing.assert_array_equal(balanced(x, y, counts, seed)[0], drawn)


@given(draws(), st.data())
def test_smaller_draws_are_nested_in_larger_ones(
    case: tuple[Any, Any, list[int], int], data: st.DataObject
) -> None:
    x, y, counts, seed = case
    fewer = [data.draw(st.integers(0, count)) for count in counts]
    assert set(balanced(x, y, fewer, seed)[0]) <= set(balanced(x, y, counts, seed)[0])


def test_one_number_stands_for_every_class() -> None:
    y = np.arange(60) % 3
    for per_class in (7, np.int64(7), (7, 7, 7), np.array([7, 7, 7])):
        drawn, labels = balanced(np.arange(60), y, per_class, seed=5)  # type: ignore[arg-type]
        assert np.bincount(labels).tolist() == [7, 7, 7]
        np.testing.assert_array_equal(drawn, balanced(np.arange(60), y, 7, seed=5)[0])


def test_the_order_is_mixed_and_seeds_differ() -> None:
    x, y = np.arange(400), np.repeat([0, 1], 200)
    drawn, labels = balanced(x, y, 100, seed=0)
    assert 30 < np.count_nonzero(np.diff(labels)) < 170
    assert set(drawn) != set(balanced(x, y, 100, seed=1)[0])


@pytest.mark.parametrize(
    ("per_class", "sentence"),
    [
        (3, "class 1 has 2 examples, 3 were asked for: ask for 0 to 2"),
        ([1, 1, 1, 1], "class 2 has 0 examples, 1 were asked for"),
        ([1, -1, 0, 1], "class 1 has 2 examples, -1 were asked for"),
        ([1, 1], "2 numbers were given for 4 classes"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(per_class: Any, sentence: str) -> None:
    y = np.array([0, 0, 0, 1, 1, 3, 3, 3])
    with pytest.raises(LawscopeError, match=sentence):
        balanced(np.arange(8), y, per_class, seed=0)


@pytest.mark.parametrize(("examples", "labels"), [(3, 4), (0, 0)])
def test_lengths_must_agree(examples: int, labels: int) -> None:
    with pytest.raises(LawscopeError, match=f"{examples} examples and {labels} labels"):
        balanced(np.zeros(examples), np.zeros(labels, np.int64), 1, seed=0)


@given(draws())
def test_the_order_of_a_draw_has_every_sample_once(case: tuple[Any, Any, list[int], int]) -> None:
    _, y, _, seed = case
    assert sorted(as_drawn(y, seed)) == list(range(len(y)))


def test_classes_come_evenly_until_they_are_full() -> None:
    y = np.repeat(np.arange(10), 100)
    batches = [y[as_drawn(y, seed)].reshape(10, 100) for seed in range(200)]
    counts = np.array([[np.bincount(batch, minlength=10) for batch in draw] for draw in batches])
    # In the first batch the count of a class is binomial: 100 draws of probability 1/10.
    assert abs(counts[:, 0].mean() - 10) < 0.1
    assert abs(counts[:, 0].std() - 3) < 0.2
    # Whoever draws until all are full ends with the classes that came least.
    assert counts[:, -1].std() > 2 * counts[:, 0].std()
