"""Stream the moments of every layer: what it reads, and the gradient of what it makes."""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from lawscope.capture.linear import (
    LinearLayer,
    choose_positions,
    find_linear_layers,
    read_maps,
    read_patches,
    rows_by_sample,
    split_heads,
)
from lawscope.capture.outputs import find_logits
from lawscope.capture.session import Session
from lawscope.capture.stations import Station, name_nearest
from lawscope.capture.taps import Tap, What
from lawscope.data.batches import Batch
from lawscope.data.row_hash import hash_samples
from lawscope.errors import LawscopeError, NotApplicableError
from lawscope.formatting import count, many, name_some, percent, size_text
from lawscope.laws.alignment.gather import LayerSums, count_bytes
from lawscope.laws.alignment.measure import Moments, measure_layer
from lawscope.laws.alignment.reduction import Reduction
from lawscope.laws.alignment.result import Alignment, Held, LayerAlignment, without_numbers
from lawscope.laws.alignment.sketch import WHOLE, Frame, find_frame
from lawscope.laws.alignment.verdict import advise, judge
from lawscope.laws.base import LawObserver
from lawscope.laws.learned import AnswerCount
from lawscope.statistics.distributed import gathered, merges_ranks

if TYPE_CHECKING:
    from lawscope.laws.alignment.law import AlignmentSettings

LEAST_FOLDS = 3  # of which a jackknife can be made
MOST_HEADS = 48  # beyond so many heads in all, projections are measured whole
COUPLED = (
    "BatchNorm computes with the statistics of each batch, so that a sample has no gradient of its "
    "own"
)
NO_GRADIENT = (
    "Its gradients are all zero: the loss does not depend on it, or has none left on this data."
)
OUTPUT = Station("output", "output", (), torch.float32)


