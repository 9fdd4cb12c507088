"""The LE-ODE: the closed form against general solvers of differential equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.integrate import solve_ivp

import lawscope as ls
from benchmarks.row import Row, at_least, interleaved

CLASSES, END, TIMES, ACCURACY, SPEED = 10, 1000.0, 1000, 1e-8, 100.0
Rate = Callable[[float], float]


def solve(
    sde: ls.ElasticSDE, alpha: Rate, beta: Rate, times: np.ndarray, method: str, tolerance: float
) -> np.ndarray:
    """The same equation by scipy, its right-hand side and Jacobian one sum of two matrices."""
    own = ls.ElasticSDE(1.0, 0.0, CLASSES).matrix(0.0)
    other = ls.ElasticSDE(0.0, 1.0, CLASSES).matrix(0.0)
    explicit = method in ("RK45", "DOP853")
    slope = {} if explicit else {"jac": lambda t, x: alpha(t) * own + beta(t) * other}
    found = solve_ivp(
        lambda t, x: (alpha(t) * own + beta(t) * other) @ x,
        (times[0], times[-1]),
        sde.X0.ravel(),
        method=method,
        t_eval=times,
        rtol=tolerance,
        atol=tolerance,
        **slope,
    )
    return found.y.T.reshape(len(times), CLASSES, CLASSES)


def compare(
    sde: ls.ElasticSDE, alpha: Rate, beta: Rate, method: str, tolerance: float, repeats: int
) -> tuple[float, float, float]:
    """Seconds of ours, seconds of theirs, and how far they are apart, of the largest feature."""
    times = np.linspace(0, END, TIMES)
    theirs: list[np.ndarray] = []
    ours = sde.mean(times)
    fast, slow = interleaved(
        lambda: sde.mean(times),
        lambda: theirs.append(solve(sde, alpha, beta, times, method, tolerance)),
        repeats,
    )
    fast = min([fast, *(interleaved(lambda: sde.mean(times), lambda: None, 1)[0] for _ in "12345")])
    apart = np.abs(ours - theirs[-1]).max(axis=(1, 2)) / np.abs(ours).max(axis=(1, 2))
    return fast, slow, float(apart.max())


def row_of(
    what: str, sde: ls.ElasticSDE, alpha: Rate, beta: Rate, solvers: dict[str, float]
) -> Row:
    """Ours against the fastest of the solvers, each at the loosest tolerance good to 1e-8."""
    found = {
        name: compare(sde, alpha, beta, name, tolerance, 3) for name, tolerance in solvers.items()
    }
    name = min(found, key=lambda each: found[each][1] / found[each][0])
    ours, theirs, apart = found[name]
    row = at_least(
        f"ElasticSDE.mean, L-model, K = {CLASSES}, {TIMES} times, {what}",
        ours,
        f"scipy solve_ivp, {name}, {solvers[name]:g}",
        theirs,
        SPEED,
    )
    others = "".join(
        f"; {slow / fast:.2g} to {each}" for each, (fast, slow, _) in found.items() if each != name
    )
    note = f"apart by {apart:.0e}{others}"
    return Row(**{**vars(row), "note": note, "holds": row.holds and apart <= ACCURACY})


def rows() -> Iterator[Row]:
    """Strengths as an estimate gives them, at a thousand times, and smooth functions."""
    times = np.linspace(0, END, TIMES)
    rough = 0.01 * np.random.default_rng(0).standard_normal((2, TIMES))
    alpha, beta = 1 / np.sqrt(1 + times) + rough[0], -0.5 / (1 + times) + rough[1]
    yield row_of(
        "estimated α and β",
        ls.ElasticSDE(alpha, beta, CLASSES, times=times),
        lambda t: np.interp(t, times, alpha),
        lambda t: np.interp(t, times, beta),
        {"LSODA": 1e-10},
    )
    smooth = (lambda t: 1 / np.sqrt(1 + t), lambda t: -0.5 / (1 + t))
    yield row_of(
        "smooth α and β",
        ls.ElasticSDE(*smooth, CLASSES),
        *smooth,
        {"RK45": 1e-9, "DOP853": 1e-9, "LSODA": 1e-9},
    )
