"""The six alignments of a layer, and what random rotations leave of them."""

from __future__ import annotations

from typing import get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dctn
from scipy.stats import ortho_group

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.theory.arguments import read_array, read_symmetric
from lawscope.theory.representation.layer import read_change, read_layer, read_moment
from lawscope.theory.representation.singular import Measure, SingularLayer, cosine, form_of
from lawscope.whole_number import whole_number

RELATIONS = (
    "backward RGA",
    "backward RWA",
    "backward GWA",
    "forward RGA",
    "forward RWA",
    "forward GWA",
)
# Up to here an exact Haar rotation is as fast as the transform, and small ones need it.
HAAR_SIZE = 64


def align(A: ArrayLike, B: ArrayLike, measure: Measure = "pearson") -> float:
    """Compute how far two symmetric matrices are proportional.

    ::

        cosine:   Tr(AB)/(‖A‖_F ‖B‖_F)
        pearson:  the same after the mean of all d² entries is taken from each

    The correlation of the entries is the measure of Ziyin, Chuang et al. (2024). It depends on
    the basis, and the cosine does not.

    Args:
        A: symmetric, shape (d, d).
        B: symmetric, shape (d, d).
        measure: ``"pearson"`` or ``"cosine"``.

    Returns:
        From −1 to 1; 1 if A = cB with c > 0.

    Raises:
        LawscopeError: not symmetric matrices of one size, or one that is constant (pearson) or
            zero (cosine).

    Example:
        >>> round(align([[2, 1], [1, 3]], [[4, 2], [2, 6]]), 6)
        1.0
    """
    one = read_symmetric("A", A)
    other = read_symmetric("B", B, len(one))
    _check_measure(measure)
    for name, matrix in (("A", one), ("B", other)):
        if measure == "pearson" and np.ptp(matrix) == 0:
            raise LawscopeError(
                f"All entries of {name} are equal, so they correlate with nothing; use "
                'measure="cosine".'
            )
        if not matrix.any():
            raise LawscopeError(f"{name} is zero, so it aligns with nothing; leave it out.")
    ones = np.ones(len(one))
    return _align(one, other, ones if measure == "pearson" else None)


def compute_alignments(
    weight: ArrayLike,
    H_a: ArrayLike,
    G_b: ArrayLike,
    *,
    H_b: ArrayLike | None = None,
    G_a: ArrayLike | None = None,
    change: ArrayLike | None = None,
    measure: Measure = "pearson",
) -> dict[str, float]:
    """Compute the six alignments of a layer (Ziyin, Chuang et al. 2024).

    Backward on the input side a, forward on the output side b::

        RGA: H ∝ G      RWA: H ∝ Z      GWA: G ∝ Z

    Args:
        weight: W, shape (d_b, d_a).
        H_a: E[h_a h_aᵀ], shape (d_a, d_a).
        G_b: E[g_b g_bᵀ], shape (d_b, d_b).
        H_b: measured E[h_b h_bᵀ]; W·H_a·Wᵀ if not given.
        G_a: measured E[g_a g_aᵀ]; Wᵀ·G_b·W if not given, which is what this layer alone sends back.
        change: what W has learned, W − κW₀ with the share κ of its initial value that weight decay
            has left, shape (d_b, d_a); Z_a and Z_b are then of it.
        measure: as in ``align``.

    Returns:
        An alignment by relation. A side of a single unit has none and is left out.

    Raises:
        LawscopeError: shapes do not fit, a matrix is zero, or both sides have a single unit.

    Example:
        >>> found = compute_alignments([[1, 0], [0, 2]], [[1, 0], [0, 4]], [[1, 0], [0, 1]])
        >>> round(found["backward RWA"], 6), round(found["backward GWA"], 6)
        (1.0, 1.0)
    """
    W, inputs, gradients = read_layer(weight, H_a, G_b)
    _check_measure(measure)
    outputs = None if H_b is None else read_moment("H_b", H_b, len(W))
    sent_back = None if G_a is None else read_moment("G_a", G_a, W.shape[1])
    layer = SingularLayer(W, None if change is None else read_change(change, W), measure)
    found = layer.align(layer.project(inputs, gradients), outputs, sent_back)
    if not found:
        raise LawscopeError("weight is 1×1; alignments need at least 2 units on one side.")
    return found


