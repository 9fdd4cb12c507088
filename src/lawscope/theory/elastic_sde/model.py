"""The locally elastic SDE: how features of K classes move when samples of one pull the others."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from lawscope.arrays import FloatArray, as_floats
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.theory.elastic_sde.rates import (
    FIRST_PANELS,
    NODES,
    Integrals,
    Rates,
    as_rate,
    integrate_rates,
)
from lawscope.theory.elastic_sde.separability import Separability, count_separable
from lawscope.whole_number import whole_number

Drift = Literal["mean", "sample"]
PRECISION = 1e-10  # relative, of the general integrator
SHORT = 0.02  # a step of Euler and Maruyama times the norm of the drift
LOOKS = FIRST_PANELS * NODES  # least steps of the general integrator; the closed form has as many
OUTGROWN = "Features outgrow floating-point numbers by t = {:g}; ask for earlier times."
LEAST_STEPS = 200
MOST_STEPS = 1_000_000
EPSILON = float(np.finfo(np.float64).eps)
ROUNDING = 1e-9  # by which rows of a stochastic matrix may miss 1
MOST_DIMENSIONS = 1_000_000  # K·p
MOST_SQUARE = 5_000  # K·p of which matrices are made


class Collapse(NamedTuple):
    """How far class means are from a simplex ETF, each of shape (times,).

    Attributes:
        error: largest |cos(X^k, X^l) + 1/(K−1)| over pairs.
        norm_spread: standard deviation of ‖X^k‖ over their mean.
    """

    error: FloatArray
    norm_spread: FloatArray


class ElasticSDE:
    """The LE-SDE, dX = M(t)X̄ dt + Σ^½ dW (Zhang, Wang & Su 2021).

    X stacks one feature of each class; M = ((E∘P)⊗11ᵀ)∘H, with E = α on the diagonal and β beside
    it. The I-model has H_kl = I; the L-model, whose features are logits (p = K), has
    H_kl = d_l d_lᵀ/‖d_l‖² with d_l = e_l − 1/K.

    Args:
        alpha: α(t), within a class: a number, a function, or values at ``times``.
        beta: β(t), between classes, likewise.
        K: number of classes.
        p: number of features, K by default.
        model: "I", "L", or H itself, shape (K·p, K·p).
        elasticity: E, shape (K, K), or a function of t that returns it, in place of α and β.
        sampling: P, rows of shares that sum to 1, shape (K, K); by default 1/K everywhere.
        noise: Σ: a number for that multiple of I, shape (p, p), or shape (K·p, K·p).
        label_noise: share of labels replaced by one of the other classes.
        drift: "mean", the drift of its class's mean moves every sample (the separation theorem
            needs that), or "sample", every sample moves by its own features.
        start: the time at which X = X₀.
        X0: class means at the start, shape (K, p); by default standard normal numbers of
            seed 0, that of the own class raised by 2.
        times: when arrays α and β have their values.

    Raises:
        LawscopeError: fewer than two classes, p ≠ K in the L-model, P not stochastic, noise that
            is not a covariance.

    Example:
        >>> sde = ElasticSDE(alpha=1.0, beta=-0.5, K=3, model="L", noise=0.1)
        >>> sde.mean([0.0, 10.0]).shape
        (2, 3, 3)
        >>> sde.collapse([0.0, 10.0, 20.0]).error.round(3).tolist()
        [1.256, 0.094, 0.008]
    """

    @checked
    def __init__(
        self,
        alpha: Any = None,
        beta: Any = None,
        K: int = 2,
        p: int | None = None,
        model: Any = "L",
        *,
        elasticity: Any = None,
        sampling: Any = None,
        noise: Any = 0.0,
        label_noise: float = 0.0,
        drift: Drift = "mean",
        start: float = 0.0,
        X0: Any = None,
        times: Any = None,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        self.K = whole_number("K", K, 2, "leaves nothing to tell apart", MOST_DIMENSIONS)
        wide = self.K if p is None else p
        self.p = whole_number("p", wide, 1, "is too few", MOST_DIMENSIONS // self.K)
        self.model = self._check_model(model)
        if drift not in get_args(Drift):
            raise LawscopeError(f"drift={drift!r} is not known; choose 'mean' or 'sample'.")
        self.drift = drift
        self.start = float(as_array("start", start, ()))
        if not 0 <= (share := float(as_array("label_noise", label_noise, ()))) <= 1:
            raise LawscopeError(f"label_noise={share:g} is not a share; give 0 to 1.")
        self.label_noise = share
        even = np.full((self.K, self.K), 1 / self.K)
        self.sampling = even if sampling is None else self._check_sampling(sampling)
        self.noise = self._check_noise(noise)
        # The own logit is raised, so that classes begin on the right side.
        drawn = np.random.default_rng(0).standard_normal((self.K, self.p))
        drawn += 2 * np.eye(self.K, self.p)
        self.X0 = drawn if X0 is None else as_array("X0", X0, (self.K, self.p))
        self.knots = self._check_times(times)
        self._set_elasticity(alpha, beta, elasticity)

    @property
    def exact(self) -> bool:
        """Whether the mean has a closed form: α and β, equal sampling, the I- or the L-model."""
        return self._rates is not None and self.model != "custom"

    def replace(self, **changes: Any) -> ElasticSDE:
        """Return the same model with other arguments."""
        return ElasticSDE(**(self._given | changes))

    @property
    def centred_start(self) -> FloatArray:
        """X₀ without what all samples share for ever, which is only in the way of digits."""
        shared = self.exact and self.model == "I" and self.drift == "mean"
        return self.X0 - self.X0.mean(axis=0) if shared else self.X0

    @cached_property
    def H(self) -> FloatArray:  # noqa: N802
        """The similarity matrix, shape (K·p, K·p)."""
        size, K = self._check_square(), self.K
        if self.model == "I":
            return np.tile(np.eye(self.p), (K, K))
        d = directions(K)
        row = np.einsum("lj,li->jli", d, d) / (1 - 1 / K)
        return np.tile(row.reshape(K, size), (K, 1))

    def matrix(self, t: float) -> FloatArray:
        """Return M(t), shape (K·p, K·p)."""
        weights = self._elasticity_at(t) @ self._corruption * self.sampling
        blocks = self.H.reshape(self.K, self.p, self.K, self.p) * weights[:, None, :, None]
        return blocks.reshape(self.H.shape)

    def integrals(self, t: Any) -> Integrals:
        """Return A, B and F from the start to each time, of the α and β that act.

        With label noise q, α acts as (1−q)α + qβ and β as β + (α−β)q/(K−1), so that their
        difference acts as (α−β)(1 − qK/(K−1)); a sampling matrix multiplies α by K·P_kk and β by
        K·P_kl.

        Raises:
            LawscopeError: E or P is general.
        """
        if self._rates is None:
            raise LawscopeError("A general E or P has no integrals A and B; use .mean(t).")
        times = self._check_moments(t)
        return integrate_rates(self._rates, self.K, self.start, times, self.knots)

    @checked
    def mean(self, t: Any, X0: Any = None) -> FloatArray:
        """Return the class means, the solution of the LE-ODE dX = M(t)X dt.

        Exact in the I- and L-model (see docs/elasticity.md); otherwise by an implicit Runge–Kutta
        method, good to about 1e-9.

        Args:
            t: one time or several, none before the start.
            X0: class means at the start, shape (K, p); those of the model by default.

        Returns:
            Shape (times, K, p), or (K, p) for one time.

        Raises:
            LawscopeError: a time before the start, or features that outgrow floats.
        """
        times = self._check_moments(t)
        first = self.X0 if X0 is None else as_array("X0", X0, (self.K, self.p))
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.exact:
                found = self._integrate(times, first)
            elif self.model == "I":
                found = self._solve_isotropic(times, first)
            else:
                found = self._solve_logits(times, first)
        if not np.isfinite(found).all():
            late = times[~np.isfinite(found).all(axis=(1, 2))].min()
            raise LawscopeError(OUTGROWN.format(late))
        return found if np.ndim(t) else found[0]

    @checked
    def sample(
        self, t: Any, n: int, rng: Any = 0, X0: Any = None, step: float | None = None
    ) -> FloatArray:
        """Return n samples of every class, begun at the class means.

        Under the drift of means their joint law at all the times is drawn exactly. Under a drift of
        samples the paths are those of Euler and Maruyama, the drift by its exponential: order 1.

        Args:
            t: one time or several, none before the start.
            n: samples per class; those of one index share a path where Σ joins the classes.
            rng: a seed or a numpy generator.
            X0: class means at the start, shape (K, p).
            step: of Euler and Maruyama; by default 0.02/‖M(t)‖, and 200 steps or more.

        Returns:
            Shape (times, n, K, p), or (n, K, p) for one time.

        Raises:
            LawscopeError: a time before the start, or a step that is not positive.
        """
        size = whole_number("n", n, 1, "is too few")
        times = self._check_moments(t)
        order = np.argsort(times, kind="stable")
        generator = make_generator(rng)
        first = self.X0 if X0 is None else as_array("X0", X0, (self.K, self.p))
        grid = times[order]
        found = np.empty((len(times), size, self.K * self.p))
        if self.drift == "mean":
            waits = np.diff(grid, prepend=self.start)
            shocks = self._draw(generator, (len(times), size))
            steps = np.sqrt(waits)[:, None, None] * shocks
            means = self.mean(grid, first).reshape(len(times), 1, -1)
            found[order] = means + np.cumsum(steps, axis=0)
        else:
            state = np.broadcast_to(first.ravel(), (size, self.K * self.p))
            now = self.start
            for place, until in zip(order, grid, strict=True):
                for length in self._choose_steps(now, until, step):
                    shock = np.sqrt(length) * self._draw(generator, (size,))
                    state = euler_step(self.matrix(now + length / 2), state, length, shock)
                    now += length
                now, found[place] = until, state
        shaped = found.reshape(len(times), size, self.K, self.p)
        return shaped if np.ndim(t) else shaped[0]

    @checked
    def separable(self, t: float, n: int, repeats: int = 200, rng: Any = 0) -> Separability:
        """Return how probable it is that n samples of each class are linearly separable at t.

        Args:
            t: the time.
            n: samples per class.
            repeats: independent draws.
            rng: a seed or a numpy generator.

        Returns:
            The share of draws in which every two classes have a hyperplane between them, found by
            a linear program, with its 95 % interval; and the share of pairs.
        """
        size = whole_number("n", n, 1, "is too few")
        draws = whole_number("repeats", repeats, 1, "is too few")
        if len(self._check_moments(t)) > 1:
            raise LawscopeError("separable takes one time; ask for each by itself.")
        found = self.sample(t, size * draws, rng, self.centred_start)
        return count_separable(found.reshape(draws, size, self.K, self.p))

    def collapse(self, t: Any, X0: Any = None) -> Collapse:
        """Return how far the class means are from a simplex ETF.

        Args:
            t: one time or several.
            X0: class means at the start, shape (K, p).
        """
        return measure_collapse(self.mean(self._check_moments(t), X0))

    def _solve_isotropic(self, times: FloatArray, X0: FloatArray) -> FloatArray:
        """Return c₀ e^{(A+(K−1)B)/K} + c_k e^{(A−B)/K}: c₀ the mean of X₀, c_k the deviations."""
        A, B, _ = self.integrals(times)
        centre = np.broadcast_to(X0.mean(axis=0), X0.shape)
        # A mean that is nothing but rounding would grow into something.
        centre = np.where(np.abs(centre) <= 4 * EPSILON * np.abs(X0).max(), 0.0, centre)
        grown = np.exp([(A + (self.K - 1) * B) / self.K, (A - B) / self.K])
        return np.tensordot(grown.T, np.stack([centre, X0 - centre]), 1)

    def _solve_logits(self, times: FloatArray, X0: FloatArray) -> FloatArray:
        """Return X₀ᵏ + [U₀(e^{λ₁}−1)d_k + G v₀ₖ d_k + F v₀]/(K−1) with F = ∫β e^{λ₂}.

        u_k = d_k·X₀ᵏ, U₀ = Σu_k, v₀ = u − U₀/K, λ₁ = (A−B)/K, λ₂ = (A + B/(K−1))/K and
        G = K(e^{λ₂}−1) − KF/(K−1).
        """
        K, (A, B, F) = self.K, self.integrals(times)
        u, d = own_logits(X0), directions(K)
        U, v = u.sum(), u - u.mean()
        G = K * np.expm1((A + B / (K - 1)) / K) - K * F / (K - 1)
        grown = np.stack([np.ones(len(times)), np.expm1((A - B) / K), G, F], axis=1)
        moved = np.stack([U * d, v[:, None] * d, np.tile(v, (K, 1))]) / (K - 1)
        return np.tensordot(grown, np.concatenate([X0[None], moved]), 1)

    def _integrate(self, times: FloatArray, X0: FloatArray) -> FloatArray:
        """Integrate from knot to knot, since α or β given by values bend there."""
        from scipy.integrate import solve_ivp

        state, end = X0.ravel(), float(times.max())
        found = {self.start: state}
        bends = self.knots[(self.knots > self.start) & (self.knots < end)]
        longest = (end - self.start) / LOOKS
        for lower, upper in pairwise([self.start, *bends, end] if end > self.start else []):
            seen = np.unique(times[(times > lower) & (times <= upper)])
            try:
                solved = solve_ivp(
                    lambda t, x: self.matrix(t) @ x,
                    (lower, upper),
                    state,
                    method="Radau",  # implicit: fast directions that decay do not shorten its steps
                    t_eval=np.union1d(seen, [upper]),
                    jac=lambda t, x: self.matrix(t),
                    rtol=PRECISION,
                    atol=PRECISION * float(np.abs(X0).max() or 1.0),
                    # Where nothing moves yet, longer steps would pass over what comes.
                    max_step=longest,
                    first_step=min(longest, upper - lower) if len(bends) else None,
                )
            except LawscopeError:
                raise
            except ValueError as error:  # of scipy's algebra at numbers that are not finite
                raise LawscopeError(OUTGROWN.format(end)) from error
            if not solved.success:
                raise LawscopeError(
                    f"The class means could not be integrated to t = {end:g} ({solved.message}); "
                    "ask for earlier times."
                )
            state = solved.y[:, -1]
            found |= zip(seen.tolist(), solved.y.T, strict=False)
        return np.stack([found[t] for t in times.tolist()]).reshape(len(times), *X0.shape)

    def _choose_steps(self, start: float, end: float, step: float | None) -> FloatArray:
        """Return the lengths of steps from one time to another."""
        if step is not None and not as_array("step", step, ()) > 0:
            raise LawscopeError(f"step={step} must be a positive number.")
        lengths, now, longest = [], start, (end - start) / LEAST_STEPS
        while now < end:
            if step is None:
                norm = float(np.linalg.norm(self.matrix(now), 2))
                length = min(longest, SHORT / norm) if norm > 0 else longest
            else:
                length = float(step)
            # The last is cut, and not followed by one of rounding.
            length = end - now if now + 1.000001 * length >= end else length
            lengths.append(length)
            now += length
            if len(lengths) > MOST_STEPS:
                raise LawscopeError(
                    f"More than {MOST_STEPS} steps from t = {start:g} to {end:g}; give a longer "
                    "step= or earlier times."
                )
        return np.array(lengths)

    def _draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return draws of N(0, Σ), shape (*shape, K·p)."""
        normal = generator.standard_normal((*shape, self.K * self.p))
        return normal * np.sqrt(self.noise) if self.noise.ndim == 0 else normal @ self._root

    def _elasticity_at(self, t: float) -> FloatArray:
        if not callable(self._elasticity):
            return np.asarray(self._elasticity)
        try:
            found = self._elasticity(t)
        except LawscopeError:
            raise
        except Exception as error:  # whatever a person's function makes of a number
            raise LawscopeError(f"elasticity is not a function of t ({error!r}).") from error
        return as_array("elasticity", found, (self.K, self.K))

    @property
    def _corruption(self) -> FloatArray:
        """Share of true classes (rows) among samples of a label (columns)."""
        others = self.label_noise / (self.K - 1)
        return np.full((self.K, self.K), others) + np.eye(self.K) * (1 - self.label_noise - others)

    def _set_elasticity(self, alpha: Any, beta: Any, elasticity: Any) -> None:
        given = [each is not None for each in (alpha, beta, elasticity)]
        if given not in ([True, True, False], [False, False, True]):
            raise LawscopeError("Give alpha and beta, or elasticity, but not both.")
        self._rates: Rates | None = None
        if elasticity is not None:
            matrix, shape = elasticity, (self.K, self.K)
            self._elasticity = matrix if callable(matrix) else as_array("elasticity", matrix, shape)
            return
        times = self.knots if self.knots.size else None
        a, b = as_rate("alpha", alpha, times), as_rate("beta", beta, times)

        def two_strengths(t: float) -> FloatArray:
            now = np.array([t])
            found = np.full((self.K, self.K), b(now)[0])
            found[np.diag_indices(self.K)] = a(now)[0]
            return found

        self._elasticity = two_strengths
        own, other = self.sampling[0, 0], self.sampling[0, 1]
        pattern = np.full_like(self.sampling, other) + np.eye(self.K) * (own - other)
        if np.abs(self.sampling - pattern).max() <= ROUNDING:
            q = self.label_noise
            c, r = self.K * own, self.K * other
            spill = q / (self.K - 1)

            def acting(t: FloatArray) -> tuple[FloatArray, FloatArray]:
                within, between = a(t), b(t)
                return (
                    c * ((1 - q) * within + q * between),
                    r * (spill * within + (1 - spill) * between),
                )

            self._rates = acting

    def _check_model(self, model: Any) -> str:
        if not isinstance(model, str):
            size = self._check_square()
            self.H = as_array("model", model, (size, size))
            return "custom"
        if model not in ("I", "L"):
            raise LawscopeError(f"model={model!r} is not known; choose 'I', 'L' or give H.")
        if model == "L" and self.p != self.K:
            raise LawscopeError(
                f"The L-model is of logits, one per class: p = {self.p} is not K = {self.K}; leave "
                "p out, or use model='I'."
            )
        return model

    def _check_square(self) -> int:
        """Return K·p, of which a matrix can be made."""
        size = self.K * self.p
        if size > MOST_SQUARE:
            raise LawscopeError(
                f"K·p = {size} is too large for a matrix of that size squared; give at most "
                f"{MOST_SQUARE}, or the I- or L-model with alpha and beta."
            )
        return size

    def _check_sampling(self, sampling: Any) -> FloatArray:
        P = as_array("sampling", sampling, (self.K, self.K))
        sums = P.sum(axis=1)
        if (P < 0).any() or np.abs(sums - 1).max() > ROUNDING:
            worst = int(np.argmax(np.abs(sums - 1)))
            raise LawscopeError(
                f"sampling must have rows of shares that sum to 1; row {worst} sums to "
                f"{sums[worst]:.6g} and the smallest entry is {P.min():g}."
            )
        return P

    def _check_noise(self, noise: Any) -> FloatArray:
        S = as_array("noise", noise, None)
        if S.ndim == 0:
            if S < 0:
                raise LawscopeError(f"noise={S:g} is a variance; give 0 or more.")
            return S
        wide, own = self.K * self.p, S.shape == (self.p, self.p)
        self._check_square()
        S = as_array("noise", S, (self.p, self.p) if own else (wide, wide))
        if own:
            S = np.asarray(np.kron(np.eye(self.K), S), dtype=np.float64)
        values, vectors = np.linalg.eigh((S + S.T) / 2)
        largest = max(float(np.abs(values).max()), 1e-300)
        if np.abs(S - S.T).max() > ROUNDING * largest or values.min() < -ROUNDING * largest:
            raise LawscopeError(
                "noise must be a covariance: symmetric, without negative eigenvalues (the "
                f"smallest is {values.min():.3g})."
            )
        self._root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        return S

    def _check_times(self, times: Any) -> FloatArray:
        if times is None:
            return np.empty(0)
        knots = as_array("times", times, None)
        if knots.ndim != 1 or len(knots) < 2 or (np.diff(knots) <= 0).any():
            raise LawscopeError("times must be two or more, each later than the one before.")
        return knots

    def _check_moments(self, t: Any) -> FloatArray:
        times = np.atleast_1d(as_array("t", t, None))
        if times.ndim != 1 or not len(times):
            raise LawscopeError(f"t has shape {np.shape(t)}; give one time or a row of them.")
        if times.min() < self.start:
            raise LawscopeError(
                f"t = {times.min():g} is before the start, {self.start:g}; ask for later times."
            )
        return times

    def __repr__(self) -> str:
        return f"<ElasticSDE: {self.model}-model, K = {self.K}, p = {self.p}>"


