"""Bootstrap of the fuzziness: samples resampled within their class."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.statistics.fuzziness import Weighting, class_weights, whiten_between

BOOTSTRAPS = 400
SEED = 0


def bootstrap(
    features: Tensor,
    positions: Tensor,
    weighting: Weighting = "count",
    resamples: int = BOOTSTRAPS,
) -> NDArray[np.float64]:
    """Return D of ``resamples`` data sets drawn with replacement within each class.

    The draws depend on the seed and on the labels alone, so that stations over the same samples
    are resampled together and their D stay paired. A resample is a vector of counts w_i; then
    x̄_k = Σ w_i x_i / n_k and D = Σ π_k/n_k Σ w_i ‖A(x_i − x̄_k)‖². ``positions`` are of classes.
    """
    x = features.to(torch.float64)
    x = x - x.mean(dim=0)
    if x.shape[1] > len(x):
        # n points span n dimensions at most, and D does not change under rotation.
        x = torch.linalg.qr(x.T)[1].T
    positions = positions.to(x.device)
    counts = torch.bincount(positions)
    generator = torch.Generator().manual_seed(SEED)
    weights = torch.zeros(len(x), resamples, dtype=torch.float64, device="cpu")
    means = x.new_zeros(resamples, len(counts), x.shape[1])
    for k, count in enumerate(counts.tolist()):
        rows = torch.nonzero(positions.cpu() == k)[:, 0]
        drawn = torch.randint(count, (resamples, count), generator=generator, device="cpu")
        drawn_counts = torch.zeros(resamples, count, dtype=torch.float64, device="cpu")
        drawn_counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
        weights[rows] = drawn_counts.T
        means[:, k] = drawn_counts.to(x.device) @ x[rows.to(x.device)] / count
    weights = weights.to(x.device)
    shares = class_weights(counts, weighting)
    per_sample = (shares / counts)[positions]
    values = np.empty(resamples)
    for b in range(resamples):
        matrix = whiten_between(means[b], shares).matrix
        deviation = x @ matrix.T - (means[b] @ matrix.T)[positions]
        values[b] = float((weights[:, b] * per_sample) @ deviation.square().sum(dim=1))
    return values