class AlignmentObserver(LawObserver[Alignment]):
    """Moments of inputs and output gradients of every layer, in one pass."""

    def __init__(self, session: Session, settings: AlignmentSettings) -> None:
        model = session.model
        self.norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
        if session.mode == "train" and self.norms:
            raise NotApplicableError(f"In training mode {COUPLED}; measure in mode='eval'.")
        self.session, self.settings = session, settings
        self.distributed = merges_ranks(settings.distributed)
        self.layers = choose_layers(session, settings.layers)
        self.unit = settings.moments == "unit"
        of_outputs = settings.gradient == "output"
        self.what: What = "output jacobian" if of_outputs else "output gradient"
        self.folds = fit_folds(self.layers, settings, self.unit)
        frames = session.look(
            lambda model, _: [self._find_frame(model, each) for each in self.layers]
        )
        self.sums = [
            LayerSums(layer, self.folds, self.unit, frame)
            for layer, frame in zip(self.layers, frames, strict=True)
        ]
        self.share = [min(1.0, settings.positions / layer.positions) for layer in self.layers]
        self.taps_of: dict[Tap, list[tuple[int, str]]] = {}
        for i, layer in enumerate(self.layers):
            self._tap(Tap(layer.station, "input", "raw"), i, "input")
            self._tap(Tap(layer.station, self.what, "raw"), i, "gradient")
            if layer.entrance is not None:
                self._tap(Tap(layer.entrance, self.what, "raw"), i, "sent back")
        self.reduction = None
        if session.loss is not None and not of_outputs:
            self.reduction = Reduction(session.loss)
        self.output_tap = Tap(OUTPUT, "output gradient", "raw")
        self.answers, self.counts = AnswerCount(), Counter[int]()
        self.pending: dict[tuple[int, str], Tensor] = {}
        self.batch: Batch | None = None
        self.output: Tensor | None = None
        self.output_gradient: Tensor | None = None
        self.batches, self.coupled, self.done = 0, False, False
        self.chosen: Tensor | None = None  # samples of the batch that are read; None for all
        self.weights: list[Tensor] = []

    def _find_frame(self, model: nn.Module, layer: LinearLayer) -> Frame:
        most = self.settings.width
        if max(layer.inputs, layer.outputs) <= most:
            return WHOLE
        return find_frame(layer, layer.weight(model), most)

    def _tap(self, tap: Tap, layer: int, what: str) -> None:
        self.taps_of.setdefault(tap, []).append((layer, what))

    def taps(self) -> Sequence[Tap]:
        if self.done:
            return []
        return [*self.taps_of, *([self.output_tap] if self.what == "output gradient" else [])]

    def wants_batch(self) -> bool:
        self.batches += 1
        return (self.batches - 1) % self.settings.every == 0

    def begin_batch(self, batch: Batch) -> None:
        self.batch, self.output, self.output_gradient, self.pending = batch, None, None, {}
        # Only the batches of a training loop are counted.
        self.chosen = choose_samples(batch.size, self.settings.samples) if self.batches else None
        self.batch_folds = hash_samples(self._few(batch)) % self.folds
        self.coupled |= any(module.training for module in self.norms)
        model = self.session.model
        for sums in self.sums:
            sums.note_weight(model)

    def see(self, tap: Tap, rows: Tensor) -> None:
        assert self.batch is not None
        if tap is self.output_tap:
            self.output_gradient = rows
            return
        for i, what in self.taps_of[tap]:
            found = self._read(i, what, rows, self.batch.size)
            if found is None:
                raise LawscopeError(
                    f"Layer '{self.layers[i].name}' has activations of shape {tuple(rows.shape)} "
                    f"for {many(self.batch.size, 'sample')}, which do not tell samples apart; "
                    "leave it out with layers=."
                )
            if self.what == "output gradient":
                self.pending[i, what] = found
            else:
                name = {"input": "inputs", "gradient": "gradients"}.get(what, what)
                rows_, folds = self._select(i, found, self.batch)
                self.sums[i].update_apart(name, rows_, folds)

    def _read(self, i: int, what: str, x: Tensor, size: int) -> Tensor | None:
        """Return rows (samples chosen, positions kept, d)."""
        layer, share = self.layers[i], self.share[i]
        if layer.kind == "convolution":
            kept = choose_positions(layer.positions, share)
            x = self._choose(x)
            if what != "input":
                return read_maps(x, kept, layer.group)
            module: Any = self.session.model.get_submodule(layer.station.path)
            return read_patches(module, x, kept, layer.group)
        rows: Tensor | None
        if what == "sent back":
            assert layer.entrance is not None
            rows = rows_by_sample(x, size, layer.entrance.batch_dim)
        else:
            rows = rows_by_sample(_as_rows(layer, x, what), size, layer.station.batch_dim)
        if rows is None:
            return None
        rows = self._choose(rows)
        return rows[:, choose_positions(rows.shape[1], share).to(x.device)]

    def _few(self, batch: Batch) -> Batch:
        """Return the inputs of the samples that are read."""
        size = batch.size
        if self.chosen is None:
            return batch
        return batch.map(
            lambda t: self._choose(t) if t.dim() and len(t) == size else t, labels=None
        )

    def _choose(self, rows: Tensor) -> Tensor:
        """Return the rows of the samples that are read."""
        return rows if self.chosen is None else rows[self.chosen.to(rows.device)]

    def see_output(self, output: Any) -> None:
        logits = find_logits(output)
        self.output = None if logits is None else logits.detach()
        assert self.batch is not None
        labels = self.batch.labels
        if labels is not None and labels.dim() == 1 and not labels.is_floating_point():
            self.answers.update(output, labels)
            self.counts.update(labels.tolist())

    def end_batch(self) -> None:
        batch, pending = self.batch, self.pending
        self.pending = {}
        if batch is None or not any(what == "gradient" for _, what in pending):
            return
        factor = self._undo_reduction(batch)
        for i, sums in enumerate(self.sums):
            h, g, back = (pending.get((i, what)) for what in ("input", "gradient", "sent back"))
            if h is None or g is None:
                continue
            rows, folds = self._select(i, h, batch)
            gradients = factor * self._select(i, g, batch)[0]
            sent_back = None if back is None else factor * self._select(i, back, batch)[0]
            sums.update(rows, gradients, folds, sent_back)

    def _select(self, i: int, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return rows (n, d) without padding out of (B, positions kept, d), and their folds."""
        mask = None if batch.mask is None else self._choose(batch.mask.to("cpu", torch.bool))
        chosen = _choose_rows(self.layers[i], mask, x.shape[:2], self.share[i])
        folds = self.batch_folds[:, None].expand(x.shape[:2])
        if chosen is None:
            return x.flatten(0, 1), folds.flatten()
        return x[chosen.to(x.device)], folds[chosen]

    def _undo_reduction(self, batch: Batch) -> float:
        """Return the factor that makes gradients those of the sum of the loss over its terms."""
        output, gradient, labels = self.output, self.output_gradient, batch.labels
        if self.reduction is None or output is None or gradient is None:
            return 1.0
        if gradient.shape != output.shape:
            raise NotApplicableError(
                "The network's main output is not what the loss is computed of; return the scores "
                "alone, or name them logits and leave hidden states out."
            )
        if batch.tokens is not None:
            rows = batch.tokens.rows.to(output.device)
            output, gradient = output.flatten(0, 1)[rows], gradient.flatten(0, 1)[rows]
            labels = batch.tokens.targets[:, 0]
        elif len(output) != batch.size or (labels is not None and len(labels) != len(output)):
            raise NotApplicableError(
                f"The network returns {tuple(output.shape)} for {many(batch.size, 'sample')}; "
                "gradients of single samples need an output with a row for each."
            )
        return self.reduction.factor(output, labels, gradient, scaled=self.batches > 0)

    def end_pass(self) -> None:
        self.done = True
        model = self.session.model
        self.weights = [layer.weight(model).to("cpu", torch.float64) for layer in self.layers]
        self.answers.finish(self.distributed)
        factor = self._agree_on_unit()
        if self.distributed:
            self.counts = sum(gathered(self.counts), Counter[int]())
            self.coupled = any(gathered(self.coupled))
        for layer, sums in zip(self.layers, self.sums, strict=True):
            if factor != 1:
                sums.scale(factor)
            sums.finish(merge=self.distributed)
            if not sums.finite:
                raise LawscopeError(
                    f"Layer '{layer.name}' has NaN or infinite activations or gradients; look at "
                    "its weights and inputs before measuring."
                )

    def _agree_on_unit(self) -> float:
        """Return the factor for this rank's gradients, by which all ranks count in one unit."""
        own = self.reduction
        if own is None:
            return 1.0
        if not self.distributed:
            return own.unit
        references = gathered([own.reference])
        first = next((each[0] for each in references if each[0] is not None), None)
        weight = 1.0
        if first is not None and own.reference is not None and own.weight:
            common = Reduction(own.loss)
            common.reference = first
            weight = common.weigh(own.reference) or 1.0
        samples = sum(gathered(own.samples if own.weight else 0))
        total = sum(gathered(weight * own.weight))
        return weight * (samples / total if total else 1.0)

    def result(self, control: Alignment | None = None) -> Alignment:
        """Measure every layer and head, judge and advise."""
        heads = sum(layer.heads for layer in self.layers)
        split = self.settings.heads if self.settings.heads is not None else heads <= MOST_HEADS
        initial = self._initial_weights()
        layers = tuple(
            found
            for i, layer in enumerate(self.layers)
            for found in self._measure(layer, self.sums[i], self.weights[i], initial[i], split)
        )
        verdict, reason = judge(layers)
        counts = np.array([self.counts[label] for label in sorted(self.counts)], dtype=np.int64)
        classes = np.array(sorted(self.counts), dtype=np.int64)
        result = Alignment(
            layers=layers,
            gradient=self.settings.gradient,
            moments=self.settings.moments,
            measure=self.settings.measure,
            initial=self._describe_initial(),
            accuracy=self.answers.accuracy(classes, counts) if len(classes) else math.nan,
            counts=counts,
            verdict=verdict,
            reason=reason,
            warnings=self._warn_about(layers, split, heads),
            control=control,
            settings=self._describe(split),
        )
        return dataclasses.replace(result, advice=advise(result))

    def _measure(
        self,
        layer: LinearLayer,
        sums: LayerSums,
        weight: Tensor,
        initial: Tensor | None,
        split: bool,
    ) -> list[LayerAlignment]:
        """Return the numbers of a layer, or of each of its heads."""
        found = {name: stat.compute() for name, stat in sums.sums.items()}
        frame = sums.frame
        W = frame.reduce_weight(weight).numpy()
        initial = None if initial is None else frame.reduce_weight(initial)
        sketched = frame is not WHOLE
        moments = Moments(
            weight=W,
            change=None if initial is None else W - initial.numpy(),
            centred=self.settings.moments != "raw",
            jacobian=self.settings.gradient == "output",
            inputs=found["inputs"],
            gradients=found["gradients"],
            cross=found["cross"],
            outputs=found.get("outputs"),
            sent_back=found.get("sent back"),
            shared=layer.shared and not self.unit,  # rows of length 1 do not add
        )
        whole = [(layer.name, slice(None), slice(None))]
        parts = []
        for name, rows, columns in split_heads(layer) if split and not sketched else whole:
            part = moments.select(rows, columns)
            missing = _find_fault(part)
            try:
                numbers = measure_layer(
                    part,
                    # The entries of a matrix mean nothing in other directions than those of units.
                    measure="cosine" if sketched else self.settings.measure,
                    draws=self.settings.null,
                    keep=self.settings.keep,
                )
            except LawscopeError as error:
                missing = missing or str(error)
                numbers = without_numbers(missing)
            if missing:
                numbers = without_numbers(missing)
            outputs, inputs = part.weight.shape
            if sketched:
                outputs, inputs = layer.outputs, layer.inputs
            measured = {"H_b": part.outputs, "G_a": part.sent_back}
            parts.append(
                LayerAlignment(
                    name=name,
                    inputs=inputs,
                    outputs=outputs,
                    rows=found["inputs"].rows,
                    measured=tuple(n for n, m in measured.items() if m is not None),
                    held=self._count_held(sums, weight),
                    missing=missing,
                    **{f.name: getattr(numbers, f.name) for f in dataclasses.fields(numbers)},
                )
            )
        return parts

    def _count_held(self, sums: LayerSums, weight: Tensor) -> Held | None:
        """Return what the directions of a wide layer hold; None of a layer that has all."""
        if sums.frame is WHOLE:
            return None
        inputs, gradients = (len(sums.sums[n].mean[0]) for n in ("inputs", "gradients"))
        return Held(
            inputs=inputs,
            outputs=gradients,
            weight=1 - sums.frame.lost(weight),
            representation=sums.count_held("inputs"),
            gradient=sums.count_held("gradients"),
        )

    def _initial_weights(self) -> list[Tensor | None]:
        """Return κW₀ of every layer, None where nothing is to be taken from W."""
        given, kappa = self.settings.subtract_initial, self.settings.kappa
        if given is None or kappa is None:
            return [None] * len(self.layers)
        model = open_initial(self.session.model, given)
        found: list[Tensor | None] = []
        for layer, weight in zip(self.layers, self.weights, strict=True):
            start = layer.weight(model).to("cpu", torch.float64)
            if start.shape != weight.shape:
                raise LawscopeError(
                    f"Layer '{layer.name}' has a weight of shape {tuple(weight.shape)}, and "
                    f"{tuple(start.shape)} in subtract_initial=; pass the same network as it was "
                    "before training."
                )
            found.append(kappa * start)
        return found

    def _describe_initial(self) -> str:
        if self.settings.subtract_initial is None:
            return ""
        return f"W − {self.settings.kappa:g}·W₀"

    def _warn_about(
        self, layers: Sequence[LayerAlignment], split: bool, heads: int
    ) -> tuple[str, ...]:
        sentences = []
        few = [layer for layer in layers if not layer.enough and not layer.missing]
        if few:
            most = max(max(layer.inputs, layer.outputs) for layer in few)
            has = "it has" if len(few) == 1 else "they have"
            sentences.append(
                f"Of {name_some([layer.name for layer in few], 4)} fewer rows were seen than "
                f"{has} dimensions, where chance aligns a great deal; read the excess, not the raw "
                f"numbers, and give {count(most)} rows or more."
            )
        for layer in layers:
            if layer.held is not None:
                sentences.append(_say_held(layer.name, layer.held))
        if self.coupled:
            sentences.append(f"{COUPLED}: the gradients measured are those of whole batches.")
        if self.folds < self.settings.folds:
            intervals = "" if self.folds >= LEAST_FOLDS else ", without intervals"
            sentences.append(
                f"The moments were kept in {many(self.folds, 'fold')} instead of "
                f"{self.settings.folds} to stay within "
                f"memory={size_text(int(self.settings.memory))}"
                f"{intervals}; raise memory= for all of them."
            )
        if heads > MOST_HEADS and not split and self.settings.heads is None:
            sentences.append(
                f"The {count(heads)} heads were measured together in each projection; heads=True "
                "measures each by itself."
            )
        return tuple(sentences)

    def _describe(self, split: bool) -> dict[str, Any]:
        settings, reduction = self.settings, self.reduction
        found = "as the loop gives it"
        if reduction is not None:
            found = "sum, undone" if not reduction.weight else "mean, undone"
        return {
            "gradient": settings.gradient,
            "moments": settings.moments,
            "measure": settings.measure,
            "initial": self._describe_initial() or "kept",
            "reduction": found,
            "null_draws": settings.null,
            "folds": self.folds,
            "width": settings.width,
            "positions": settings.positions,
            **({"samples_of_a_batch": settings.samples} if self.batches else {}),
            "heads": split,
            "memory_bytes": settings.memory,
            "distributed": self.distributed,
        }


def choose_layers(session: Session, selector: str | Sequence[str] | None) -> list[LinearLayer]:
    """Return the layers named, or all but embeddings and the head."""
    every = find_linear_layers(session)
    if selector is None:
        hidden = [layer for layer in every if layer.kind != "embedding"]
        width = session.output_shape[-1] if session.output_shape else 0
        if len(hidden) > 1 and hidden[-1].outputs == width:
            hidden = hidden[:-1]
        if not hidden:
            raise NotApplicableError(
                "The network shows no layer with a weight matrix (linear, convolution or "
                "attention); alignment is about such layers."
            )
        return hidden
    patterns = [selector] if isinstance(selector, str) else list(selector)
    names = [layer.name for layer in every]
    chosen: set[str] = set()
    for pattern in patterns:
        matched = {n for n in names if n == pattern or fnmatch.fnmatchcase(n, pattern)}
        if not matched:
            raise LawscopeError(_say_unknown(session, pattern, names))
        chosen |= matched
    return [layer for layer in every if layer.name in chosen]


def _say_unknown(session: Session, pattern: str, names: Sequence[str]) -> str:
    known = f"layers with a weight matrix are {name_some(names, 12)}"
    if pattern in session.module_names:
        module = session.model.get_submodule(pattern)
        return (
            f"'{pattern}' is a {type(module).__name__} without a weight matrix of its own, or "
            f"never ran; {known}."
        )
    return f"No layer matches '{pattern}'.{name_nearest(pattern, names)} The {known}."


def fit_folds(layers: Sequence[LinearLayer], settings: AlignmentSettings, unit: bool) -> int:
    """Return how many folds of the moments of all layers fit the budget."""
    memory, most = int(settings.memory), settings.width
    each = sum(count_bytes(layer, unit, most) for layer in layers)
    if each > memory:
        widest = max(layers, key=lambda layer: count_bytes(layer, unit, most))
        raise NotApplicableError(
            f"The moments of {many(len(layers), 'layer')} need {size_text(each)}, more than "
            f"memory={size_text(memory)}; the widest is '{widest.name}' ({widest.inputs} → "
            f"{widest.outputs}): raise memory=, lower width=, or name fewer layers "
            "with layers=."
        )
    fitting = min(settings.folds, memory // each)
    return fitting if fitting >= LEAST_FOLDS else 1


def open_initial(model: nn.Module, given: nn.Module | Mapping[str, Tensor]) -> nn.Module:
    """Return the network as it was before training."""
    if isinstance(given, nn.Module):
        return given
    initial = copy.deepcopy(model)
    try:
        initial.load_state_dict(dict(given))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise LawscopeError(
            "subtract_initial= is not a state dict of this network: "
            f"{str(error).partition(chr(10))[0]}; pass the network as it was before training, or "
            "its state_dict()."
        ) from error
    return initial


def _say_held(name: str, held: Held) -> str:
    """Say what was left out of a wide layer."""
    return (
        f"Layer '{name}' is too wide to be measured whole (width=): it is measured by cosine in "
        f"the {held.inputs} and {held.outputs} leading directions of its weight, which hold "
        f"{percent(held.weight)} of W, {percent(held.representation)} of H_a and "
        f"{percent(held.gradient)} of G_b; what is outside is left out."
    )


def choose_samples(size: int, most: int) -> Tensor | None:
    """Return which samples of a batch are read, evenly spaced; None for all."""
    if size <= most:
        return None
    return torch.linspace(0, size - 1, most, device="cpu").round().long()


def _as_rows(layer: LinearLayer, x: Tensor, what: str) -> Tensor:
    """Return token ids, which an embedding reads, as rows of zeros with a one."""
    if layer.kind != "embedding" or what != "input":
        return x
    return F.one_hot(x.long(), layer.inputs).to(torch.float32)


def _choose_rows(
    layer: LinearLayer, mask: Tensor | None, shape: Sequence[int], share: float
) -> Tensor | None:
    """Return which rows (samples, positions kept) are not padding; None for all."""
    if mask is None or layer.kind == "convolution":
        return None
    kept = choose_positions(mask.shape[1], share)
    return mask[:, kept] if tuple(shape) == (len(mask), len(kept)) else None


def _find_fault(moments: Moments) -> str:
    """Return why a layer has no numbers, or nothing."""
    if not moments.inputs.rows:
        return "No gradient came with its rows: the loss does not depend on it."
    if not bool(moments.gradients.scatter.any() or moments.gradients.mean.any()):
        return NO_GRADIENT
    if not bool(moments.inputs.scatter.any() or moments.inputs.mean.any()):
        return "What comes into it is zero."
    return ""
