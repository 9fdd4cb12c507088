"""Class means recorded along training: what the estimators read and what simulations return."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lawscope.arrays import FloatArray, as_floats
from lawscope.checks import is_list
from lawscope.errors import LawscopeError
from lawscope.files import check_file
from lawscope.formatting import count, many
from lawscope.lazy import pd
from lawscope.result import Result, load
from lawscope.section import Lines, Section
from lawscope.theory.elastic_sde.model import as_array, measure_collapse, own_logits

EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclass(frozen=True, eq=False, repr=False)
class ElasticTrajectory(Result):
    """Mean features of every class along training, of one network or of several trials.

    Attributes:
        steps: training steps (or times), rising, shape (T,).
        means: class means, shape (trials, T, K, p); of one trial (T, K, p) will do.
        classes: names of the classes, numbers by default.
        rounding: relative precision of the means; that of their type by default.
        settings: how they were recorded.

    Raises:
        LawscopeError: fewer than two classes, a class without means, NaN, steps that do not rise or
            do not fit.

    Example:
        >>> run = ElasticTrajectory([0, 10, 20], np.zeros((3, 2, 2)))
        >>> run.means.shape, run.U.shape
        ((1, 3, 2, 2), (1, 3))
    """

    schema: ClassVar[str] = "lawscope.elastic_trajectory/1"
    steps: FloatArray
    means: FloatArray
    classes: tuple[str, ...] = ()
    rounding: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = getattr(self.means, "dtype", None)
        means = check_means(self.means)
        steps = as_array("steps", self.steps, None)
        if steps.ndim != 1 or len(steps) < 2 or (np.diff(steps) <= 0).any():
            raise LawscopeError("steps must be two or more, each later than the one before.")
        if means.shape[1] != len(steps):
            raise LawscopeError(
                f"means are of {means.shape[1]} times, but there are {len(steps)} steps; give the "
                "step of each."
            )
        K = means.shape[2]
        if not is_list(self.classes):
            raise LawscopeError("classes must be a list of names.")
        names = tuple(map(str, self.classes)) or tuple(map(str, range(K)))
        if len(names) != K:
            raise LawscopeError(f"{len(names)} classes are named, but means are of {K} classes.")
        _refuse_missing(means, steps, names)
        rounding = float(as_array("rounding", self.rounding, ()))
        if rounding <= 0:
            rounding = EPSILON.get(str(kind).rpartition(".")[2], EPSILON["float64"])
        values = {"steps": steps, "means": means, "classes": names, "rounding": rounding}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def trials(self) -> int:
        """Number of networks."""
        return len(self.means)

    @property
    def K(self) -> int:  # noqa: N802
        """Number of classes."""
        return int(self.means.shape[2])

    @property
    def p(self) -> int:
        """Number of features."""
        return int(self.means.shape[3])

    @property
    def own(self) -> FloatArray:
        """u_k = d_k·X^k where features are logits, else ‖X^k‖, shape (trials, T, K)."""
        if self.p == self.K:
            return own_logits(self.means)
        return np.asarray(np.linalg.norm(self.means, axis=-1))

    @property
    def U(self) -> FloatArray:  # noqa: N802
        """U = Σ d_k·X^k, signed, shape (trials, T)."""
        if self.p != self.K:
            raise LawscopeError(f"U is of logits, one per class: p = {self.p} is not K = {self.K}.")
        return np.asarray(self.own.sum(axis=-1))

    def table(self) -> pd.DataFrame:
        """Return one row per step: the own logit (or norm) of every class, mean over trials."""
        own = self.own.mean(axis=0)
        error = measure_collapse(self.means.mean(axis=0)).error
        columns = dict(zip(self.classes, own.T, strict=True))
        return pd.DataFrame({"step": self.steps, **columns, "ETF error": error})

    def section(self) -> Section:
        """Return the own logits, and how far the means are from an ETF."""
        logits = self.p == self.K
        title = "Own logit of each class" if logits else "Norm of each class mean"
        label = "d_k·X^k" if logits else "‖X^k‖"
        own = Lines(title, self.classes, self.own.mean(axis=0).T, self.steps, "step", label)
        error = measure_collapse(self.means.mean(axis=0)).error
        far = Lines(
            "Distance to an ETF", ["largest"], error[None], self.steps, "step", "|cos + 1/(K−1)|"
        )
        facts = [many(self.trials, "trial"), f"{count(len(self.steps))} times", f"{self.K} classes"]
        return Section("Class means", headline=str(self), facts=facts, charts=[own, far])

    def __str__(self) -> str:
        ends = f"{self.steps[0]:g} to {self.steps[-1]:g}"
        return (
            f"class means of {self.K} classes, {self.p} features, {many(self.trials, 'trial')}, "
            f"{count(len(self.steps))} times from {ends}"
        )


def read_trajectory(path: Path) -> ElasticTrajectory:
    """Return a saved trajectory, or one from an .npz with ``steps`` and ``means``."""
    if path.suffix.lower() != ".npz":
        found = load(path)
        if not isinstance(found, ElasticTrajectory):
            raise LawscopeError(
                f"{path} is a saved {type(found).__name__}; give class means recorded in training."
            )
        return found
    check_file(path, "give a saved trajectory or an .npz with steps and means")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("steps", "means")}
    except Exception as error:  # whatever a damaged file makes the reader say
        raise LawscopeError(
            f"{path} cannot be read as an .npz with steps and means ({error})."
        ) from None
    return ElasticTrajectory(**arrays)


def check_means(given: Any) -> FloatArray:
    """Return class means, shape (trials, T, K, p), whether or not they are finite."""
    try:
        means = as_floats(given)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise LawscopeError(f"means is not an array of numbers ({error}).") from error
    means = means[None] if means.ndim == 3 else means
    if means.ndim != 4 or 0 in means.shape:
        raise LawscopeError(
            f"means have the shape {' × '.join(map(str, means.shape)) or 'of one number'}; give "
            "trials × times × classes × features."
        )
    if means.shape[2] < 2:
        raise LawscopeError("means are of one class; elasticity is between two or more.")
    return means


def _refuse_missing(means: FloatArray, steps: FloatArray, names: tuple[str, ...]) -> None:
    bad = np.isnan(means.sum(axis=-1)) | np.isinf(means).any(axis=-1)
    missing = [name for k, name in enumerate(names) if bad[:, :, k].all()]
    if missing:
        raise LawscopeError(
            f"Class {', '.join(missing)} has no means at any step; record samples of every class, "
            "or leave it out."
        )
    if bad.any():
        trial, time, k = np.argwhere(bad)[0]
        raise LawscopeError(
            f"The mean of class {names[k]} is not finite at step {steps[time]:g} of trial {trial}: "
            "training diverged there, or the class was not sampled; cut the record before it."
        )
