"""Every strategy, split and merge order gives the definition's value."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracles

import lawscope as ls
from lawscope.data.row_hash import hash_rows
from lawscope.errors import LawscopeError
from lawscope.laws.population import jackknife
from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.folds import GroupIndex
from lawscope.statistics.memory import STRATEGIES


@st.composite
def labelled(draw, dtype=torch.float64):
    """Features with class structure, any integer labels, balanced or not."""
    seed = draw(st.integers(0, 2**32 - 1))
    dim = draw(st.integers(1, 12))
    counts = draw(st.lists(st.integers(1, 15), min_size=2, max_size=5).filter(lambda c: max(c) > 1))
    some, k = st.integers(-(2**40), 2**40), len(counts)
    names = draw(st.lists(some, min_size=k, max_size=k, unique=True))
    generator = torch.Generator().manual_seed(seed)
    y = torch.cat([torch.full((n,), name) for n, name in zip(counts, names, strict=True)])
    centres = torch.randn(len(counts), dim, generator=generator, dtype=torch.float64)
    groups = torch.cat([torch.full((n,), k) for k, n in enumerate(counts)])
    x = centres[groups] + torch.randn(len(y), dim, generator=generator, dtype=torch.float64)
    order = torch.randperm(len(y), generator=generator)
    return x[order].to(dtype), y[order]


def feed(stat, x, y, cuts):
    """Update batch by batch, and once more where a second pass is due."""
    passes = 2 if stat.strategy == "two-pass" else 1
    for number in range(passes):
        if number:
            stat.next_pass()
        for xs, ys in zip(torch.tensor_split(x, cuts), torch.tensor_split(y, cuts), strict=True):
            if len(ys):
                stat.update(xs, ys)
    return stat


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("weighting", ["count", "class"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_split_gives_the_definition(strategy, weighting, data):
    x, y = data.draw(labelled())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(y)), max_size=4)))
    result = feed(ClassScatter(strategy, weighting=weighting), x, y, cuts).compute()
    expected = oracles.fuzziness(x, y, weighting)
    assert result.value == pytest.approx(expected, rel=1e-7)
    shares = result.counts / result.counts.sum() if weighting == "count" else 1 / len(result.counts)
    assert (shares * result.classwise).sum() == pytest.approx(result.value, rel=1e-12)
    assert result.classes.tolist() == sorted(set(y.tolist()))
    assert ls.fuzziness(x, y, weighting=weighting) == pytest.approx(result.value, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), offset=st.floats(-1e3, 1e3), scale=st.floats(1e-3, 1e3))
def test_invariances(data, offset, scale):
    """Translation, rotation, one common scale, sample order and class names change nothing."""
    x, y = data.draw(labelled())
    value = ls.fuzziness(x, y)
    turn, _ = torch.linalg.qr(torch.randn(x.shape[1], x.shape[1], dtype=torch.float64))
    order = torch.randperm(len(y))
    moved = (x + offset, y), (x @ turn, y), (x * scale, y)
    for same_x, same_y in (*moved, (x[order], y[order]), (x, -3 * y + 1)):
        assert ls.fuzziness(same_x, same_y) == pytest.approx(value, rel=1e-6)


def test_a_general_linear_map_does_change_it():
    torch.manual_seed(0)
    y = torch.arange(60) % 3
    x = torch.randn(60, 5, dtype=torch.float64) + torch.randn(3, 5, dtype=torch.float64)[y]
    stretched = x * torch.tensor([100.0, 1, 1, 1, 1])
    assert abs(ls.fuzziness(stretched, y) / ls.fuzziness(x, y) - 1) > 0.05


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
@pytest.mark.parametrize("dim", [3, 40])
def test_folds_left_out_equal_measuring_again(strategy, dtype, rel, dim):
    generator = torch.Generator().manual_seed(dim)
    y = torch.randint(0, 4, (150,), generator=generator)
    x = torch.randn(150, dim, generator=generator) + torch.randn(4, dim, generator=generator)[y]
    x = x.to(dtype)
    found = feed(ClassScatter(strategy, folds=5), x, y, [40, 41, 90]).compute()
    assert found.deleted == pytest.approx(oracles.deleted_fuzziness(x, y, 5), rel=rel)
    sizes = oracles.folds_of(x, 5).bincount(minlength=5)
    assert found.ratios == pytest.approx(150 / sizes.numpy())


def test_groups_keep_their_numbers_and_folds_come_from_content_alone():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (9000,), generator=generator)
    hashes = hash_rows(torch.randn(9000, 2, generator=generator))
    index, again = GroupIndex(folds=4), GroupIndex(folds=4)
    parts = zip(labels.split(97), hashes.split(97), strict=True)
    groups = torch.cat([index.assign(*part) for part in parts])
    order = torch.randperm(9000, generator=generator)
    shuffled = again.assign(labels[order], hashes[order])
    assert torch.equal(groups % 4, hashes % 4)
    assert torch.equal(groups[order] % 4, shuffled % 4)
    for dealt, known, fed in ((groups, index, labels), (shuffled, again, labels[order])):
        assert torch.equal(torch.tensor(known.classes)[dealt // 4], fed)
    counts = groups.bincount(minlength=12).view(3, 4)
    assert (counts.amax(1) <= 1.25 * counts.amin(1)).all()
    with pytest.raises(LawscopeError, match="pass a hash of every sample"):
        index.assign(labels)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("folds", [2, 8])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_neither_order_nor_batches_nor_strategy_change_what_intervals_are_made_of(
    strategy, folds, data
):
    x, y = data.draw(labelled())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(y)), max_size=4)))
    order = torch.tensor(data.draw(st.permutations(range(len(y)))))
    plain = feed(ClassScatter("held", folds), x, y, []).compute()
    other = feed(ClassScatter(strategy, folds), x[order], y[order], cuts).compute()
    assert other.ratios.tolist() == plain.ratios.tolist()
    assert other.growth == pytest.approx(plain.growth, rel=1e-12)
    assert other.deleted == pytest.approx(plain.deleted, rel=1e-9, nan_ok=True)
    assert other.unbiased == pytest.approx(plain.unbiased, rel=1e-9, nan_ok=True)
    # A least eigenvalue is as exact as the largest.
    size = float(x.square().sum())
    assert other.contrasts == pytest.approx(
        plain.contrasts, rel=1e-9, abs=1e-13 * size, nan_ok=True
    )


def test_a_class_too_small_for_the_folds_stays_whole():
    x = torch.randn(31, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1] * 15 + [2])
    stat = feed(ClassScatter("held", folds=5), x, y, [])
    found = stat.compute()
    fold = oracles.folds_of(x, 5)
    for j, value in enumerate(found.deleted):
        kept = (fold != j) | (y == 2)
        expected = oracles.fuzziness(x[kept], y[kept], oracles.shares(y))
        assert value == pytest.approx(expected, rel=1e-9)
        assert found.ratios[j] == pytest.approx(31 / (~kept).sum())
    # It lies in a single fold, so that nothing is known of the noise in its mean.
    assert np.isnan(found.contrasts).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_interval_of_a_class_of_one_sample_is_near_its_value(strategy):
    """Left out, the others shrink and it does not: with weights of its own it would gain some."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 4
    x = torch.randn(400, 16, dtype=torch.float64, generator=generator)
    x += torch.randn(4, 16, dtype=torch.float64, generator=generator)[y]
    y[0] = 9
    part = feed(ClassScatter(strategy, folds=8), x, y, [100]).compute()
    found = jackknife(1 / part.unbiased[:, None], part.ratios, part.growth)
    assert abs(found.centre - 1 / part.value) < 2 * found.error


