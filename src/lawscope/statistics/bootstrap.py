"""Bootstrap of the fuzziness: samples drawn again within their class."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.statistics.between import Weighting, between_frames

BOOTSTRAPS = 400
SEED = 0


def bootstrap(
    features: Tensor,
    positions: Tensor,
    weighting: Weighting = "count",
    resamples: int = BOOTSTRAPS,
) -> NDArray[np.float64]:
    """D of ``resamples`` data sets drawn with replacement within each class.

    The draws depend on the seed and on the labels alone, so that stations over the same samples
    are resampled together and their D stay paired. A resample is a vector of counts w_i; then
    x̄_k = Σ w_i x_i / n_k and D = Σ π_k/n_k Σ w_i ‖A(x_i − x̄_k)‖².

    Args:
        features: shape (n, d), as held.
        positions: class position 0…K−1 of each sample, shape (n,).
        weighting: see :func:`~lawscope.statistics.between.between_frames`.
        resamples: how many.

    Returns:
        D of each resample, shape (resamples,).
    """
    x = features.to(torch.float64)
    x = x - x.mean(dim=0)
    if x.shape[1] > len(x):  # n points span n dimensions at most, and D is rotation invariant
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
    share = counts.to(x) if weighting == "count" else torch.ones_like(counts, dtype=x.dtype)
    per_sample = (share / share.sum() / counts)[positions]
    values = np.empty(resamples)
    for b in range(resamples):
        frame = between_frames(means[b], counts, weighting)
        deviation = x @ frame.matrix.T - (means[b] @ frame.matrix.T)[positions]
        values[b] = float((weights[:, b] * per_sample) @ deviation.square().sum(dim=1))
    return values
