"""Every law whose needs are met, measured on a network in one capture."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.restore import Mode, unwrap
from lawscope.capture.session import Loss, Session, run_together
from lawscope.capture.taps import Observer, Tap
from lawscope.data.batches import Batch, as_batch
from lawscope.data.source import RandomState, Source
from lawscope.data.tokens import are_tokens
from lawscope.errors import LawscopeError, LawscopeWarning, NotApplicableError
from lawscope.laws.base import Law, LawObserver, LawResult, Need, Settings
from lawscope.laws.checkpoint import Checkpoint
from lawscope.laws.control import Control, check_control, find_control
from lawscope.laws.provenance import describe_measurement
from lawscope.laws.registry import all_laws, find_law
from lawscope.laws.report import Report
from lawscope.statistics.distributed import agree, merges_ranks

# Why a law with such a need is skipped, and what would meet it.
LACKS: dict[Need, str] = {
    "labels": "The loader yields no labels; {law} needs batches (x, y) or dicts with 'labels'.",
    "tokens": "The batches are not token ids of text; {law} needs integer ids (batch, tokens).",
    "loss": "{law} needs gradients; pass loss=, a function of output and labels.",
    "steps": "{law} follows the steps of a training; attach it to a training loop instead.",
}


def scan(
    model: nn.Module,
    loader: Any,
    *,
    loss: Loss | None = None,
    laws: Sequence[str] | None = None,
    control: Control = None,
    name: str | None = None,
    mode: Mode = "eval",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    **shared: Any,
) -> Report:
    """Measure every law whose needs ``model`` and ``loader`` meet, in one capture.

    A law that has no meaning here (collapse of a network without a linear head, separation of data
    without labels) is left out, as is a control that cannot be measured; ``report.skipped`` says
    why.

    Args:
        model: any ``nn.Module``; left exactly as found.
        loader: batches, with or without labels, or of token ids; see :func:`lawscope.separation`
            and :func:`lawscope.next_token`.
        loss: a function of output and labels, for laws that need gradients.
        laws: names of the laws to measure; by default all there are.
        control: the same network untrained, to hold the measurement against; "auto" makes one
            where that is possible, and goes without otherwise.
        name: what is measured, for the report; the class of the model by default.
        mode: of the network, "eval" or "train".
        settings: settings of single laws, as in ``{"next_token": {"folds": 4}}``.
        checkpoint: see :func:`lawscope.next_token`; for laws of text.
        progress: show a bar; by default when it takes long and a terminal is there.
        shared: settings that go to every law that has them: ``stations=``, ``pooling=``,
            ``uncertainty=``, ``memory=``, ``class_names=``, ``head=`` …

    Returns:
        The report; ``.save("report.html")`` writes the page, ``.save("run.lawscope.json")`` the
        numbers.

    Raises:
        LawscopeError: the data or the network cannot be measured, or a setting is not known.
    """
    check_control(control)
    if loss is not None and not callable(loss):
        raise LawscopeError(f"loss={loss!r} cannot be called; give a function of output, labels.")
    chosen = all_laws() if laws is None else {law: find_law(law) for law in _listed(laws)}
    given = read_settings(chosen, shared, settings or {})
    wanted = {law: (chosen[law], given[law]) for law in chosen}
    how: dict[str, Any] = {"loss": loss, "control": control, "mode": mode, "progress": progress}
    before = RandomState(None)
    try:
        results, skipped = measure(model, loader, wanted, checkpoint=checkpoint, **how)
    finally:
        before.restore()  # a generator that drew its first batch before it was a source
    if not results:
        reasons = " ".join(dict.fromkeys(skipped.values()))
        raise LawscopeError(f"No law can be measured here. {reasons}")
    beside = "none" if control is None or "control" in skipped else "untrained"
    return Report(
        name=name or type(unwrap(model)).__name__,
        results=results,
        skipped=skipped,
        settings={"laws": list(chosen), "mode": mode, "control": beside},
        provenance=next(iter(results.values())).provenance,
    )


def measure_one(
    law: Law,
    model: nn.Module,
    loader: Any,
    given: Mapping[str, Any],
    *,
    control: Control,
    **how: Any,
) -> LawResult:
    """Measure one law and return its result; what a scan would skip raises its reason."""
    check_control(control)
    wanted = {law.name: (law, law.settings.read(law.name, given))}
    results, _ = measure(model, loader, wanted, control=control, strict=True, **how)
    return results[law.name]


def read_settings(
    laws: Mapping[str, Law], shared: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]
) -> dict[str, Settings]:
    """Return the settings of every law: what is shared goes to each law that knows it."""
    known = {name: {f.name for f in dataclasses.fields(law.settings)} for name, law in laws.items()}
    everywhere = sorted(set().union(*known.values()))
    if not isinstance(own, Mapping) or not all(isinstance(v, Mapping) for v in own.values()):
        raise LawscopeError(
            f"settings={own!r} is not known; give a dict for each law, as in "
            "settings={'separation': {'folds': 4}}."
        )
    for name in shared:
        if name not in everywhere:
            near = difflib.get_close_matches(name, everywhere, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}=?" if near else f"there are {', '.join(everywhere)}."
            raise LawscopeError(f"No law has a setting {name}=; {hint}")
    for name in own:
        if name not in laws:
            raise LawscopeError(
                f"settings= names the law {name!r}, which is not measured; there are "
                f"{', '.join(laws)}."
            )
    given = {
        name: {k: v for k, v in shared.items() if k in known[name]} | dict(own.get(name, {}))
        for name in laws
    }
    return {name: law.settings.read(name, given[name]) for name, law in laws.items()}


def open_source(model: nn.Module, loader: Any, laws: Mapping[str, tuple[Law, Settings]]) -> Source:
    """Return the data as a source: of token ids where a law reads tokens and the data is such."""
    if isinstance(loader, Source):
        return loader
    readers = [settings for law, settings in laws.values() if "tokens" in law.needs]
    if len(readers) < len(laws):
        first: Batch | None = None
        if readers and isinstance(loader, Iterator):
            raw = list(itertools.islice(loader, 1))
            first = as_batch(raw[0]) if raw else None
            loader = itertools.chain(raw, loader)
        elif readers and isinstance(loader, Tensor | Mapping):
            first = as_batch(loader)
        if first is None or not are_tokens(first):
            source = Source(loader)
            if not readers or not are_tokens(source.peek()):
                return source
    return readers[0].open_tokens(loader, getattr(unwrap(model), "config", None))


def measure(
    model: nn.Module,
    loader: Any,
    laws: Mapping[str, tuple[Law, Settings]],
    *,
    loss: Loss | None = None,
    control: Control = None,
    mode: Mode = "eval",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    strict: bool = False,
) -> tuple[dict[str, LawResult], dict[str, str]]:
    """Run the data through the network, and through its control, for all laws at once.

    Returns the results by law, and why others were skipped; ``strict`` raises that instead.
    """
    # A mistake of one rank is an error on all of them, not a deadlock of the others.
    merges = any(merges_ranks(getattr(s, "distributed", None)) for _, s in laws.values())
    source = agree(lambda: open_source(model, loader, laws), merges)
    session = agree(lambda: Session(model, source, mode=mode, show=progress), merges)
    skipped: dict[str, str] = {}
    observers = _observe(session, laws, loss, skipped, strict)
    together: list[tuple[Session, Sequence[Observer]]] = [(session, list(observers.values()))]
    beside: dict[str, _Guarded] = {}
    if control is not None and observers:
        try:
            untrained = find_control(session.model, control)
            twin = Session(untrained, source, mode=mode, show=progress)
            wanted = {name: laws[name] for name in observers}
            beside = _observe(twin, wanted, loss, {}, strict=False)
            together.append((twin, list(beside.values())))
        except Exception as error:  # the measurement is worth more than its control
            _skip_control(error, skipped)
    with ExitStack() as stack:
        saved = None
        if checkpoint is not None and observers:
            saved = stack.enter_context(
                agree(lambda: open_checkpoint(checkpoint, observers, beside, source), merges)
            )

        def leave_out(_: Session, error: Exception) -> None:
            _skip_control(error, skipped)
            beside.clear()

        agree(
            lambda: run_together(
                together, source, loss=loss, after_batch=saved, on_failure=leave_out
            ),
            merges,
        )
    if saved is not None:
        saved.remove()
    provenance = describe_measurement(session.model, source.fingerprint)
    results: dict[str, LawResult] = {}
    for name, observer in observers.items():
        if observer.reason:
            skipped[name] = observer.reason
            continue
        other = _control_result(beside.get(name), skipped)
        try:
            with torch.no_grad():
                result = observer.inner.result(other)
        except NotApplicableError as error:
            if strict:
                raise
            skipped[name] = str(error)
            continue
        results[name] = dataclasses.replace(result, provenance=provenance, control=other)
        for sentence in result.warnings:
            _warn(sentence)
    return results, skipped


def _observe(
    session: Session,
    laws: Mapping[str, tuple[Law, Settings]],
    loss: Loss | None,
    skipped: dict[str, str],
    strict: bool,
) -> dict[str, _Guarded]:
    """Return an observer for every law whose needs are met; note why for the others."""
    observers = {}
    for name, (law, settings) in laws.items():
        try:
            _check_needs(law, session, loss)
            observers[name] = _Guarded(law.observe(session, settings), strict)
        except NotApplicableError as error:
            if strict:
                raise
            skipped[name] = str(error)
    return observers


def _check_needs(law: Law, session: Session, loss: Loss | None) -> None:
    source = session.source
    met = {
        "labels": source.has_labels,
        "tokens": source.kind == "tokens",
        "loss": loss is not None,
        "weights": True,
        "steps": False,
    }
    for need in sorted(law.needs):
        if not met[need]:
            raise NotApplicableError(LACKS[need].format(law=law.name))
    if "tokens" in law.needs:
        try:
            _ = session.blocks
        except LawscopeError as error:
            raise NotApplicableError(str(error)) from error


def open_checkpoint(
    path: str | Path,
    observers: Mapping[str, _Guarded],
    beside: Mapping[str, _Guarded],
    source: Source,
) -> Checkpoint:
    """Return the file that keeps what observers have gathered, where all can be interrupted."""
    for name, observer in observers.items():
        if not hasattr(observer.inner, "state_dict"):
            raise LawscopeError(
                f"checkpoint= is for laws of text, which read the data once; {name} is not one: "
                "leave it out with laws=."
            )
    kept = {name: observer.inner for name, observer in observers.items()}
    kept |= {f"control {name}": observer.inner for name, observer in beside.items()}
    return Checkpoint(path, kept, source)


class _Guarded(Observer):
    """An observer that steps aside, with the reason, once its law turns out not to apply."""

    def __init__(self, inner: LawObserver[Any], strict: bool) -> None:
        self.inner, self.strict, self.reason = inner, strict, ""

    def taps(self) -> Sequence[Tap]:
        return [] if self.reason else self.inner.taps()

    def begin_batch(self, batch: Batch) -> None:
        self._call("begin_batch", batch)

    def see(self, tap: Tap, rows: Tensor) -> None:
        self._call("see", tap, rows)

    def end_batch(self) -> None:
        self._call("end_batch")

    def end_pass(self) -> None:
        self._call("end_pass")

    def _call(self, name: str, *args: Any) -> None:
        if self.reason:
            return
        try:
            getattr(self.inner, name)(*args)
        except NotApplicableError as error:
            if self.strict:
                raise
            self.reason = str(error)


def _control_result(observer: _Guarded | None, skipped: dict[str, str]) -> Any:
    """Return the result of the untrained network, or None."""
    if observer is not None and not observer.reason:
        try:
            with torch.no_grad():
                return observer.inner.result()
        except Exception as error:  # the measurement is worth more than its control
            _skip_control(error, skipped)
    return None


def _skip_control(error: Exception, skipped: dict[str, str]) -> None:
    own = isinstance(error, LawscopeError)
    raised = f"The untrained network raised {type(error).__name__}: {error}"
    skipped["control"] = str(error) if own else raised
    if not isinstance(error, NotApplicableError):
        _warn(f"There is no control: {skipped['control']}")


def _warn(sentence: str) -> None:
    warnings.warn(sentence, LawscopeWarning, stacklevel=5)


def _listed(laws: Sequence[str] | str) -> list[str]:
    names = [laws] if isinstance(laws, str) else laws
    if not isinstance(names, Collection) or not names or isinstance(names, Mapping):
        raise LawscopeError(f"laws={laws!r} names no law; there are {', '.join(all_laws())}.")
    return list(names)
