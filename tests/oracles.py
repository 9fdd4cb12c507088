"""Slow, independent computations that the package is held against."""

import torch

from lawscope.data.row_hash import hash_rows


def fuzziness(features, labels, weighting="count"):
    """The definition, word for word: d×d matrices, pseudo-inverse, float64.

    ``weighting`` is "count", "class", or the weight of each class by its label.
    """
    x = features.reshape(len(features), -1).double()
    y = labels
    classes = y.unique()
    d = x.shape[1]
    between = torch.zeros(d, d, dtype=torch.float64)
    within = torch.zeros(d, d, dtype=torch.float64)
    weights = weighting
    if weighting == "count":
        weights = shares(y)
    elif weighting == "class":
        weights = {int(k): 1 / len(classes) for k in classes}
    centre = sum(weights[int(k)] * x[y == k].mean(0) for k in classes)
    for k in classes:
        mine = x[y == k]
        mean = mine.mean(0)
        between += weights[int(k)] * torch.outer(mean - centre, mean - centre)
        within += weights[int(k)] * (mine - mean).T @ (mine - mean) / len(mine)
    return float(torch.trace(within @ torch.linalg.pinv(between, rtol=1e-11, hermitian=True)))


def shares(labels):
    """n_k/n of every class, by its label."""
    return {int(k): float((labels == k).sum()) / len(labels) for k in labels.unique()}


def folds_of(features, folds):
    """The fold of every sample, dealt by its own content."""
    return torch.stack([hash_rows(row[None])[0] % folds for row in features])


def deleted_fuzziness(features, labels, folds):
    """Fuzziness with each fold left out, measured from scratch with the weights of all data."""
    fold, weights = folds_of(features, folds), shares(labels)
    return [
        fuzziness(features[fold != j], labels[fold != j], weights)
        for j in range(folds)
        if (fold == j).any()
    ]
