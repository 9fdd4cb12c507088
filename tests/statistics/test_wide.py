"""Features too many for a table in float64: by the Gram matrix of the group means."""

import numpy as np
import pytest
import torch

from lawscope.data.row_hash import hash_rows
from lawscope.errors import LawscopeError
from lawscope.statistics import class_scatter
from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.fuzziness import fuzziness
from lawscope.statistics.span import WIDE

D, CLASSES = WIDE + 300, 5


def draw(spread=1.0, samples=90, seed=0):
    """Classes whose weakest contrast is a hundred times weaker than the others."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(samples) % CLASSES
    means = torch.randn(CLASSES, D, generator=generator, dtype=torch.float64)
    means[1] = means[0] + 0.01 * means[1]
    noise = torch.randn(samples, D, generator=generator, dtype=torch.float64)
    return (means[y] + spread * noise).float(), y


def measure(x, y, strategy, folds=4, batch=17, shares=1):
    parts = [ClassScatter(strategy, folds=folds) for _ in range(shares)]

    def feed():
        for i in range(0, len(x), batch):
            parts[i // batch % shares].update(x[i : i + batch], y[i : i + batch])

    feed()
    first, *others = parts
    for other in others:
        first.merge(other)
    if strategy == "two-pass":
        first.next_pass()
        parts, shares = [first], 1
        feed()
    return first.compute()


def leave_out(x, y, folds=4):
    """D without each fold in turn, π_k those of all data, from the definition in float64."""
    which = hash_rows(x) % folds
    counts = torch.bincount(y).double()
    share = counts / counts.sum()
    found = []
    for j in which.unique().tolist():
        kept = (which != j) | torch.tensor([bool((which[y == k] == j).all()) for k in y])
        rows, labels = x[kept].double(), y[kept]
        means = torch.stack([rows[labels == k].mean(dim=0) for k in range(CLASSES)])
        between = share.sqrt()[:, None] * (means - share @ means)
        inverse = torch.linalg.pinv(between @ between.T, rtol=1e-12)
        # Tr(SSw SSb⁺) with SSb = BᵀB, SSb⁺ = Bᵀ (BBᵀ)⁺² B.
        deviations = (rows - means[labels]) @ between.T @ inverse
        weights = (share / torch.bincount(labels))[labels]
        found.append(float(weights @ deviations.square().sum(dim=1)))
    return np.array(found)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
# Samples close to their class means, where rounding of the means themselves would show.
@pytest.mark.parametrize(("spread", "close"), [(1.0, 1e-6), (0.01, 1e-5)])
def test_it_is_d_and_d_without_each_fold(strategy, close, shift, spread):
    x, y = draw(spread)
    x = x + shift
    found = measure(x, y, strategy)
    assert found.value == pytest.approx(fuzziness(x, y), rel=close)
    assert found.deleted == pytest.approx(leave_out(x, y), rel=close)
    assert (found.rank, found.dim) == (CLASSES - 1, D)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
def test_narrow_and_wide_give_all_the_same(strategy, monkeypatch):
    x, y = draw()
    wide = measure(x, y, strategy)
    monkeypatch.setattr(class_scatter, "WIDE", 2 * D)
    narrow = measure(x, y, strategy)
    for name, value in vars(narrow).items():
        # A contrast is a difference of products as large as D, the squared length of a row.
        assert getattr(wide, name) == pytest.approx(value, rel=1e-6, abs=1e-9 * D), name


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("strategy", ["held", "two-pass"])
def test_activations_that_vanish_or_explode(strategy, scale):
    x, y = draw()
    expected = fuzziness(x.double() * scale, y)
    assert measure(x * scale, y, strategy).value == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
@pytest.mark.parametrize(("batch", "shares"), [(1, 1), (40, 1), (7, 3)])
def test_batches_and_merging_do_not_matter(strategy, batch, shares):
    x, y = draw()
    whole, split = measure(x, y, strategy, batch=90), measure(x, y, strategy, 4, batch, shares)
    assert split.value == pytest.approx(whole.value, rel=1e-6)
    assert split.deleted == pytest.approx(whole.deleted, rel=1e-6)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
def test_sums_of_wide_float64_stay_in_float64(strategy):
    x, y = draw()
    assert measure(x.double(), y, strategy).value == pytest.approx(fuzziness(x, y), rel=1e-9)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
def test_two_classes_with_the_same_mean_are_a_rank_less(strategy):
    x, y = draw(samples=100)
    x[y == 1] = x[y == 0].flip(0)
    found = measure(x, y, strategy, folds=1)
    assert found.rank == CLASSES - 2
    assert found.value == pytest.approx(fuzziness(x.double(), y), rel=1e-4)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
def test_class_means_and_states(strategy):
    x, y = draw()
    first = ClassScatter(strategy, folds=2)
    first.update(x, y)
    again = ClassScatter(strategy, folds=2)
    again.load_state_dict(first.state_dict())
    for stat in (first, again):
        stat.next_pass()
        means = stat.class_means()
        for label, mean in zip(stat.classes, means, strict=True):
            assert torch.allclose(mean, x[y == label].double().mean(dim=0), atol=1e-6)
        if strategy == "two-pass":
            stat.update(x, y)
    assert again.compute().value == pytest.approx(first.compute().value, rel=1e-12)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
def test_nan_is_found(strategy):
    x, y = draw()
    x[3, 7] = torch.nan
    stat = ClassScatter(strategy)
    stat.update(x, y)
    assert not stat.finite
    with pytest.raises(LawscopeError):
        stat.compute()
