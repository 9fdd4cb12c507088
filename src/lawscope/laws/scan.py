"""All laws that apply to a network, measured in one capture."""

from __future__ import annotations

import copy
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from lawscope import __version__
from lawscope.capture.pooling import Pooling
from lawscope.capture.session import open_session
from lawscope.capture.source import RandomState
from lawscope.capture.untouched import Mode, unwrapped
from lawscope.errors import LawscopeError, LawscopeWarning, NotApplicableError
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
    head: str | None = None,
    class_names: Sequence[str] | None = None,
    mode: Mode = "eval",
    progress: bool | None = None,
) -> Report:
    """Measure every law that applies to ``model`` on ``loader``, in one capture.

    A law that has no meaning here (collapse of a network without a linear head) is left out, as is
    a control that cannot be measured, and ``report.skipped`` says why.

    Args:
        model: any ``nn.Module``; left exactly as found.
        loader: labelled batches, see :func:`lawscope.separation`.
        control: the same network untrained, to hold the measurement against; "auto" makes one by
            drawing new weights where every module can (and goes without otherwise). Data that can
            be read once leaves nothing for it.
        name: what is measured, for the report; the class of the model by default.
        stations: see :func:`lawscope.separation`.
        uncertainty: see :func:`lawscope.separation`.
        memory: see :func:`lawscope.separation`.
        pooling: see :func:`lawscope.separation`.
        head: see :func:`lawscope.collapse`; needed where the network has several heads.
        class_names: see :func:`lawscope.separation`.
        mode: see :func:`lawscope.separation`.
        progress: see :func:`lawscope.separation`.

    Returns:
        The report; ``.save("report.html")`` writes the page.

    Raises:
        LawscopeError: the data or the network cannot be measured.
    """
    if not (control is None or control == "auto" or isinstance(control, nn.Module)):
        raise LawscopeError(f"control={control!r} is not known; pass a module, 'auto' or None.")
    settings: dict[str, Any] = {
        "stations": stations,
        "uncertainty": uncertainty,
        "memory": memory,
        "head": head,
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
    controls: dict[str, Any] = {}
    if control is not None:
        try:
            untrained = _untrained(model, control, loader)
            controls, _ = measure(untrained, "measuring the untrained control", ["separation"])
        except NotApplicableError as error:
            skipped["control"] = str(error)
        except Exception as error:  # the measurement is made, and worth more than its control
            skipped["control"] = why = _in_words(error)
            warnings.warn(f"There is no control: {why}", LawscopeWarning, stacklevel=2)
    return Report(
        name=name or type(unwrapped(model)).__name__,
        separation=results["separation"],
        control=controls.get("separation"),
        collapse=results["collapse"],
        skipped=skipped,
        settings={"control": "untrained" if controls else "none"},
        versions=versions(),
    )


def _untrained(model: nn.Module, control: nn.Module | str, loader: Any) -> nn.Module:
    """The control to measure.

    Raises:
        NotApplicableError: there is none, or no data left for it.
    """
    if isinstance(loader, Iterator):
        raise NotApplicableError(
            "The data can be read only once, so nothing is left for the untrained network; pass a "
            "list or a DataLoader."
        )
    if isinstance(control, nn.Module):
        return control
    fresh = reinitialised(model)
    if fresh is None:
        raise NotApplicableError(
            "Not every module of the network can draw new weights (reset_parameters); pass the "
            "untrained network itself as control=."
        )
    return fresh


def _in_words(error: Exception) -> str:
    """A reason in our own words, or in those of the user's network."""
    if isinstance(error, LawscopeError):
        return str(error)
    return f"The untrained network raised {type(error).__name__}: {error}"


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