def test_a_large_mean_costs_no_digits():
    """Uncentred sums of squares would be off by percents here."""
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(300) % 3
    x = torch.randn(300, 6, dtype=torch.float64, generator=generator) + torch.eye(6)[y].double()
    exact = oracles.fuzziness(x, y)
    far = x + 1e7
    for strategy in STRATEGIES:
        value = feed(ClassScatter(strategy), far, y, [50, 200]).compute().value
        assert value == pytest.approx(exact, rel=1e-6)


def test_nearly_coinciding_means_are_resolved():
    generator = torch.Generator().manual_seed(2)
    y = torch.arange(400) % 4
    x = torch.randn(400, 8, dtype=torch.float64, generator=generator)
    x -= torch.stack([x[y == k].mean(0) for k in range(4)])[y]
    x += 1e-5 * torch.randn(4, 8, dtype=torch.float64, generator=generator)[y]
    assert ls.fuzziness(x, y) == pytest.approx(oracles.fuzziness(x, y), rel=1e-6)
    assert ls.fuzziness(x.float(), y) == pytest.approx(oracles.fuzziness(x.float(), y), rel=1e-6)


def test_a_merged_statistic_goes_on_as_if_it_had_seen_all():
    x, y = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 4
    first, second = ClassScatter(folds=8), ClassScatter(folds=8)
    first.update(x[:21], y[:21] % 3)
    second.update(x[21:40], y[21:40])
    first.merge(second)
    first.update(x[40:], y[40:])
    assert first.classes == [0, 1, 2, 3]
    whole = feed(ClassScatter(folds=8), x, torch.cat([y[:21] % 3, y[21:]]), []).compute()
    assert first.compute().deleted == pytest.approx(whole.deleted, rel=1e-9)
    assert first.compute().contrasts == pytest.approx(whole.contrasts, rel=1e-9)


def test_a_fold_that_leaves_no_spread_is_not_a_number():
    index, y = GroupIndex(2), torch.tensor([0, 1, 2, 3] * 2)
    stat = ClassScatter(index=index)
    stat.update_rows(torch.randn(8, 3), index.assign(y, torch.tensor([0] * 4 + [1] * 4)))
    assert np.isnan(stat.compute().deleted).all()


