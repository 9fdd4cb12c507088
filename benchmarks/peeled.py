"""The Layer-Peeled Model: ours against cvxpy on the paper's program, and certificates by size."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

import lawscope as ls
from benchmarks.row import Row, at_least, at_most, interleaved, seconds

CLASSES, MAJORITY, WEIGHT_ENERGY, FEATURE_ENERGY = 10, 5, 1.0, 5.0
RATIO, RATIOS = 100.0, np.logspace(0, 4, 41)
SPEED = 1000.0
# Ours takes a ten-thousandth of theirs: it may be tried as often within the same time.
TRIES = 200
HISTOGRAMS = [
    ("10 sizes, K = 1000", np.repeat(np.logspace(3, 0, 10), 100), 0.5, 1e-9, 3),
    ("all sizes different, K = 100", np.logspace(2, 0, 100), 2.0, 1e-8, 3),
    ("all sizes different, K = 1000", np.logspace(2, 0, 1000), 60.0, 1e-6, 1),
]


def papers_program(ratio: float) -> tuple[float, float]:
    """Loss and minority cosine of the convex program over the 2K×2K Gram matrix.

    Solved as its authors do: cvxpy with the solver and tolerance it chooses by itself.
    """
    import cvxpy as cp

    K, n = CLASSES, counts(ratio)
    gram = cp.Variable((2 * K, 2 * K), PSD=True)
    share = n / n.sum()
    loss = sum(share[k] * (cp.log_sum_exp(gram[k, K:]) - gram[k, K + k]) for k in range(K))
    bounds = [
        cp.trace(gram[:K, :K]) <= K * FEATURE_ENERGY,
        cp.trace(gram[K:, K:]) <= K * WEIGHT_ENERGY,
    ]
    problem = cp.Problem(cp.Minimize(loss), bounds)
    problem.solve()
    one, other = gram.value[-1, K:], gram.value[-2, K:]
    return problem.value, float(other[-1] / np.sqrt(one[-1] * other[-2]))


def counts(ratio: float) -> np.ndarray:
    """Five classes of R samples and five of one."""
    return np.repeat([ratio, 1.0], [MAJORITY, CLASSES - MAJORITY])


def one_pair() -> Row:
    """One histogram of two sizes, from the counts to the certified prediction."""
    n = counts(RATIO).tolist()

    def ours() -> float:
        return min(seconds(lambda: ls.peel(n, WEIGHT_ENERGY, FEATURE_ENERGY)) for _ in range(TRIES))

    ours(), papers_program(RATIO)
    pairs = [(ours(), seconds(lambda: papers_program(RATIO))) for _ in range(5)]
    found = ls.peel(n, WEIGHT_ENERGY, FEATURE_ENERGY)
    loss, cosine = papers_program(RATIO)
    row = at_least(
        f"peel, two sizes, K = {CLASSES}, R = {RATIO:g}",
        min(p[0] for p in pairs),
        "cvxpy, the paper's program",
        min(p[1] for p in pairs),
        SPEED,
    )
    return add_note(row, found.gap, abs(loss - found.loss), abs(cosine - found.minority_cosine))


def sweep() -> Row:
    """The curve of the paper's figure."""
    theirs: list[tuple[float, float]] = []

    def loop() -> None:
        theirs[:] = [papers_program(ratio) for ratio in RATIOS]

    def ours() -> None:
        ls.peel_sweep(RATIOS, CLASSES, MAJORITY, WEIGHT_ENERGY, FEATURE_ENERGY)

    ours(), papers_program(RATIO)
    _, slow = interleaved(ours, loop, 2)
    fast = min(seconds(ours) for _ in range(TRIES))
    found = ls.peel_sweep(RATIOS, CLASSES, MAJORITY, WEIGHT_ENERGY, FEATURE_ENERGY)
    losses, cosines = np.array(theirs).T
    row = at_least(
        f"peel_sweep, {len(RATIOS)} ratios from 1 to 10⁴",
        fast,
        "cvxpy, the paper's program at each",
        slow,
        SPEED,
    )
    return add_note(
        row,
        float((found.gaps * found.losses).max()),
        float(np.abs(losses - found.losses).max()),
        float(np.abs(cosines - found.cosines).max()),
    )


def add_note(row: Row, gap: float, loss_off: float, cosine_off: float) -> Row:
    """The row with what both sides are worth."""
    note = f"certified to {gap:.0e}; cvxpy's loss is off by {loss_off:.0e}, cosine {cosine_off:.0e}"
    return Row(**{**vars(row), "note": note, "holds": row.holds and gap <= 1e-8})


def certified(
    name: str, histogram: np.ndarray, bar_seconds: float, bar_gap: float, repeats: int
) -> Iterator[Row]:
    """Time and relative gap of one histogram."""
    results: list[ls.Peeled] = []
    with warnings.catch_warnings():
        # A gap that is too large is what the second row says.
        warnings.simplefilter("ignore", ls.LawscopeWarning)
        ls.peel(histogram[:: len(histogram) // 20])
        taken = min(seconds(lambda: results.append(ls.peel(histogram))) for _ in range(repeats))
    yield at_most(f"peel, {name}, time", taken, "one second", 1.0, bar_seconds)
    relative = results[-1].gap / results[-1].loss
    yield at_most(f"peel, {name}, gap", relative, "its loss", 1.0, bar_gap, unit="")


def rows() -> Iterator[Row]:
    """All bars, held or not."""
    yield one_pair()
    yield sweep()
    for case in HISTOGRAMS:
        yield from certified(*case)
