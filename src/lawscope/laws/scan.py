"""Every law whose needs are met, measured on a network in one capture."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from lawscope.capture.restore import Mode, turn, unwrap
from lawscope.capture.session import Loss, Session, run_together
from lawscope.capture.taps import Observer, Tap
from lawscope.checks import checked
from lawscope.data.batches import Batch
from lawscope.data.source import RandomState
from lawscope.errors import LawscopeError, LawscopeWarning, NotApplicableError
from lawscope.laws.base import Law, LawObserver, LawResult, Need, R, Settings, check_names
from lawscope.laws.checkpoint import Checkpoint
from lawscope.laws.control import Control, check_control, find_control
from lawscope.laws.provenance import describe_measurement
from lawscope.laws.registry import all_laws, find_law
from lawscope.laws.report import Report
from lawscope.laws.shares import Wanted, check_same_call, open_share, open_source
from lawscope.statistics.distributed import agree, gathered, merges_ranks

# Why a law with such a need is skipped, and what would meet it.
LACKS: dict[Need, str] = {
    "labels": "The loader yields no labels; {law} needs batches (x, y) or dicts with 'labels'.",
    "tokens": "The batches are not token ids of text; {law} needs integer ids (batch, tokens).",
    "loss": "{law} needs a loss; pass loss=, a function of output and labels, as in training.",
    "steps": "{law} follows the steps of a training; attach it to a training loop instead.",
}
T = TypeVar("T")


@checked
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
    names = [laws] if isinstance(laws, str) else all_laws() if laws is None else laws
    if not isinstance(names, Collection) or not names or isinstance(laws, Mapping):
        raise LawscopeError(f"laws={laws!r} names no law; there are {', '.join(all_laws())}.")
    chosen = {law: find_law(law) for law in names}
    given = read_settings(chosen, shared, {} if settings is None else settings)
    wanted = {law: (chosen[law], given[law]) for law in chosen}
    how: dict[str, Any] = {"loss": loss, "control": control, "mode": mode, "progress": progress}
    with turn:
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
    law: Law[R],
    model: nn.Module,
    loader: Any,
    given: Mapping[str, Any],
    control: Control,
    **how: Any,
) -> R:
    """Measure one law and return its result; what a scan would skip raises its reason."""
    check_control(control)
    wanted = {law.name: (law, law.settings.read(law.name, given))}
    with turn:
        results, _ = measure(model, loader, wanted, control=control, strict=True, **how)
    return cast(R, results[law.name])


def read_settings(
    laws: Mapping[str, Law[Any]], shared: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]
) -> dict[str, Settings]:
    """Return the settings of every law: what is shared goes to each law that knows it."""
    if not isinstance(own, Mapping) or not all(isinstance(v, Mapping) for v in own.values()):
        raise LawscopeError(
            f"settings={own!r} is not known; give a dict for each law, as in "
            "settings={'separation': {'folds': 4}}."
        )
    for name in own:
        if name not in laws:
            raise LawscopeError(
                f"settings= names the law {name!r}, which is not measured; there are "
                f"{', '.join(laws)}."
            )
    check_shared(laws, shared)
    known = {name: {f.name for f in dataclasses.fields(law.settings)} for name, law in laws.items()}
    return {
        name: law.settings.read(
            name, {k: v for k, v in shared.items() if k in known[name]} | dict(own.get(name, {}))
        )
        for name, law in laws.items()
    }


def check_shared(laws: Collection[str], names: Collection[str]) -> None:
    """Refuse a shared setting that none of these laws has; the sentence names those that do."""
    having: dict[str, list[str]] = {}
    for name, law in all_laws().items():
        for field in dataclasses.fields(law.settings):
            having.setdefault(field.name, []).append(name)
    arguments = inspect.signature(scan).parameters
    check_names(names, sorted(having), "No law has a", [*arguments][2:-1])
    for name in names:
        if not set(having[name]) & set(laws):
            raise LawscopeError(
                f"None of the laws measured ({', '.join(laws)}) has a setting {name}=; leave it "
                f"out, or measure {' or '.join(having[name])} too."
            )


@checked
def measure(
    model: nn.Module,
    loader: Any,
    laws: Wanted,
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
    if loss is not None and not callable(loss):
        raise LawscopeError(f"loss={loss!r} cannot be called; give a function of output, labels.")
    # A mistake of one rank is an error on all of them, not a deadlock of the others.
    merges = any(merges_ranks(getattr(s, "distributed", None)) for _, s in laws.values())
    source = open_share(model, loader, laws) if merges else open_source(model, loader, laws)
    how: dict[str, Any] = {"mode": mode, "show": progress, "loss": loss}
    session = agree(lambda: Session(model, source, **how), merges)
    if merges:
        check_same_call(session, laws)
    observers = agree(lambda: _observe(session, laws, loss, strict, merges), merges)
    applying = {name: laws[name] for name, observer in observers.items() if not observer.reason}
    together, beside = [(session, list(observers.values()))], dict[str, _Guarded]()
    skipped: dict[str, str] = {}
    kept: dict[str, Any] = {}  # what a checkpoint saves

    def open_control() -> tuple[Session, dict[str, _Guarded]]:
        assert control is not None
        untrained = find_control(session.model, control)
        twin = Session(untrained, source, **how)
        return twin, _observe(twin, applying, loss, False, merges)

    def leave_out(_: Session, error: Exception) -> None:
        _skip_control(error, skipped)
        for name, observer in beside.items():
            observer.reason = skipped["control"]
            kept.pop(f"control {name}", None)

    if control is not None and applying:
        try:
            twin, beside = agree(open_control, merges)
            together.append((twin, list(beside.values())))
        except Exception as error:  # the measurement is worth more than its control
            _skip_control(error, skipped)
    if merges:
        everybody = [observer for _, those in together for observer in those]
        for observer in observers.values():
            observer.before_merge = lambda: _share_reasons(everybody)
    with ExitStack() as stack:
        saved = None
        if checkpoint is not None and applying:
            kept |= {name: observers[name].inner for name in applying}
            kept |= {f"control {name}": o.inner for name, o in beside.items() if not o.reason}
            saved = stack.enter_context(agree(lambda: Checkpoint(checkpoint, kept, source), merges))
        then: dict[str, Any] = {"after_batch": saved, "on_failure": leave_out}
        agree(lambda: run_together(together, source, **then), merges)
    if saved is not None:
        saved.remove()
    made = [describe_measurement(each.model, source.fingerprint) for each, _ in together]
    results: dict[str, LawResult] = {}
    for name, observer in observers.items():
        other = None
        try:
            if name in beside and (other := beside[name].result()) is not None:
                other = other.measured_on(made[-1])
        except Exception as error:  # the measurement is worth more than its control
            _skip_control(error, skipped)
        result = observer.result(other)
        if result is None:
            skipped[name] = observer.reason
            continue
        results[name] = dataclasses.replace(result.measured_on(made[0]), control=other)
        for sentence in result.warnings:
            _warn(sentence)
    if beside and all(observer.reason for observer in beside.values()):
        skipped.setdefault("control", next(iter(beside.values())).reason)
    return results, skipped


def _observe(
    session: Session, laws: Wanted, loss: Loss | None, strict: bool, merges: bool
) -> dict[str, _Guarded]:
    """Return an observer for every law; that of a law whose needs are not met has a reason."""
    met = {
        "labels": session.source.has_labels,
        "tokens": session.source.kind == "tokens",
        "loss": loss is not None,
        "weights": True,
        "steps": False,
    }

    def observe(law: Law[Any], settings: Settings) -> LawObserver[Any]:
        for need in sorted(law.needs):
            if not met[need]:
                raise NotApplicableError(LACKS[need].format(law=law.name))
        if "tokens" in law.needs:
            try:
                _ = session.blocks
            except LawscopeError as error:
                raise NotApplicableError(str(error)) from error
        return law.observe(session, settings)

    observers = {name: _Guarded(strict, observe, *pair) for name, pair in laws.items()}
    if merges:
        _share_reasons(list(observers.values()))
    return observers


class _Guarded(Observer):
    """The observer of a law, which steps aside with the reason where the law does not apply."""

    def __init__(self, strict: bool, observe: Callable[..., LawObserver[Any]], *args: Any) -> None:
        self.strict, self.reason = strict, ""
        self.before_merge: Callable[[], None] = lambda: None
        self.inner: Any = self._try(observe, *args)

    def taps(self) -> Sequence[Tap]:
        return [] if self.reason else self.inner.taps()

    def wants_pass(self) -> bool:
        return not self.reason and self.inner.wants_pass()

    def begin_batch(self, batch: Batch) -> None:
        self._try(lambda: self.inner.begin_batch(batch))

    def see(self, tap: Tap, rows: Tensor) -> None:
        self._try(lambda: self.inner.see(tap, rows))

    def see_output(self, output: Any) -> None:
        self._try(lambda: self.inner.see_output(output))

    def end_batch(self) -> None:
        self._try(lambda: self.inner.end_batch())

    def end_pass(self) -> None:
        self.before_merge()
        self._try(lambda: self.inner.end_pass())

    def result(self, control: LawResult | None = None) -> LawResult | None:
        """Return the result, or None where there is a reason not to."""
        with torch.no_grad():
            return self._try(lambda: self.inner.result(control))

    def _try(self, work: Callable[..., T], *args: Any) -> T | None:
        try:
            return None if self.reason else work(*args)
        except NotApplicableError as error:
            if self.strict:
                raise
            self.reason = str(error)
        return None


def _share_reasons(observers: Sequence[_Guarded]) -> None:
    """Let observers step aside on every rank where they did on one, before any ranks merge."""
    for reasons in gathered([observer.reason for observer in observers]):
        for observer, reason in zip(observers, reasons, strict=True):
            observer.reason = observer.reason or reason


def _skip_control(error: Exception, skipped: dict[str, str]) -> None:
    raised = f"The untrained network raised {type(error).__name__}: {error}"
    if isinstance(error, LawscopeError):
        raised = str(error).replace("The network raised", "The untrained network raised", 1)
    skipped["control"] = raised
    if not isinstance(error, NotApplicableError):
        _warn(f"There is no control: {skipped['control']}")


def _warn(sentence: str) -> None:
    warnings.warn(sentence, LawscopeWarning, stacklevel=6)
