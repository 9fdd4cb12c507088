"""α and β of a training, estimated from its class means (Zhang, Wang & Su 2021)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import between, count, many, number
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import KeyNumber, Lines, Section
from lawscope.theory.elastic_sde.estimate import (
    Kind,
    Modes,
    Pooling,
    TailIndex,
    estimate_tail,
    find_sign_change,
    mean_interval,
    measure_modes,
    relative_difference,
    solve_strengths,
)
from lawscope.theory.elastic_sde.model import ElasticSDE
from lawscope.theory.elastic_sde.trajectory import ElasticTrajectory, check_means
from lawscope.whole_number import whole_number

STRENGTHS = ("A", "B", "alpha", "beta")
EVEN = 1e-6  # by which distances of steps may differ


@dataclass(frozen=True, eq=False, repr=False)
class ElasticFit(Result):
    """Strengths of local elasticity estimated from class means.

    Attributes:
        model: "I" or "L", whose estimators were used.
        steps: from t₀ on, until a mode is lost in round-off, shape (S,).
        A: ∫α since t₀, mean over trials, NaN if it is void, shape (S,).
        B: ∫β since t₀, likewise.
        alpha: derivative of A by a Savitzky–Golay filter.
        beta: derivative of B.
        intervals: 95 % ends over trials of A, B, alpha, beta and gap (A − B), shape (S, 2).
        tails: tail indices of alpha and beta.
        recorded: all steps, shape (T,).
        U: Σ d_k·X^k at all steps, signed, shape (trials, T); without rows where p ≠ K.
        start: class means at t₀, shape (trials, K, p).
        genuine: own logit (norm where p ≠ K) of every class, mean over trials, shape (S, K).
        imitated: of the simulation with these strengths.
        difference: RD of the simulation, mean over trials, shape (S, K).
        classes: their names.
        voids: why there is no number, in sentences.
        settings: how it was estimated.
    """

    schema: ClassVar[str] = "lawscope.elastic_fit/1"
    derived: ClassVar[tuple[str, ...]] = ("verdict",)
    model: str
    steps: FloatArray
    A: FloatArray
    B: FloatArray
    alpha: FloatArray
    beta: FloatArray
    intervals: dict[str, FloatArray]
    tails: dict[str, TailIndex]
    recorded: FloatArray
    U: FloatArray
    start: FloatArray
    genuine: FloatArray
    imitated: FloatArray
    difference: FloatArray
    classes: tuple[str, ...]
    voids: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def t0(self) -> float:
        """The step from which strengths are estimated."""
        return float(self.steps[0])

    @property
    def gap(self) -> FloatArray:
        """A − B: how much more a class moved itself than the others did, shape (S,)."""
        return self.A - self.B

    @property
    def verdict(self) -> str:
        """Whether a class moved itself more than the others did: by A − B at the end."""
        low, high = self.intervals["gap"][-1]
        last = self.gap[-1]
        if np.isnan(last):
            return "no estimate"
        if np.isnan(low):
            return "locally elastic (one trial)" if last > 0 else "not locally elastic (one trial)"
        return "locally elastic" if low > 0 else "not locally elastic" if high < 0 else "undecided"

    @checked
    def simulate(self, model: Kind | None = None, filtered: bool = True) -> ElasticTrajectory:
        """Return the class means that the LE-ODE gives with these strengths, from those at t₀.

        Args:
            model: "I" or "L"; by default the L-model for logits and the I-model for others.
            filtered: use α and β as the filter gives them, as the paper does; without it the
                differences of A and B, whose integrals are exact.

        Raises:
            LawscopeError: the estimate is void.
        """
        if not np.isfinite([self.alpha, self.beta]).all():
            raise LawscopeError(f"There is nothing to simulate with: {' '.join(self.voids)}")
        K, p = self.start.shape[1:]
        kind = model or ("L" if p == K else "I")
        strengths: tuple[Any, Any] = self.alpha, self.beta
        if not filtered:
            strengths = self._slopes(self.A), self._slopes(self.B)
        sde = ElasticSDE(*strengths, K, p, kind, start=self.t0, times=self.steps)
        means = np.stack([sde.mean(self.steps, X0) for X0 in self.start])
        settings = {"simulated by": kind, "estimated by": self.model, "filtered": filtered}
        return ElasticTrajectory(self.steps, means, self.classes, settings=settings)

    def _slopes(self, values: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the derivative of the straight lines between values at the steps."""
        slopes, inner = np.diff(values) / np.diff(self.steps), self.steps[1:-1]
        return lambda t: slopes[np.searchsorted(inner, t, side="right")]

    def table(self) -> pd.DataFrame:
        """Return one row per step: strengths with their intervals, RD averaged over classes."""
        columns: dict[str, FloatArray] = {"step": self.steps}
        for name in STRENGTHS:
            low, high = self.intervals[name].T
            columns |= {name: getattr(self, name), f"{name} low": low, f"{name} high": high}
        return pd.DataFrame(columns | {"RD": self.difference.mean(axis=1)})

    def section(self) -> Section:
        """Return strengths, genuine against imitated class means, RD and the phase."""
        tones = {"locally elastic": "good", "not locally elastic": "bad"}
        ends = [self._key("A", "∫α since t₀"), self._key("B", "∫β since t₀")]
        ends.append(self._key("gap", "A − B, what separates", "A − B"))
        rd = float(self.difference[-1].mean())
        numbers = [
            *ends,
            *(self._tail(name) for name in ("alpha", "beta")),
            KeyNumber("RD", number(rd), "of the imitation at the end"),
        ]
        return Section(
            title="Strengths of local elasticity",
            verdict=self.verdict,
            tone=tones.get(self.verdict, "open"),
            headline=self._headline(),
            numbers=numbers,
            facts=[many(len(self.start), "trial"), f"{count(len(self.steps))} times"],
            charts=self._charts(),
            findings=self._findings(),
            warnings=self.voids,
            rule="Locally elastic: the 95 % interval over trials of A − B at the end is above 0.",
            settings=[(name, str(value)) for name, value in self.settings.items()],
            papers=("elastic",),
            about=[
                "α is how strongly a class moves itself when its samples are trained on, β how "
                "strongly it moves the others; A and B are their integrals.",
                "RD compares the class means of training with those of the LE-ODE under the "
                "estimated strengths: 0 is equal, 2 is opposite.",
                "Samples become separable if t·(α − β) stays above K/2, in the I-model.",
            ],
        )

    def _key(self, name: str, meaning: str, symbol: str = "") -> KeyNumber:
        value, ends = getattr(self, name)[-1], self.intervals[name][-1].tolist()
        interval = "" if np.isnan(ends[0]) else between(ends, number)
        return KeyNumber(symbol or name, number(float(value)), meaning, interval)

    def _tail(self, name: str) -> KeyNumber:
        tail, symbol = self.tails[name], {"alpha": "α", "beta": "β"}[name]
        interval = "" if np.isnan(tail.slope_interval[0]) else between(tail.slope_interval, number)
        meaning = f"tail index of {symbol} (by the paper's rule {number(tail.paper)})"
        return KeyNumber(f"r_{symbol}", number(tail.slope), meaning, interval)

    def _headline(self) -> str:
        if np.isnan(self.gap[-1]):
            return self.voids[0]
        return (
            f"from step {self.t0:g} to {self.steps[-1]:g} the classes moved themselves by "
            f"A = {number(float(self.A[-1]))} and each other by B = {number(float(self.B[-1]))}."
        )

    def _findings(self) -> list[str]:
        said = []
        if len(self.U):
            last = self.U[:, -1]
            error = last.std(ddof=1) / np.sqrt(len(last)) if len(last) > 1 else np.nan
            ends = f"U ends at {number(float(last.mean()))}"
            ends += "" if np.isnan(error) else f" ± {number(float(error))} (standard error)"
            if last.mean() < -2 * error:
                ends += ": class means moved against their labels"
            said.append(f"{ends}.")
        if self.t0 > self.recorded[0]:
            said.append(f"The {self.model}-model is estimated from step {self.t0:g} on.")
        return said

    def _charts(self) -> list[Lines]:
        x, shown = self.steps, len(self.U) > 0
        gamma = x * (self.alpha - self.beta)
        border = np.full(len(x), len(self.classes) / 2)
        names = [f"{name}, {kind}" for kind in ("trained", "imitated") for name in self.classes]
        both = np.concatenate([self.genuine.T, self.imitated.T])
        label = "own logit d_k·X^k" if shown else "‖X^k‖"
        charts = [
            Lines(
                "Estimated A and B", ["A", "B"], np.stack([self.A, self.B]), x, "step", "integral"
            ),
            Lines(
                "Estimated α and β",
                ["α", "β"],
                np.stack([self.alpha, self.beta]),
                x,
                "step",
                "per step",
            ),
            Lines("Genuine and imitated class means", names, both, x, "step", label),
            Lines(
                "Relative difference of the imitation",
                self.classes,
                self.difference.T,
                x,
                "step",
                "RD",
            ),
            Lines(
                "Phase: t·(α − β) against K/2",
                ["t·(α − β)", "K/2"],
                np.stack([gamma, border]),
                x,
                "step",
                "t·(α − β)",
                note="Above the border samples become separable, below it noise wins (I-model).",
            ),
        ]
        if shown:
            trials = [f"trial {i}" for i in range(len(self.U))]
            charts.append(
                Lines("U = Σ d_k·X^k, signed", trials, self.U, self.recorded, "step", "U")
            )
        return charts

    def __str__(self) -> str:
        return f"{self.model}-model, {self.verdict}: {self._headline()}"