def test_float32_replicates_far_from_the_origin():
    """A shift rounded to float32 must not leak into the replicates."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(2000) % 10
    centres = torch.randn(10, 64, generator=generator)
    x = 1e3 + centres[y] + 0.003 * torch.randn(2000, 64, generator=generator)
    single = feed(ClassScatter("held", folds=4), x, y, []).compute()
    double = feed(ClassScatter("held", folds=4), x.double(), y, []).compute()
    assert single.deleted == pytest.approx(double.deleted, rel=2e-3)


def test_coinciding_means_are_not_a_number():
    both = torch.randn(10, 3, dtype=torch.float64)
    assert np.isnan(ls.fuzziness(torch.cat([both, both]), [0] * 10 + [1] * 10))
    y = torch.arange(12) % 3
    assert np.isnan(ls.fuzziness(torch.full((12, 4), 7.0), y))
    assert np.isnan(feed(ClassScatter("held"), torch.full((12, 4), 7.0), y, []).compute().value)


@pytest.mark.parametrize(
    ("features", "labels", "sentence"),
    [
        (torch.zeros(4, 2), [0, 0, 0, 0], "two classes"),
        (torch.zeros(3, 2), [0, 1, 2], "two samples"),
        (torch.zeros(4, 2), [0, 1], "4 samples in the batch"),
        (torch.zeros(4, 2), [0.0, 1.0, 0.5, 1.0], "look like a regression"),
        (torch.zeros(4, 2, dtype=torch.complex64), [0, 1, 0, 1], "complex"),
        (torch.tensor([[1.0], [float("nan")], [2.0], [3.0]]), [0, 1, 0, 1], "NaN"),
        (torch.zeros(0, 2), [], "no samples"),
        (torch.zeros(4, 0), [0, 1, 0, 1], "no columns"),
        ([["a"], ["b"]], [0, 1], "not an array of numbers"),
    ],
)
def test_bad_input_is_a_sentence(features, labels, sentence):
    with pytest.raises(LawscopeError, match=sentence):
        ls.fuzziness(features, labels)


def test_arrays_and_integers_are_welcome():
    rng = np.random.default_rng(0)
    pixels, y = rng.integers(0, 256, (30, 4, 4), dtype=np.uint8), np.arange(30) % 3
    expected = oracles.fuzziness(torch.from_numpy(pixels), torch.from_numpy(y))
    assert ls.fuzziness(pixels, y) == pytest.approx(expected, rel=1e-9)
    assert ls.fuzziness(pixels.tolist(), y.astype(np.uint32)) == pytest.approx(expected, rel=1e-9)


def test_misuse_is_a_sentence():
    with pytest.raises(LawscopeError, match="not one of"):
        ClassScatter("magic")
    with pytest.raises(LawscopeError, match="No samples"):
        ClassScatter().compute()
    narrow = ClassScatter()
    narrow.update(torch.randn(6, 2), torch.arange(6) % 2)
    with pytest.raises(LawscopeError, match="3 features and those before had 2"):
        narrow.update(torch.randn(6, 3), torch.arange(6) % 2)
    incomplete = ClassScatter("two-pass")
    incomplete.update(torch.randn(6, 2), torch.arange(6) % 2)
    with pytest.raises(LawscopeError, match="next_pass"):
        incomplete.compute()
    incomplete.next_pass()
    incomplete.update(torch.randn(5, 2), torch.arange(5) % 2)
    with pytest.raises(LawscopeError, match="second pass saw other samples"):
        incomplete.compute()
    lost = ClassScatter("two-pass")
    x, y = torch.randn(6, 2), torch.arange(6) % 2
    lost.update(x, y)
    lost.next_pass()
    lost.update(x.index_fill(0, torch.tensor([3]), torch.nan), y)
    with pytest.raises(LawscopeError, match="NaN or infinite there"):
        lost.compute()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dim", [20, 200])  # fewer features than groups, and more
def test_a_dead_layer_has_no_fuzziness_however_wide(strategy, dim):
    x, y = torch.full((100, dim), 3.3), torch.arange(100) % 10
    found = feed(ClassScatter(strategy, folds=8), x, y, []).compute()
    assert np.isnan(found.value)
    assert np.isnan(found.deleted).all()
    assert found.rank == 0


@pytest.mark.parametrize("scale", [1e160, 1e-160, 1e-200])
@pytest.mark.parametrize("strategy", ["held", "two-pass"])
def test_squares_that_float64_cannot_hold_change_nothing(strategy, scale):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 4, generator=generator, dtype=torch.float64), torch.arange(60) % 3

    def measure(rows):
        stat = ClassScatter(strategy, folds=4)
        # Folds go by content, which the scale changes.
        stat.update_rows(rows, stat.index.assign(y, torch.arange(60)))
        stat.next_pass()
        if strategy == "two-pass":
            stat.update_rows(rows, stat.index.assign(y, torch.arange(60)))
        return stat.compute()

    plain, scaled = measure(x), measure(x * scale)
    assert scaled.value == pytest.approx(plain.value, rel=1e-12)
    assert scaled.deleted == pytest.approx(plain.deleted, rel=1e-12)
