"""All laws that apply to a network, measured in one capture."""

from __future__ import annotations

import copy
import platform
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from lawscope import __version__
from lawscope.capture.pooling import Pooling
from lawscope.capture.session import open_session
from lawscope.capture.source import RandomState
from lawscope.capture.untouched import Mode, unwrapped
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws import collapse_observer as _collapse  # noqa: F401
from lawscope.laws import separation_observer as _separation  # noqa: F401
from lawscope.laws.registry import LAWS, IfItApplies
from lawscope.laws.report import Report
from lawscope.laws.uncertainty import Uncertainty
from lawscope.statistics.memory import DEFAULT_MEMORY


def scan(
    model: nn.Module,
    loader: Any,
    *,
    control: nn.Module | str | None = None,
    name: str | None = None,
    stations: str | Sequence[str] = "layers",
    uncertainty: Uncertainty | None = "jackknife",
    memory: str | int = DEFAULT_MEMORY,
    pooling: Pooling = "mean",
    class_names: Sequence[str] | None = None,
    mode: Mode = "eval",
    progress: bool | None = None,
) -> Report:
    """Measure every law that applies to ``model`` on ``loader``, in one capture.

    A law that has no meaning here (collapse of a network without a linear head) is left out, and
    ``report.skipped`` says why.

    Args:
        model: any ``nn.Module``; left exactly as found.
        loader: labelled batches, see :func:`lawscope.separation`.
        control: the same network untrained, to hold the measurement against; "auto" makes one by
            drawing new weights where every module can (and goes without otherwise).
        name: what is measured, for the report; the class of the model by default.
        stations: see :func:`lawscope.separation`.
        uncertainty: see :func:`lawscope.separation`.
        memory: see :func:`lawscope.separation`.
        pooling: see :func:`lawscope.separation`.
        class_names: see :func:`lawscope.separation`.
        mode: see :func:`lawscope.separation`.
        progress: see :func:`lawscope.separation`.

    Returns:
        The report; ``.save("report.html")`` writes the page.

    Raises:
        LawscopeError: the data or the network cannot be measured.
    """
    settings: dict[str, Any] = {
        "stations": stations,
        "uncertainty": uncertainty,
        "memory": memory,
        "class_names": class_names,
    }

    def measure(
        network: nn.Module, description: str, laws: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        with open_session(network, loader, pooling=pooling, mode=mode, show=progress) as session:
            observers = {law: IfItApplies(LAWS[law], session, settings) for law in laws}
            session.measure(list(observers.values()), description)
        results = {law: observer.result() for law, observer in observers.items()}
        return results, {law: o.reason for law, o in observers.items() if o.reason}

    results, skipped = measure(model, "measuring", list(LAWS))
    for result in filter(None, results.values()):
        for sentence in result.warnings:
            warnings.warn(sentence, LawscopeWarning, stacklevel=2)
    untrained = reinitialised(model) if control == "auto" else control
    if isinstance(untrained, str):
        raise LawscopeError(f"control={control!r} is not known; pass a module, 'auto' or None.")
    controls: dict[str, Any] = {}
    if untrained is not None:
        controls, _ = measure(untrained, "measuring the untrained control", ["separation"])
    return Report(
        name=name or type(unwrapped(model)).__name__,
        separation=results["separation"],
        control=controls.get("separation"),
        collapse=results["collapse"],
        skipped=skipped,
        settings={"control": "none" if untrained is None else "untrained"},
        versions=versions(),
    )


def reinitialised(model: nn.Module, seed: int = 20221030) -> nn.Module | None:
    """A copy of the network with new weights, or None when a module cannot draw its own.

    Every module that owns parameters must have ``reset_parameters``, as those of torch do. The
    random generators are left as found.
    """
    inner = unwrapped(model)
    if not all(_reset(m) for m in inner.modules() if any(True for _ in m.parameters(False))):
        return None
    before = RandomState(None)
    try:
        torch.manual_seed(seed)
        fresh = copy.deepcopy(inner)
        for module in fresh.modules():
            reset = _reset(module)
            if reset is not None:
                reset()
    finally:
        before.restore()
    kept = dict(inner.named_parameters())
    if any(p.dim() > 1 and torch.equal(p, kept[name]) for name, p in fresh.named_parameters()):
        return None  # weights made of other tensors (weight_norm) were not drawn anew
    return fresh


def _reset(module: nn.Module) -> Callable[[], None] | None:
    """How a module draws new weights; multi-head attention hides it."""
    for name in ("reset_parameters", "_reset_parameters"):
        method = getattr(module, name, None)
        if callable(method):
            return method  # type: ignore[no-any-return]
    return None


def versions() -> dict[str, str]:
    """What the measurement was made with."""
    return {
        "lawscope": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
