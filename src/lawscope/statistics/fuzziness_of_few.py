"""D = Tr(SSw SSb⁺) of little data, where calls and caches cost more than the arithmetic.

A call on a thousand samples computes for a tenth of a millisecond and waits as long for code that
was not used just before. So there are few calls here, and what depends on the labels alone is kept:
all layers of a network share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.linalg.lapack import dpotrf, dtrtri
from torch import Tensor

from lawscope.statistics.between import Weighting

FEW = 32  # classes whose K×K matrices are left to one thread
STRIP = 12  # columns: matrix products are fastest with so many at a time
SMALL = 2**18  # numbers that a cache holds; beyond, adding rows up is the faster way to means
EVEN = 1e4  # of condition numbers: squares have lost four digits at most
CANCELS = 1e-2  # a share of the spread below which a difference loses more than two digits
RIDGE = 1e200  # so large that a column which bears it takes no part


def fuzziness_of_few(x: Tensor, y: Tensor, weighting: Weighting) -> float | None:
    """D where it is simple: few samples of few classes, whose means spread evenly.

    With B (r, d) the weighted class means, less the common one, in an orthonormal basis of the
    r = K − 1 contrasts between classes: SSb = BᵀB, and A = (BBᵀ)⁻¹B has AᵀA = SSb⁺. About zero,
    Σ w_i ‖A x_i‖² = D + r + ‖A x̄‖²: along each direction the class means spread by 1.

    Args:
        x: features (n, d), float64, on the CPU.
        y: labels (n,), int64, on the CPU.
        weighting: see :func:`~lawscope.statistics.fuzziness.fuzziness`.

    Returns:
        D, or None where it takes more care.
    """
    if x.numel() > SMALL or len(x) * STRIP > SMALL:
        return None
    known = _labels(y.numpy().tobytes(), weighting)
    if known is None:
        return None
    rank = known.rank
    means = torch.mm(x.T, known.contrasts)  # (d, strips): Bᵀ, then the common mean, then zero
    gram = torch.mm(means.T, means)
    # Matrices of the size of the classes by scipy, whose calls cost a third of torch's. It leaves
    # them to one thread; products over samples it would share out, in a fight for the same cores.
    factor, singular = dpotrf((gram + known.ridge).numpy().T)
    root = torch.from_numpy(dtrtri(factor)[0])
    inverse = torch.mm(root, root.T)
    projected = torch.mm(x, torch.mm(means, inverse))
    if known.roots is not None:
        projected *= known.roots
    flat = projected.view(-1)
    whole = float(flat.dot(flat)) * known.share
    # By blocks, (G + ridge)⁻¹ has −(A x̄)ᵀ/ridge beside the corner of the common mean.
    middle = [RIDGE * number for number in inverse[rank].tolist()[:rank]]
    value = whole - sum([number * number for number in middle]) - rank
    trace = float(gram.trace())
    even = not singular and trace < 1e-30 * RIDGE and trace * float(inverse.trace()) < EVEN
    return value if even and value > CANCELS * whole else None


@dataclass(frozen=True, eq=False)
class _Labels:
    """What depends on the labels alone.

    Attributes:
        contrasts: what features are multiplied by, (n, strips): B, then the common mean.
        ridge: on the columns that are not contrasts, (strips, strips).
        rank: r = K − 1.
        share: w_i, or 1 where samples have weights of their own.
        roots: √w_i (n, 1), or None.
    """

    contrasts: Tensor
    ridge: Tensor
    rank: int
    share: float
    roots: Tensor | None


@lru_cache(maxsize=8)
def _labels(data: bytes, weighting: Weighting) -> _Labels | None:
    """None where there are many classes, or too few samples to measure anything."""
    labels = np.frombuffer(data, dtype=np.int64)
    _, position, counts = np.unique(labels, return_inverse=True, return_counts=True)
    n, classes = len(labels), len(counts)
    strips = -(-classes // STRIP) * STRIP
    if not 2 <= classes <= FEW or n <= classes or n * strips > SMALL:
        return None
    weights = counts / n if weighting == "count" else np.full(classes, 1 / classes)
    # √π_k x̄_k lose the common mean along the unit vector √π: keep what is perpendicular to it.
    _, _, basis = np.linalg.svd(np.sqrt(weights)[None])
    columns = np.vstack([basis[1:] * np.sqrt(weights), weights]) / counts
    contrasts = np.zeros((n, strips))
    contrasts[:, :classes] = columns.T[position]
    ridge = np.zeros(strips)
    ridge[classes - 1 :] = RIDGE
    roots = torch.from_numpy(np.sqrt((weights / counts)[position])[:, None])
    return _Labels(
        torch.from_numpy(contrasts),
        torch.from_numpy(np.diag(ridge)),
        classes - 1,
        1 / n if weighting == "count" else 1.0,
        None if weighting == "count" else roots,
    )
