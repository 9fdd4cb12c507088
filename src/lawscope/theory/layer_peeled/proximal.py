"""The two steps of splitting: the nearest point of the constraint, and the loss alone."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from lawscope.arrays import FloatArray
from lawscope.theory.layer_peeled.program import Blocks, Program

# Newton's method is quadratic: the step after one of 1e-6 has all digits.
STEPS, ACCURACY = 60, 1e-6


def project(program: Program, a: FloatArray, M: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Cut all singular values by one length, so that those left over add up to τ; return it last.

    The singular values are those of M and, K_g − 1 times each, |a_g|. They come from MᵀM: what is
    kept lies above the cut, so squaring loses nothing.
    """
    squares, V = eigh(M.T @ M, driver="evd", check_finite=False)
    sigma = np.sqrt(np.maximum(squares, 0.0))
    values = np.concatenate([np.abs(a), sigma])
    cut = cut_length(values, np.concatenate([program.copies, np.ones(len(sigma))]), program.tau)
    if cut <= 0:
        return a, M, 0.0
    kept = sigma > cut
    V = V[:, kept]
    shrunk = ((M @ V) * (1 - cut / sigma[kept])) @ V.T
    return np.sign(a) * np.maximum(np.abs(a) - cut, 0.0), shrunk, cut


def cut_length(values: FloatArray, copies: FloatArray, total: float) -> float:
    """Find c with Σ copies·(value − c)₊ = total; negative where the sum is below it."""
    order = np.argsort(-np.where(copies > 0, values, -1.0))
    values, counts = values[order], np.cumsum(copies[order])
    cuts = (np.cumsum(copies[order] * values) - total) / counts
    # The largest value is always above its cut; where it is so by less than rounding, none is.
    above = np.flatnonzero((values > cuts) & (copies[order] > 0))
    return float(cuts[above[-1] if len(above) else 0])


class RowStep:
    """The step that trades the loss against the distance from a given point, row by row.

    In the row of a class the minimiser of α·ℓ(z) + (ρ/2)·‖z − z₀‖² satisfies z − z₀ + c·(p − t) = 0
    with c = α/ρ, t the target and p = softmax(z + δ). The curvature is a diagonal and one dyad, so
    a step of Newton's method costs little more than the loss: with r the left-hand side,
    w = p/(1 + c·p) and s = −Σw·r/Σw, the step is s − (r + s)/(1 + c·p). The first part only shifts
    the row. Every call begins where the last one ended.
    """

    def __init__(self, program: Program, rho: float, start: Blocks) -> None:
        sizes, eps = program.sizes, program.smoothing / program.classes
        self._sizes, self._root, self._offsets = sizes, np.sqrt(sizes), program.offsets
        self._alpha, self.rho = program.alpha, rho
        # In a group held together the own logit is one of K_g equal ones, no entry of its own.
        self._held, self._split = program.held, program.copies > 0
        self._rivals = np.broadcast_to(sizes, (len(sizes), len(sizes))).copy()
        np.fill_diagonal(self._rivals, np.where(self._held, sizes, sizes - 1))
        self._rest = eps * (program.classes - 1)  # 1 − t of the own class
        self._target = np.full_like(self._rivals, eps)
        share = np.where(self._held, (1 - program.smoothing) / sizes, 0.0)
        self._target[np.diag_indices(len(sizes))] += share
        self._logits, self._own = self._to_logits(*start)

    def __call__(self, a: FloatArray, M: FloatArray) -> Blocks:
        """Return the minimiser of f(Z) + (ρ/2)‖Z − Z₀‖² for Z₀ given by (a, M)."""
        logits, own = self._to_logits(a, M)
        z, own_z, c = self._logits, self._own, self._alpha / self.rho
        for _ in range(STEPS):
            p, own_p, behind = self._chances()
            pull, own_pull = c[:, None] * p, c * own_p
            miss = z - logits + pull - c[:, None] * self._target
            own_miss = own_z - own + c * (self._rest - behind)
            stiff, own_stiff = 1 + pull, 1 + own_pull
            p *= self._rivals / stiff
            own_p /= own_stiff
            weighed = np.einsum("ij,ij->i", p, miss) + own_p * own_miss
            shift = -weighed / (p.sum(axis=1) + own_p)
            miss += shift[:, None]
            step, own_step = -miss / stiff, -(own_miss + shift) / own_stiff
            z += _safe(step, pull)
            z += shift[:, None]
            own_z += np.where(self._held, 0.0, _safe(own_step, own_pull) + shift)
            if max(float(np.abs(step).max()), float(np.abs(shift).max())) < ACCURACY:
                break
        inside = z.diagonal()
        found = z * np.outer(self._root, self._root)
        centre = np.where(self._held, 0.0, own_z) + self._rivals.diagonal() * inside
        found[np.diag_indices(len(a))] = centre
        return np.where(self._split, own_z - inside, 0.0), found

    def _to_logits(self, a: FloatArray, M: FloatArray) -> Blocks:
        """Return logits of the rivals, shape (G, G), and of the own class, shape (G,)."""
        logits = M / np.outer(self._root, self._root)
        inside = logits.diagonal() - a / self._sizes
        np.fill_diagonal(logits, inside)
        return logits, inside + a

    def _chances(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the probability of one rival, of the own class, and of all but the own class."""
        own = self._own + self._offsets
        away = self._logits + self._offsets[None, :] - own[:, None]
        top = away.max(axis=1)
        top = np.where(self._held, top, np.maximum(top, 0.0))
        p = np.exp(away - top[:, None])
        own_p = np.exp(-top, out=np.zeros_like(top), where=~self._held)
        behind = np.einsum("ij,ij->i", p, self._rivals)
        total = own_p + behind
        return p / total[:, None], own_p / total, behind / total


def _safe(step: FloatArray, pull: FloatArray) -> FloatArray:
    """Return a Newton step in log p that does not overshoot.

    Upwards log p + c·p is followed by its tangent in p once c·p is about one: log(1 + step).
    """
    if float(step.max()) < 0.5:
        return step
    up = np.maximum(step, 0.0)
    ceiling = np.maximum(np.log1p(up), np.minimum(up, -np.log(np.maximum(pull, 1e-300))))
    return np.where(step > 0, ceiling, step)
