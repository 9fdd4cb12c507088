"""From the moments of every block to the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.laws.line import fit_line, log_or_nan
from lawscope.laws.next_token_advice import advise
from lawscope.laws.next_token_result import NextToken
from lawscope.laws.next_token_verdict import find_bend, judge
from lawscope.laws.uncertainty import Replicates
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.statistics.prediction_residual import ENOUGH, STEEP
from lawscope.statistics.regression import Regression
from lawscope.statistics.side_by_side import one_thread, side_by_side
from lawscope.statistics.token_sums import CODINGS

if TYPE_CHECKING:
    from lawscope.laws.next_token_observer import NextTokenObserver

WIDE = 400  # features from which blocks are quicker solved side by side
LOST = {False: 1e-8, True: 0.05}  # share of PR lost to rounding that is told: float64, fast


def summarise(observer: NextTokenObserver, control: NextToken | None) -> NextToken:
    """Solve every block's regressions and judge the line, for all targets.

    Raises:
        LawscopeError: not more tokens than features.
    """
    n, d = observer.n, observer.found.blocks.width
    if n <= d:
        raise LawscopeError(
            f"{n} tokens were measured for {d} features: a regression would fit them exactly and "
            f"say nothing. Pass at least {d + 1 - n} more, better {ENOUGH * d - n} more."
        )
    parts = _solved(observer.statistics)
    settings, warnings = _settings(observer), _warnings(observer, parts)
    names = observer.settings.targets
    controls = {} if control is None else control.targets
    results = [
        _one(i, name, observer, parts, controls.get(name), settings, warnings)
        for i, name in enumerate(names)
    ]
    others = dict(zip(names[1:], results[1:], strict=True))
    return dataclasses.replace(results[0], others=others)


def _solved(statistics: Sequence[PredictionMoments]) -> list[Regression]:
    """The regressions of every block; what lives on a device is solved there."""
    if any(statistic.device.type != "cpu" for statistic in statistics):
        return [statistic.compute() for statistic in statistics]
    side_by_side([statistic.work_off for statistic in statistics], most=len(statistics))
    if statistics[0].dim >= WIDE:
        return side_by_side([statistic.compute for statistic in statistics])
    with one_thread():  # side by side, the many small steps of narrow blocks wait for each other
        return [statistic.compute() for statistic in statistics]


def _one(
    i: int,
    target: str,
    observer: NextTokenObserver,
    parts: Sequence[Regression],
    control: NextToken | None,
    settings: dict[str, Any],
    warnings: tuple[str, ...],
) -> NextToken:
    """The result of one target."""
    n, d = parts[0].n, observer.found.blocks.width
    pr = np.array([part.pr[i] for part in parts])
    rank = np.array([part.rank for part in parts])
    deleted = np.stack([part.deleted[:, i] for part in parts[1:]], axis=1)
    replicates = Replicates(log_or_nan(deleted), "jackknife") if len(deleted) > 1 else None
    curve = log_or_nan(pr[1:])
    fit = fit_line(pr[1:], replicates)
    verdict, reason = judge(fit, curve, replicates, n, d)
    bend = find_bend(curve, replicates)
    return NextToken(
        blocks=observer.names,
        target=target,
        pr=pr,
        pr_adjusted=pr * (n - 1) / np.maximum(n - rank - 1, 1),
        pr_cv=np.array([part.cv[i] for part in parts]),
        pr_onehot=np.array([part.onehot[i] for part in parts]),
        onehot_error=np.array([part.onehot_error[i] for part in parts]),
        rank=rank,
        condition=np.array([part.condition for part in parts]),
        n=n,
        d=d,
        fit=fit,
        verdict=verdict,
        reason=reason,
        advice=advise(
            verdict=verdict,
            blocks=observer.names[1:],
            fit=fit,
            bend=bend,
            n=n,
            d=d,
            control=None if control is None else control.fit,
        ),
        final_norm=observer.found.norm.kind,
        control=control,
        settings=settings,
        warnings=warnings,
        replicates=replicates,
    )


def _settings(observer: NextTokenObserver) -> dict[str, Any]:
    own = observer.settings
    exact = all(sums.exact for s in observer.statistics for sums in s.tokens)
    return {
        "task": own.task,
        "targets": list(own.targets),
        "normalization": own.normalization,
        "norm": observer.norm.kind,
        "norm_eps": observer.norm.eps,
        "final_norm_module": observer.found.norm_module,
        "folds": own.folds,
        "every": own.every,
        "precision": own.precision,
        "onehot": ("exact" if exact else f"{CODINGS} codings") if own.onehot else "off",
        "whitened_blocks": [
            name
            for name, s in zip(observer.names, observer.statistics, strict=True)
            if s.basis is not None and s.basis.matrix is not None
        ],
        "bos": "none" if observer.bos is None else f"first token {observer.bos} left out",
        "sequences": observer.sequences,
        "tokens_left_out": observer.left_out,
        "tokens_per_feature": observer.n / observer.found.blocks.width,
        "model": type(observer.model).__name__,
        "seconds": observer.seconds,
    }


def _warnings(observer: NextTokenObserver, parts: Sequence[Regression]) -> tuple[str, ...]:
    n, d = observer.n, observer.found.blocks.width
    fast = observer.settings.precision == "fast"
    sentences = []
    if n < ENOUGH * d:
        sentences.append(
            f"{n} tokens for {d} features are {n / d:.3g} per feature: in-sample PR is about "
            f"{d / n:.0%} too low and its line is noise below {ENOUGH}; pass {ENOUGH * d - n} more."
        )
    steep = [name for name, p in zip(observer.names, parts, strict=True) if p.condition > STEEP]
    if steep:
        worst = max(part.condition for part in parts)
        sentences.append(
            f"{_listed(steep)} have features of condition number up to {worst:.2g}: their PR is "
            "good to fewer than 7 digits."
        )
    dull = [name for name, p in zip(observer.names, parts, strict=True) if p.lost > LOST[fast]]
    if dull and not steep:
        worst = max(part.lost for part in parts)
        sentences.append(
            f"{_listed(dull)} are conditioned worse than their first tokens showed: rounding "
            f"changes PR by about {worst:.0e} of itself. Begin with other parts of the text"
            + (", or use precision='float64'." if fast else ".")
        )
    # A LayerNorm, ours or the block's own, takes one direction away.
    flat = [name for name, p in zip(observer.names, parts, strict=True) if p.rank < d - 1]
    if flat:
        least = min(part.rank for part in parts)
        sentences.append(
            f"{_listed(flat)} have dependent features (rank down to {least} of {d}): directions "
            "below the rounding of their dtype"
            + (", or of fast products (a thousandth of the largest)," if fast else "")
            + " are left out of the regression."
        )
    return tuple(sentences)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{n}'" for n in names[:3]) + (" …" if len(names) > 3 else "")
