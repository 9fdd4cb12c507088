"""Linear networks W_D⋯W₁x under gradient descent and under SGD, one sample a step, many at once.

Labels are y = Vx + ε. Gradient descent takes the expectation of the gradient; SGD takes a fresh
sample, so that its noise does not vanish at the minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lawscope.lazy import np

if TYPE_CHECKING:
    from lawscope.arrays import FloatArray

    # How many, random numbers → inputs (n, d_in) and labels (n, d_out).
    Draw = Callable[[int, np.random.Generator], tuple[FloatArray, FloatArray]]
else:
    FloatArray = Draw = Any

CHUNK = 500  # steps drawn at once
SGD, GD = "SGD", "GD"


@dataclass(frozen=True, eq=False)
class Problem:
    """What a linear network learns.

    Attributes:
        V: the map, shape (d_out, d_in).
        inputs: E[xxᵀ], shape (d_in, d_in).
        noise: E[εεᵀ], shape (d_out, d_out).
        draw: a number of samples and random numbers → inputs and labels.
    """

    V: FloatArray
    inputs: FloatArray
    noise: FloatArray
    draw: Draw


def gaussian(V: Any, inputs: Any, noise: Any) -> Problem:
    """Return the problem y = Vx + ε with Gaussian x and ε of these covariances."""
    V, inputs, noise = (np.asarray(each, dtype=float) for each in (V, inputs, noise))
    roots = [np.linalg.cholesky(each) for each in (inputs, noise)]

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        x, e = (rng.standard_normal((n, len(root))) @ root.T for root in roots)
        return x, x @ V.T + e

    return Problem(V, inputs, noise, draw)


def descend(
    problem: Problem,
    layers: Sequence[FloatArray],
    rates: Sequence[float] | FloatArray,
    observe: Callable[[list[FloatArray]], FloatArray],
    every: int,
    rng: np.random.Generator | None = None,
) -> tuple[list[int], FloatArray, list[FloatArray]]:
    """Train many networks side by side, each with its own samples.

    Args:
        problem: what they learn.
        layers: W₁ … W_D at the start, each of shape (runs, out, in).
        rates: the learning rate of every step.
        observe: layers → what is written down of each network, (runs, …).
        every: after how many steps it is.
        rng: the random numbers of SGD; None is gradient descent.

    Returns:
        The steps at which was observed, from 0, what was observed, (times, runs, …), and the layers
        at the end. Numbers that outgrow floats are NaN or infinite.
    """
    weights = [each.copy() for each in layers]
    seen, steps = [observe(weights)], [0]
    samples = None if rng is None else _samples(problem, len(weights[0]), rng)
    with np.errstate(all="ignore"):
        for step, rate in enumerate(rates, 1):
            for W, g in zip(weights, _gradients(problem, weights, samples), strict=True):
                W -= rate * g
            if step % every == 0:
                seen.append(observe(weights))
                steps.append(step)
    return steps, np.stack(seen), weights


def _samples(
    problem: Problem, runs: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Draw a sample for each network, for ever, as columns (runs, d, 1)."""
    while True:
        x, y = problem.draw(CHUNK * runs, rng)
        xs, ys = (each.reshape(CHUNK, runs, -1, 1) for each in (x, y))
        yield from zip(xs, ys, strict=True)


def _gradients(
    problem: Problem, weights: Sequence[FloatArray], samples: Iterator[Any] | None
) -> list[FloatArray]:
    """Return the gradients of |W_D⋯W₁x − y|², of one sample or in expectation."""
    # Of the expectation, 2(W − V)Σ_x, it is the same product with 1 in the place of x.
    x, y = (1.0, None) if samples is None else next(samples)
    before: list[Any] = [x]
    for W in weights:
        before.append(W @ before[-1] if samples is not None or len(before) > 1 else W)
    out = before.pop()
    back = 2 * (out - y) if samples is not None else 2 * (out - problem.V) @ problem.inputs
    found = []
    for W, h in zip(reversed(weights), reversed(before), strict=True):
        found.append(back @ h.swapaxes(-1, -2) if not isinstance(h, float) else back)
        back = W.swapaxes(-1, -2) @ back
    return found[::-1]


def trace_of_hessian(problem: Problem, incoming: FloatArray, outgoing: FloatArray) -> FloatArray:
    """Return Tr H = 2(|U|²·TrΣ_x + d_out·Tr WΣ_xWᵀ) of two layers, of every network."""
    squares = (outgoing**2).sum(axis=(1, 2)) * np.trace(problem.inputs)
    seen = np.einsum("rij,jk,rik->r", incoming, problem.inputs, incoming)
    return np.asarray(2 * (squares + len(problem.noise) * seen))


def charge(incoming: FloatArray, outgoing: FloatArray) -> FloatArray:
    """Return |W|² − |U|² of every network, incoming minus outgoing."""
    difference: FloatArray = (incoming**2).sum(axis=(1, 2)) - (outgoing**2).sum(axis=(1, 2))
    return difference
