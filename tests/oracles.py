"""Slow, independent computations that the package is held against."""

import torch


def fuzziness(features, labels, weighting="count"):
    """The definition, word for word: d×d matrices, pseudo-inverse, float64."""
    x = features.reshape(len(features), -1).double()
    y = labels
    classes = y.unique()
    n, d = x.shape
    between = torch.zeros(d, d, dtype=torch.float64)
    within = torch.zeros(d, d, dtype=torch.float64)
    weights = {
        int(k): float((y == k).sum()) / n if weighting == "count" else 1 / len(classes)
        for k in classes
    }
    centre = sum(weights[int(k)] * x[y == k].mean(0) for k in classes)
    for k in classes:
        mine = x[y == k]
        mean = mine.mean(0)
        between += weights[int(k)] * torch.outer(mean - centre, mean - centre)
        within += weights[int(k)] * (mine - mean).T @ (mine - mean) / len(mine)
    return float(torch.trace(within @ torch.linalg.pinv(between, rtol=1e-11, hermitian=True)))


def folds_of(labels, folds):
    """The j-th sample of a class goes to fold j mod F."""
    seen, result = {}, []
    for label in labels.tolist():
        seen[label] = seen.get(label, -1) + 1
        result.append(seen[label] % folds)
    return torch.tensor(result)


def deleted_fuzziness(features, labels, folds):
    """Fuzziness with each fold left out, measured from scratch."""
    fold = folds_of(labels, folds)
    return [
        fuzziness(features[fold != j], labels[fold != j]) for j in range(folds) if (fold == j).any()
    ]