@checked
def fit_elastic(
    trajectory: Any,
    model: Kind = "L",
    t0: float | Literal["auto"] = "auto",
    window: int = 151,
    order: int = 2,
    pooling: Pooling = "norm",
) -> ElasticFit:
    """Estimate α(t) and β(t) from class means recorded along training.

    Each trial gives A and B (see ``lawscope.theory.elastic_sde.estimate``) and, by a
    Savitzky–Golay filter, α and β; they are averaged over trials. An estimate that means nothing is
    NaN and said in ``voids``: where U changes its sign, or a mode is below the rounding.

    Args:
        trajectory: an :class:`ElasticTrajectory`, or its means with steps 0, 1, 2….
        model: "L" for logits (p = K), or "I".
        t0: the step to begin at; "auto" is the first from which U keeps its sign in every trial
            (the first of all in the I-model).
        window: of the filter, in recorded times, odd.
        order: of the filter's polynomials.
        pooling: of the I-model: "norm", or "elements" as in the paper.

    Returns:
        The estimates, with a simulation that they give.

    Raises:
        LawscopeError: logits of another width than K, too few times for the window, steps at
            uneven distances.

    Example:
        >>> from lawscope.theory.elastic_sde.model import ElasticSDE
        >>> steps = np.arange(400.0)
        >>> means = ElasticSDE(0.02, -0.01, K=3).mean(steps)
        >>> found = fit_elastic(ElasticTrajectory(steps, means))
        >>> found.A[-1].round(9), found.beta[-1].round(9)
        (np.float64(7.98), np.float64(-0.01))
    """
    run = trajectory
    if not isinstance(run, ElasticTrajectory):
        means = check_means(trajectory)
        run = ElasticTrajectory(np.arange(float(means.shape[1])), means)
    for name, value, choices in (("model", model, Kind), ("pooling", pooling, Pooling)):
        if value not in get_args(choices):
            known = " or ".join(map(repr, get_args(choices)))
            raise LawscopeError(f"{name}={value!r} is not known; choose {known}.")
    if model == "L" and run.p != run.K:
        raise LawscopeError(
            f"The L-model is of logits, one per class: means have {run.p} features and {run.K} "
            "classes; record the logits, or use model='I'."
        )
    if model == "L" and pooling != "norm":
        raise LawscopeError(
            f"pooling={pooling!r} is of the I-model; leave it out, or use model='I'."
        )
    _check_filter(run.steps, window, order)
    voids: list[str] = []
    U = run.U if run.p == run.K else np.empty((0, len(run.steps)))
    settled = find_sign_change(U) if model == "L" else 0
    first = _find_start(run, t0, window, U, settled, voids)
    steps = run.steps[first:]
    if len(steps) < window:
        fits = _odd(len(steps))
        narrower = f", or give window={fits}" if fits > order else ""
        raise LawscopeError(
            f"From t0={t0} on {many(len(steps), 'time')} are left, fewer than window={window}; "
            f"begin earlier{narrower}."
        )
    modes = measure_modes(run.means[:, first:], model, run.rounding, pooling)
    steps = steps[: _count_known(modes, steps, model, window, order, voids)]
    A, B = (each[:, : len(steps)] for each in solve_strengths(modes, run.K, model))
    if first < settled or modes.lost[..., : len(steps)].any():
        A, B = np.full_like(A, np.nan), np.full_like(B, np.nan)
    spacing = float(np.diff(steps).mean())
    alpha, beta = (_differentiate(each, window, order, spacing) for each in (A, B))
    by_name = {"A": A, "B": B, "alpha": alpha, "beta": beta, "gap": A - B}
    found = ElasticFit(
        model=model,
        steps=steps,
        A=A.mean(axis=0),
        B=B.mean(axis=0),
        alpha=alpha.mean(axis=0),
        beta=beta.mean(axis=0),
        intervals={name: mean_interval(values) for name, values in by_name.items()},
        tails={"alpha": estimate_tail(A, steps), "beta": estimate_tail(B, steps)},
        recorded=run.steps,
        U=U,
        start=run.means[:, first],
        genuine=run.own[:, first : first + len(steps)].mean(axis=0),
        imitated=np.full((len(steps), run.K), np.nan),
        difference=np.full((len(steps), run.K), np.nan),
        classes=run.classes,
        voids=tuple(voids),
        settings={"window": window, "order": order, "t0": t0, "pooling": pooling},
    )
    if np.isfinite([found.alpha, found.beta]).all():
        imitated = found.simulate()
        found.imitated[:] = imitated.own.mean(axis=0)
        apart = relative_difference(run.means[:, first : first + len(steps)], imitated.means)
        found.difference[:] = apart.mean(axis=0)
    return found


