"""The weakest contrast of class means against means over pairs of samples."""

import numpy as np
import pytest
import torch

from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.folds import GroupIndex

FOLDS = 4


def least_eigenvalue(x, y, folds):
    """Build the scatter of class means, or their Gram matrix, from pairs of samples.

    About the mean of a class, pairs in different folds have minus the covariance of that mean.
    """
    classes, dim = len(np.unique(y)), x.shape[1]
    centring = np.eye(classes) - 1 / classes
    means = np.stack([x[y == k].mean(axis=0) for k in range(classes)])
    scatter, gram = means.T @ centring @ means, means @ means.T
    for k in range(classes):
        own = x[y == k] - means[k]
        apart = folds[y == k][:, None] != folds[y == k]
        noise = -own.T @ (apart / apart.sum()) @ own
        scatter -= centring[k, k] * noise
        gram[k, k] -= np.trace(noise)
    if dim < classes - 1:
        return np.linalg.eigvalsh(scatter)[0]
    vectors = np.linalg.eigh(centring)[1][:, 1:]
    return np.linalg.eigvalsh(vectors.T @ gram @ vectors)[0]


def measure(x, y, folds):
    index = GroupIndex(FOLDS)
    stat = ClassScatter(index=index)
    groups = index.assign(torch.from_numpy(y), torch.from_numpy(folds))
    stat.update_rows(torch.from_numpy(x), groups)
    return stat.compute().contrasts


def draw(dim):
    random = np.random.default_rng(dim)
    y = np.repeat(np.arange(5), [19, 29, 30, 41, 52])
    x = random.normal(size=(len(y), dim)) + random.normal(size=(5, dim))[y]
    return x, y, np.arange(len(y)) % FOLDS


@pytest.mark.parametrize("dim", [1, 3, 4, 9, 30])
def test_it_is_the_least_eigenvalue_in_the_span_of_the_class_means(dim):
    x, y, folds = draw(dim)
    kept = [folds >= 0, *(folds != fold for fold in range(FOLDS))]
    expected = [least_eigenvalue(x[rows], y[rows], folds[rows]) for rows in kept]
    assert measure(x, y, folds) == pytest.approx(np.array(expected))


def test_neither_the_order_nor_an_offset_changes_it():
    x, y, folds = draw(9)
    order = np.random.default_rng(0).permutation(len(y))
    expected = pytest.approx(measure(x, y, folds), rel=1e-9)
    assert measure(x[order], y[order], folds[order]) == expected
    assert measure(x + 100, y, folds) == expected
