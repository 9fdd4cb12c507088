"""Find symmetries, keep samples while the data goes through, take their gradients, judge."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from lawscope.capture.functional import join
from lawscope.capture.outputs import find_logits
from lawscope.capture.restore import sharded_modules
from lawscope.capture.session import Session, compute_loss, explain_errors
from lawscope.capture.trace import trace
from lawscope.data.batches import Batch, as_raw
from lawscope.errors import LawscopeError, NotApplicableError
from lawscope.formatting import count, join_words
from lawscope.laws.base import LawObserver
from lawscope.laws.conservation.charges import charges as compute_charges
from lawscope.laws.conservation.distance import distance_of
from lawscope.laws.conservation.find import SOFTMAX, find_in
from lawscope.laws.conservation.found import Missing, Symmetries
from lawscope.laws.conservation.noise import Equilibrium, noise_equilibrium
from lawscope.laws.conservation.result import Conservation, Conserved
from lawscope.laws.conservation.symmetry import CONTINUOUS
from lawscope.laws.conservation.verdict import advise, judge
from lawscope.laws.probes import Probes
from lawscope.progress import progress
from lawscope.statistics.distributed import gathered, merges_ranks

if TYPE_CHECKING:
    from lawscope.laws.conservation.law import ConservationSettings

SAMPLES = 1000  # by default
MOST_WORK = 10**11  # multiplications of all of them in one forward pass, by default
AT_ONCE = 128  # samples in one batch
SUM = 1e-4  # of the gradient of the logits, relative: rounding
SHOWN = 3  # reasons in a sentence


class ConservationObserver(LawObserver[Conservation]):
    """Keeps samples in one pass over the data; gradients are taken on copies of the weights."""

    def __init__(self, session: Session, settings: ConservationSettings) -> None:
        if session.source.kind == "tokens":
            raise NotApplicableError(
                "Beside laws of text conservation is left out, since finding the symmetries of a "
                "language model takes long; measure it alone: "
                "lawscope.conservation(model, batches, loss), or laws=['conservation']."
            )
        if sharded_modules(session.model):
            raise NotApplicableError(
                "The weights are sharded over processes, and a symmetry changes all of them at "
                "once; measure the network before fully_shard, or a copy of it."
            )
        self.session, self.settings = session, settings
        self.distributed = merges_ranks(settings.distributed)
        self.begun = time.perf_counter()
        try:
            self.symmetries = find_in(session)
        except LawscopeError as error:
            raise NotApplicableError(
                f"Symmetries are looked for in double precision on a few samples. {error}"
            ) from error
        _check_continuous(self.symmetries)
        self.unmeasured = self._refuse()
        sample = sum(t.numel() * t.element_size() for t in session.example.inputs)
        room = int(settings.memory) * session.example.size // max(1, sample)
        self.probes = Probes(min(settings.samples or SAMPLES, max(2, room)), 1)
        self.sees_sum: bool | None = None  # whether the loss sees the same added to all logits
        self.done = False

    def wants_pass(self) -> bool:
        return not self.done

    def begin_batch(self, batch: Batch) -> None:
        self.batch = batch
        if not self.unmeasured:
            self.probes.update(batch, torch.zeros(batch.size, dtype=torch.int64))

    def _refuse(self) -> str:
        """Return why the distance from noise equilibrium is not measured, if it is not."""
        if not self.symmetries.rescalings:
            return (
                "the network has no rescaling that is trained, or only behind powers "
                f"({self.symmetries}), so that noise drives no scale"
            )
        work = self.session.look(count_multiplications)
        if self.settings.samples is None and SAMPLES * work > MOST_WORK:
            return (
                f"the gradients of {SAMPLES} samples of this network, at {count(work // 10**6)} "
                "million multiplications in a forward pass, take minutes, and the distance from "
                f"noise equilibrium was not measured; pass samples={SAMPLES} for it"
            )
        return ""

    def see_output(self, output: Any) -> None:
        shifts = any(one.condition == SOFTMAX for one in self.symmetries.found)
        logits = find_logits(output)
        if self.sees_sum is None and shifts and logits is not None:
            self.sees_sum = self._sees_sum(logits)

    def _sees_sum(self, logits: Tensor) -> bool:
        """Return whether the loss changes with the sum of the logits, as cross-entropy does not."""
        loss = self.session.loss
        assert loss is not None
        precision = torch.promote_types(logits.dtype, torch.float32)
        with torch.enable_grad():
            leaf = logits.detach().to(precision, copy=True).requires_grad_()
            try:
                value = compute_loss(loss, leaf, self.batch)
            except LawscopeError as error:  # the other laws may do without
                raise NotApplicableError(str(error)) from error
            (gradient,) = torch.autograd.grad(value, leaf)
        return bool(gradient.sum(-1).norm() > SUM * gradient.norm())

    def end_pass(self) -> None:
        self.done = True
        if self.distributed:
            self.symmetries, *_ = gathered(self.symmetries)
            self.sees_sum = any(gathered(self.sees_sum))
            self.unmeasured = next(filter(None, gathered(self.unmeasured)), "")
            self.probes, *others = gathered(self.probes)
            self.probes.samples = min(each.samples for each in (self.probes, *others))
            for other in others:
                self.probes.merge(other)

    def result(self, control: Conservation | None = None) -> Conservation:
        """Compute charges, measure the distance from noise equilibrium, judge."""
        model, symmetries = self.session.model, self._find_kept()
        _check_continuous(symmetries)
        places, unmeasured = self._measure_noise(symmetries)
        distance = distance_of(places) if places else None
        samples = len(self._samples()) if places else 0
        verdict, reason = judge(distance, samples, unmeasured)
        return Conservation(
            charges=_describe(model, symmetries, places),
            missing=symmetries.missing,
            distance=distance,
            unmeasured=unmeasured,
            samples=samples,
            verdict=verdict,
            reason=reason,
            advice=advise(verdict, distance),
            settings={
                "samples": self.probes.samples,
                "mode": symmetries.mode,
                "precision": "float64",
                "seconds": round(time.perf_counter() - self.begun, 3),
            },
            control=control,
        )

    def _samples(self) -> Sequence[Batch]:
        (samples,) = self.probes.found().values()
        return samples

    def _find_kept(self) -> Symmetries:
        """Return the symmetries of the network that the loss has too."""
        if not self.sees_sum:
            return self.symmetries
        lost = [one for one in self.symmetries.found if one.condition == SOFTMAX]
        why = "the loss changes where the same is added to all logits"
        missing = [Missing(one.kind, one.where, why) for one in lost]
        return replace(
            self.symmetries,
            found=tuple(one for one in self.symmetries.found if one not in lost),
            missing=(*self.symmetries.missing, *missing),
        )

    def _measure_noise(self, symmetries: Symmetries) -> tuple[Sequence[Equilibrium], str]:
        """Return where noise drives each rescaling, or why that was not measured."""
        if self.unmeasured:
            return (), self.unmeasured
        assert self.session.loss is not None
        samples = self._samples()
        try:
            with progress("gradients", len(samples), self.session.show, unit="sample") as advance:

                def batches() -> Iterator[Any]:
                    for batch in join_alike(samples):
                        yield as_raw(batch)
                        advance(batch.size)

                with explain_errors("network", tuple(samples[0].main.shape)):
                    found = noise_equilibrium(
                        self.session.model, batches(), self.session.loss, symmetries=symmetries
                    )
        except LawscopeError as error:
            return (), f"the distance from noise equilibrium was not measured. {error}"
        return found.places, ""


def count_multiplications(model: nn.Module, batch: Batch) -> int:
    """Return how many multiplications the weights of a network take for one sample, about."""
    weights = {name: p.shape for name, p in model.named_parameters() if p.dim() > 1}
    return sum(
        weights[name].numel() * max(1, math.prod(operation.shape[1:]) // weights[name][0])
        for operation in trace(model, batch).operations
        if operation.kind == "weight"
        for name in operation.parameters
        if name in weights
    )


def join_alike(samples: Sequence[Batch]) -> Iterator[Batch]:
    """Yield batches of samples of equal shapes."""

    def shapes(sample: Batch) -> list[tuple[int, ...]]:
        labels = [] if sample.labels is None else [sample.labels]
        return [tuple(tensor.shape) for tensor in (*sample.inputs, *labels)]

    for _, group in groupby(sorted(samples, key=shapes), shapes):
        alike = list(group)
        for start in range(0, len(alike), AT_ONCE):
            yield join(alike[start : start + AT_ONCE])


def _check_continuous(symmetries: Symmetries) -> None:
    """Refuse a network in which nothing is conserved."""
    if any(one.trainable for one in symmetries.continuous):
        return
    if symmetries.continuous:
        raise NotApplicableError(
            "Every continuous symmetry of the network touches a frozen parameter, so that none "
            "has a charge that training conserves; call model.requires_grad_(True), or unfreeze "
            "what is trained."
        )
    whys = [f"{m.where} ({m.why})" for m in symmetries.missing if m.kind in CONTINUOUS]
    at = f"; not at {', '.join(whys[:SHOWN])}{' …' if len(whys) > SHOWN else ''}" if whys else ""
    raise NotApplicableError(
        "The network has no continuous symmetry, so that training conserves nothing: looked for "
        f"were {join_words(CONTINUOUS)}{at}."
    )


def _describe(
    model: nn.Module, symmetries: Symmetries, places: Sequence[Equilibrium]
) -> tuple[Conserved, ...]:
    """Return what is shown of charges, and where noise drives each rescaling."""
    driven = dict(zip(symmetries.rescalings, places, strict=True)) if places else {}
    found = compute_charges(model, symmetries=symmetries).charges
    return tuple(
        Conserved(
            kind=charge.kind,
            where=charge.where,
            numbers=charge.numbers,
            rms=float(np.sqrt(np.mean(charge.values**2))),
            largest=float(np.abs(charge.values).max()),
            size=charge.size,
            condition=charge.condition,
            conserved=charge.conserved,
            distance=distance_of([driven[one]]) if one in driven else None,
        )
        for one, charge in zip(symmetries.continuous, found, strict=True)
    )
