"""The silhouette of classes, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from lawscope.statistics.silhouette import silhouette


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_silhouette_agrees_with_scikit_learn(offset):
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), (2, 30, 17, 40))
    features = rng.normal(size=(89, 5)) + 1.5 * rng.normal(size=(4, 5))[labels] + offset
    ours = silhouette(features, labels)
    assert ours == pytest.approx(silhouette_score(features, labels), rel=1e-6)


def test_silhouette_of_a_lone_sample_counts_as_zero_and_one_class_is_refused():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(9, 2)), np.array([0] * 4 + [1] * 4 + [2])
    assert silhouette(features, labels) == pytest.approx(silhouette_score(features, labels))
    with pytest.raises(ValueError, match="compares classes; got 1"):
        silhouette(features, np.zeros(9, dtype=int))
