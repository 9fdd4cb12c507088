"""The silhouette: how much nearer samples are to their own class than to the next."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from lawscope.arrays import FloatArray, IntArray


def silhouette(features: FloatArray, labels: IntArray) -> float:
    """Return the mean over samples of (b − a) / max(a, b) (Rousseeuw 1987).

    a is the mean distance of a sample to the others of its class, b the smallest mean distance to
    another class: 1 for classes far apart, 0 for classes that overlap, below 0 for samples nearer
    to another class than to their own. A sample alone in its class counts as 0. All n² distances
    are held.
    """
    classes, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"a silhouette compares classes; got {len(classes)} of them")
    members, rows = np.eye(len(classes))[index], np.arange(len(labels))
    sums = cdist(features, features) @ members
    alone = counts[index] == 1
    own = sums[rows, index] / np.where(alone, 1, counts[index] - 1)
    means = sums / counts
    means[rows, index] = np.inf
    other = means.min(axis=1)
    largest = np.maximum(own, other)
    defined = (largest > 0) & ~alone
    scores = np.divide(other - own, largest, where=defined, out=np.zeros(len(labels)))
    return float(scores.mean())
