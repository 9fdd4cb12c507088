"""From the scatter at every station to the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lawscope.capture.select import GRANULARITIES
from lawscope.capture.stations import Station
from lawscope.laws.advice import advise
from lawscope.laws.class_names import class_names_of
from lawscope.laws.line import LineFit, fit_line, log_or_nan
from lawscope.laws.separation_result import Separation
from lawscope.laws.uncertainty import Replicates
from lawscope.laws.verdict import judge
from lawscope.statistics.bootstrap import BOOTSTRAPS
from lawscope.statistics.class_scatter import ClassFuzziness

if TYPE_CHECKING:
    from lawscope.laws.separation_observer import SeparationObserver


def summarise(observer: SeparationObserver) -> Separation:
    """Fit, judge and advise once all passes are done."""
    fits = {name: _fit(observer, chosen) for name, chosen in observer.candidates.items()}
    granularity = _granularity(observer.selector, fits)
    chosen = observer.candidates[granularity]
    parts = [observer.parts[s.operation] for s in chosen]
    values = np.array([p.value for p in parts])
    curve, replicates, fit = log_or_nan(values), _replicates(observer, chosen), fits[granularity]
    interval = None
    if replicates is not None:
        low, high = replicates.interval(lambda c: c, curve)
        interval = np.exp(np.stack([low, high], axis=1))
    verdict, reason = judge(fit, curve, replicates)
    names = tuple(s.name for s in chosen)
    classes, counts = parts[0].classes, parts[0].counts
    return Separation(
        stations=names,
        values=values,
        interval=interval,
        classwise=np.stack([p.classwise for p in parts]),
        classes=classes,
        counts=counts,
        class_names=class_names_of(observer.class_names, classes),
        dims=tuple(p.dim for p in parts),
        ranks=tuple(p.rank for p in parts),
        fit=fit,
        verdict=verdict,
        reason=reason,
        advice=advise(
            verdict=verdict,
            granularity=granularity,
            stations=names,
            curve=curve,
            fit=fit,
            replicates=replicates,
            granularities=fits,
            counts=counts,
        ),
        granularity=granularity,
        granularities=fits,
        settings=_settings(observer, chosen, int(counts.sum())),
        warnings=(
            *_warnings(names, parts),
            *_left_out(observer, granularity),
            *_unmasked(observer, chosen),
        ),
        replicates=replicates,
    )


def _replicates(observer: SeparationObserver, chosen: Sequence[Station]) -> Replicates | None:
    if observer.uncertainty is None:
        return None
    rows = [
        observer.parts[s.operation].deleted
        if observer.uncertainty == "jackknife"
        else observer.resamples[s.operation]
        for s in chosen
    ]
    curves = log_or_nan(np.stack(rows, axis=1))
    return Replicates(curves, observer.uncertainty) if len(curves) > 1 else None


def _fit(observer: SeparationObserver, chosen: Sequence[Station]) -> LineFit:
    values = np.array([observer.parts[s.operation].value for s in chosen])
    return fit_line(values, _replicates(observer, chosen))


def _granularity(selector: str | Sequence[str], fits: dict[str, LineFit]) -> str:
    """What was asked for, or under "auto" the one with the straightest fall."""
    if selector != "auto":
        return selector if selector in GRANULARITIES else "chosen"
    return min(fits, key=lambda name: np.nan_to_num(fits[name].pearson, nan=1.0))


def _left_out(observer: SeparationObserver, granularity: str) -> tuple[str, ...]:
    """Layers that could not be measured, which must not go unsaid."""
    names = observer.session.stations.skipped
    if granularity != "layers" or not names:
        return ()
    some = ", ".join(f"'{n}'" for n in names[:4]) + (" …" if len(names) > 4 else "")
    return (
        f"{len(names)} layer(s) are left out because their activations have no row per sample "
        f"({some}).",
    )


def _unmasked(observer: SeparationObserver, chosen: Sequence[Station]) -> tuple[str, ...]:
    """Stations whose padding takes part in the pooling."""
    names = [s.name for s in chosen if s.operation in observer.session.unmasked]
    if not names:
        return ()
    some = ", ".join(f"'{n}'" for n in names[:4]) + (" …" if len(names) > 4 else "")
    return (
        f"{len(names)} station(s) have other token positions than the attention mask ({some}), so "
        "that padding is pooled with the text there; pass a function as pooling= that leaves it "
        "out.",
    )


def _settings(
    observer: SeparationObserver, chosen: Sequence[Station], samples: int
) -> dict[str, Any]:
    strategies = dict(zip(observer.measured, observer.plan.strategies, strict=True))
    pooling, selector = observer.session.pooling, observer.selector
    unmasked = observer.session.unmasked
    pooled = pooling if isinstance(pooling, str) else getattr(pooling, "__name__", "custom")
    replicates = {"jackknife": observer.index.folds, "bootstrap": BOOTSTRAPS, None: 0}
    return {
        "samples": samples,
        "passes": observer.session.passes,
        "mode": observer.session.mode,
        "strategy": [strategies[s.operation] for s in chosen],
        "pooling": [
            pooled + " (unmasked)" * (s.operation in unmasked) if s.sequence else "flatten"
            for s in chosen
        ],
        "selector": selector if isinstance(selector, str) else list(selector),
        "uncertainty": observer.uncertainty,
        "replicates": replicates[observer.uncertainty],
        "weighting": observer.weighting,
        "memory_bytes": observer.memory,
        "seconds": round(time.perf_counter() - observer.begun, 3),
    }


def _warnings(names: Sequence[str], parts: Sequence[ClassFuzziness]) -> tuple[str, ...]:
    """What deserves a look, as sentences."""
    sentences = []
    single = parts[0].classes[parts[0].counts == 1]
    if len(single):
        some = ", ".join(map(str, single[:5])) + (" …" if len(single) > 5 else "")
        sentences.append(
            f"{len(single)} class(es) have a single sample ({some}): they count in SSb but have "
            "no spread of their own; add samples or leave them out."
        )
    for name, part in zip(names, parts, strict=True):
        full = min(len(part.classes) - 1, part.dim)
        if np.isnan(part.value):
            sentences.append(
                f"At station '{name}' all class means coincide (a dead layer?): D has no meaning "
                "there, and the line cannot be fitted."
            )
        elif part.value == 0:
            sentences.append(
                f"At station '{name}' every sample sits exactly on its class mean: D is 0 and has "
                "no logarithm, so the line cannot be fitted."
            )
        elif part.rank < full:
            sentences.append(
                f"At station '{name}' the class means span {part.rank} of {full} directions: some "
                "classes share a mean or lie on a line."
            )
    return tuple(sentences)