def compute_null(
    weight: ArrayLike,
    H_a: ArrayLike,
    G_b: ArrayLike,
    *,
    G_a: ArrayLike | None = None,
    change: ArrayLike | None = None,
    draws: int = 20,
    measure: Measure = "pearson",
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Compute the alignments that are left when H_a and G_b are rotated at random.

    W stays, so H_b = W·H_a·Wᵀ and G_a = Wᵀ·G_b·W keep what they inherit from it: forward RWA and
    backward GWA are large by construction. In W's singular basis W is diagonal and the rotated
    moments are as random as before, so that a draw costs two rotations and no product with W.

    Args:
        weight: W, shape (d_b, d_a).
        H_a: E[h_a h_aᵀ], shape (d_a, d_a).
        G_b: E[g_b g_bᵀ], shape (d_b, d_b).
        G_a: measured where others read the input too; what they add to Wᵀ·G_b·W is rotated by
            itself, since it inherits nothing from W.
        change: as in ``compute_alignments``.
        draws: number of rotations, at least 2.
        measure: as in ``align``.
        seed: of the rotations.

    Returns:
        Mean and standard deviation over the draws, by relation.

    Raises:
        LawscopeError: as in ``compute_alignments``, or fewer than 2 draws.

    Example:
        >>> import numpy as np
        >>> wide = compute_null(np.diag([3.0, 1, 1, 1]), np.diag([9.0, 1, 1, 1]), np.eye(4))
        >>> round(wide["backward GWA"][0], 6)
        1.0
    """
    W, inputs, gradients = read_layer(weight, H_a, G_b)
    _check_measure(measure)
    return draw_null(
        SingularLayer(W, None if change is None else read_change(change, W), measure),
        inputs,
        gradients,
        None if G_a is None else read_moment("G_a", G_a, len(inputs)),
        draws=whole_number("draws", draws, 2, "gives no spread"),
        seed=whole_number("seed", seed, 0, "is negative", 2**32 - 1),
    )


def draw_null(
    layer: SingularLayer,
    H_a: FloatArray,
    G_b: FloatArray,
    G_a: FloatArray | None,
    *,
    draws: int,
    seed: int,
) -> dict[str, tuple[float, float]]:
    """Compute the null, as :func:`compute_null` does, of a layer whose weight is decomposed."""
    W, U, Vt = layer.weight, layer.U, layer.Vt
    others = None if G_a is None else G_a - W.T @ G_b @ W
    rng = np.random.default_rng(seed)
    # W, what it has learned and the vectors of ones in the singular basis.
    S = np.zeros(W.shape)
    np.fill_diagonal(S, layer.s)
    acting = S if layer.change is None else U.T @ layer.change @ Vt.T
    Z = {"backward": acting.T @ acting, "forward": acting @ acting.T}
    ones = {"backward": Vt.sum(1), "forward": U.sum(0)}
    samples: dict[str, list[float]] = {}
    for _ in range(draws):
        H, G = _rotate(H_a, rng), _rotate(G_b, rng)
        sent_back = _pass(S.T, G) + (0 if others is None else _rotate(others, rng))
        moments = {"backward": (H, sent_back), "forward": (_pass(S, H), G)}
        for side, (one, other) in moments.items():
            if len(one) == 1:
                continue
            axis = ones[side] if layer.measure == "pearson" else None
            for name, A, B in (
                ("RGA", one, other),
                ("RWA", one, Z[side]),
                ("GWA", other, Z[side]),
            ):
                samples.setdefault(f"{side} {name}", []).append(_align(A, B, axis))
    if not samples:
        raise LawscopeError("weight is 1×1; alignments need at least 2 units on one side.")
    return {
        name: (float(np.mean(each)), float(np.std(each, ddof=1))) for name, each in samples.items()
    }


def compute_excess(raw: float, null: float) -> float:
    """Compute (raw − null)/(1 − null), the part of an alignment that is not by construction.

    Args:
        raw: an alignment, at most 1.
        null: its mean under random rotations, below 1.

    Returns:
        1 for a perfect alignment, 0 for that of a random rotation, negative below it.

    Raises:
        LawscopeError: not numbers up to 1, or a null of 1.

    Example:
        >>> compute_excess(0.75, 0.5)
        0.5
    """
    for name, value in (("raw", raw), ("null", null)):
        if not abs(read_array(name, value, 0)) <= 1 + 1e-9:
            raise LawscopeError(f"{name}={value!r} is not an alignment; give a number up to 1.")
    if null >= 1 - 1e-12:
        raise LawscopeError(
            "null is 1: every rotation aligns, as where all singular values are equal; report the "
            "alignment itself."
        )
    return float((raw - null) / (1 - null))


def _align(A: FloatArray, B: FloatArray, axis: FloatArray | None) -> float:
    """Compute the alignment of A and B; ``axis`` is the vector of ones in their basis."""
    return cosine(float(np.vdot(A, B)), form_of(A, axis), form_of(B, axis))


def _pass(S: FloatArray, moment: FloatArray) -> FloatArray:
    """Return S·moment·Sᵀ for a diagonal S that need not be square."""
    rank = min(S.shape)
    s = np.diag(S)
    out = np.zeros((len(S), len(S)))
    out[:rank, :rank] = s[:, None] * moment[:rank, :rank] * s
    return out


def _rotate(moment: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return Q·moment·Qᵀ for a random rotation Q.

    Small ones by the Haar measure. Large ones by random signs and a cosine transform, three times
    over, which is orthogonal, mixes all directions and takes d² log d instead of d³.
    """
    size = len(moment)
    if size == 1:
        return moment
    if size <= HAAR_SIZE:
        Q = ortho_group.rvs(size, random_state=rng)
        return np.asarray(Q @ moment @ Q.T)
    for _ in range(3):
        signs = rng.choice([-1.0, 1.0], size)
        moment = dctn(signs[:, None] * moment * signs, norm="ortho")
    return moment


def _check_measure(measure: str) -> None:
    """Refuse a measure that is not one of the two."""
    if measure not in get_args(Measure):
        raise LawscopeError(f'measure={measure!r} is unknown; give "pearson" or "cosine".')