def euler_step(M: FloatArray, X: FloatArray, step: float, shock: FloatArray) -> FloatArray:
    """Return e^{M·step}X + e^{M·step/2}shock: Euler and Maruyama, the drift by its exponential.

    Plain steps X + MX·step + shock have the same order 1, but features that grow by e^{66} lose a
    factor e^{−½Σ‖M·step‖²} on the way.

    Args:
        M: the drift in the middle of the step, shape (K·p, K·p).
        X: stacked features in rows, shape (n, K·p).
        step: its length.
        shock: draws of N(0, Σ·step), shape (n, K·p).
    """
    from scipy.linalg import expm

    half = expm(M * (step / 2))
    return np.asarray((X @ half.T + shock) @ half.T)


def directions(K: int) -> FloatArray:
    """Return d_k = e_k − 1/K as rows, shape (K, K)."""
    return np.eye(K) - 1 / K


def own_logits(X: FloatArray) -> FloatArray:
    """Return u_k = d_k·X^k, the own logit over the mean of all, from (…, K, K)."""
    return np.asarray(np.diagonal(X, axis1=-2, axis2=-1) - X.mean(axis=-1))


def measure_collapse(means: FloatArray) -> Collapse:
    """Return how far class means (times × K × p) are from a simplex ETF."""
    K = means.shape[-2]
    norms = np.linalg.norm(means, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = means / norms[..., None]
        cosines = unit @ np.swapaxes(unit, -1, -2)
        pairs = cosines[..., ~np.eye(K, dtype=bool)]
        spread = norms.std(axis=-1) / norms.mean(axis=-1)
    return Collapse(np.abs(pairs + 1 / (K - 1)).max(axis=-1), spread)


def as_array(name: str, given: Any, shape: tuple[int, ...] | None) -> FloatArray:
    """Return finite numbers of a shape, of any where it is None."""
    try:
        found = as_floats(given)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise LawscopeError(f"{name} is not an array of numbers ({error}).") from error
    if shape is not None and found.shape != shape:
        wanted = " × ".join(map(str, shape)) or "one number"
        got = " × ".join(map(str, found.shape)) or "one number"
        raise LawscopeError(f"{name} has the shape {got}; it must have {wanted}.")
    if not np.isfinite(found).all():
        raise LawscopeError(f"{name} has entries that are not finite; give numbers.")
    return found


def make_generator(rng: Any) -> np.random.Generator:
    """Return a numpy generator, from one or from a seed."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise LawscopeError(f"rng is not a seed or a numpy generator ({error}).") from error
