"""Slow, independent computations that the package is held against."""

import torch


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


def deal(folds):
    """Folds in the order in which one class's samples are dealt to them, one by one."""
    for per_fold, run in ((8, 1), (24, 2), (96, 4), (384, 8)):
        for _ in range(per_fold // run):
            for fold in range(folds):
                yield from [fold] * run
    while True:
        for fold in range(folds):
            yield from [fold] * 16


def folds_of(labels, folds):
    """The fold of every sample."""
    dealers = {label: deal(folds) for label in set(labels.tolist())}
    return torch.tensor([next(dealers[label]) for label in labels.tolist()])


def deleted_fuzziness(features, labels, folds):
    """Fuzziness with each fold left out, measured from scratch with the weights of all data."""
    fold, weights = folds_of(labels, folds), shares(labels)
    return [
        fuzziness(features[fold != j], labels[fold != j], weights)
        for j in range(folds)
        if (fold == j).any()
    ]
