"""Made-up estimates for the population: from a curve of D and how uncertain it is."""

import math
from types import SimpleNamespace

import numpy as np

from lawscope.laws.population import estimate_population
from lawscope.laws.separation.verdict import judge_population

FOLDS = 8


def make_noise(stations, folds=FOLDS):
    """Draw a centred error per fold and station, the sum of whose squares over folds is one."""
    drawn = np.random.default_rng(0).normal(size=(folds, stations))
    drawn -= drawn.mean(axis=0)
    return drawn / np.linalg.norm(drawn, axis=0)


def make_parts(values, spread=0.01, *, bias=1.0, open_stations=(), samples=100, folds=FOLDS):
    """Return stations whose D̂ is ``values`` with about this standard error of log D̂.

    D of the samples is ``values / bias``. At open stations the weakest contrast is noise.
    """
    noise = make_noise(len(values), folds) * math.sqrt(folds * (folds - 1))
    parts = []
    for i, value in enumerate(values):
        theta, pseudo = bias / value, (1 + spread * noise[:, i]) / value
        # Pseudo-values are F θ − (F − 1) θ₍₋f₎.
        without = (folds * theta - pseudo) / (folds - 1)
        weakest = 0.0 if i in open_stations else 1.0
        contrasts = weakest + 0.1 * noise[:, i] / (folds - 1)
        parts.append(
            SimpleNamespace(
                value=1 / theta,
                unbiased=1 / np.array([theta, *without]),
                contrasts=np.array([weakest, *contrasts]),
                ratios=np.full(folds, float(folds)),
                growth=np.full(folds, folds / (folds - 1)),
                counts=np.array([samples, 2 * samples]),
            )
        )
    return parts


def make_population(values, spread=0.01, **how):
    """Return the judged estimate of :func:`make_parts`, or None where D has no logarithm."""
    if not (np.isfinite(values) & (np.asarray(values) > 0)).all():
        return None
    parts = make_parts(values, spread, **how)
    found = estimate_population(parts)
    here = np.array([part.value for part in parts])
    return judge_population(found, here, int(parts[0].counts.min()))