def _check_filter(steps: FloatArray, window: int, order: int) -> None:
    degree = whole_number("order", order, 1, "has no derivative")
    wide = whole_number("window", window, 3, "is too short for a filter")
    if wide % 2 == 0 or wide <= degree:
        raise LawscopeError(f"window={wide} must be odd and larger than order={degree}.")
    if wide > len(steps):
        if _odd(len(steps)) <= degree:
            raise LawscopeError(
                f"The trajectory has {len(steps)} times, too few for a filter of order {degree}; "
                "record more often."
            )
        raise LawscopeError(
            f"The trajectory has {len(steps)} times, fewer than window={wide}; give "
            f"window={_odd(len(steps))}, or record more often."
        )
    gaps = np.diff(steps)
    if np.ptp(gaps) > EVEN * gaps.mean():
        raise LawscopeError(
            f"Steps are {gaps.min():g} to {gaps.max():g} apart; the filter needs class means "
            "recorded at equal distances."
        )


def _odd(times: int) -> int:
    """Return the largest odd number up to a number of times."""
    return times - 1 + times % 2


def _find_start(
    run: ElasticTrajectory, t0: Any, window: int, U: FloatArray, settled: int, voids: list[str]
) -> int:
    """Return the index to begin at; an estimate that U voids before it settled is said."""
    first = settled if t0 == "auto" else int(np.searchsorted(run.steps, float(t0)))
    if t0 == "auto" and len(run.steps) - settled < window:
        first = 0
    if first < settled:
        at = run.steps[settled - 1]
        changed = np.flatnonzero((np.sign(U[:, first:]) != np.sign(U[:, -1:])).any(axis=1))
        which = ", ".join(map(str, changed.tolist()))
        said = f"changes its sign up to step {at:g} (trial {which})" if which else "is zero"
        voids.append(f"U {said}: log|U| means nothing across zero; begin later, or train longer.")
    return first


def _count_known(
    modes: Modes, steps: FloatArray, model: str, window: int, order: int, voids: list[str]
) -> int:
    """Return how many times come before a mode is lost in round-off; all if too few."""
    lost = modes.lost
    if not lost.any():
        return len(steps)
    since = int(np.flatnonzero(lost.any(axis=(0, 1)))[0])
    mean = "the mean of all classes"
    names = ("U", "v") if model == "L" else (mean, f"what classes differ by from {mean}")
    gone = [name for i, name in enumerate(names) if lost[i, :, since].any()]
    are = "is" if len(gone) == 1 else "are"
    until = "the estimate ends there" if since >= window else "there is no estimate"
    narrower = f"give window={_odd(since)}, " if window > _odd(since) > order else ""
    voids.append(
        f"From step {steps[since]:g} on {' and '.join(gone)} {are} lost in round-off, so {until}; "
        f"{narrower}record in float64, or use the other model."
    )
    return since if since >= window else len(steps)


def _differentiate(values: FloatArray, window: int, order: int, spacing: float) -> FloatArray:
    """Return the derivative by Savitzky and Golay, NaN of a void estimate."""
    from scipy.signal import savgol_filter

    if np.isnan(values).any():
        return values
    return np.asarray(savgol_filter(values, window, order, deriv=1, delta=spacing, axis=-1))
