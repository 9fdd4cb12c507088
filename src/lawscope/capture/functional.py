"""A network as a function of its weights, on a few samples, in double precision.

The effect of one step on one sample is many orders smaller than the output it is taken from, and
drowns in single precision. The user's weights are copied, and the network is run with the copies.
"""

from __future__ import annotations

import copy
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils import _pytree as pytree

from lawscope.capture.outputs import find_logits
from lawscope.capture.restore import restoring, sharded_modules
from lawscope.capture.session import Loss, compute_loss, explain_errors
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError, NotApplicableError
from lawscope.precision import without_autocast

Weights = dict[str, Tensor]
Value = Callable[[Weights, Batch], Tensor]
NOT_FINITE = (
    "The network gives NaN or infinite logits; look at the weights and inputs before measuring."
)
BYTES = 8  # of a weight in double precision
MOST_SAID = 120  # characters of what vmap raised
ALONE = 1e-6  # relative difference of logits with and without other samples that is rounding


class WeightFunction:
    """The logits f(x; θ) of single samples in eval mode, and gradients with respect to θ.

    Use it inside ``with function.running():``, which leaves the network as it was found.

    Args:
        model: the network; its trainable parameters are θ.
        samples: batches of one sample each, as the network takes them.
        loss: a function of output and labels that can be computed of one sample.

    Attributes:
        weights: θ in float64, by name.
        one_by_one: why gradients were computed one after the other; empty where ``torch.func.vmap``
            took them together, or none were asked of it.
        by_layer: names of the weights whose gradients a layer gives; None until that was tried.

    Raises:
        NotApplicableError: no parameter is trained, or the weights are sharded.
    """

    def __init__(self, model: nn.Module, samples: Sequence[Batch], loss: Loss | None = None):
        self.model, self.one_by_one = model, ""
        self.by_layer: set[str] | None = None
        self.given = loss
        # Class weights of a loss are in single precision.
        self.loss = copy.deepcopy(loss).double() if isinstance(loss, nn.Module) else loss
        if sharded_modules(model):
            raise NotApplicableError(
                "The weights are sharded over processes, and a step of one sample needs all of "
                "them in each; measure the network before fully_shard, or a copy of it."
            )
        parameters = {n: p for n, p in model.named_parameters() if p.is_floating_point()}
        trained = [name for name, p in parameters.items() if p.requires_grad]
        if not trained:
            raise NotApplicableError(
                "All parameters are frozen, so that no step moves them; call "
                "model.requires_grad_(True), or unfreeze what is trained."
            )
        self.device = parameters[trained[0]].device
        if self.device.type == "mps":  # which has no double precision
            self.device = torch.device("cpu")
        tensors = [*model.named_parameters(), *model.named_buffers()]
        copies = {name: self._copy(tensor) for name, tensor in tensors}
        self.weights = {name: copies.pop(name) for name in trained}
        self.fixed = copies
        self._hold([self.as_double(sample) for sample in samples])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run in eval mode and without autocast inside; then put the network back."""
        with restoring(self.model, "eval"), without_autocast():
            yield

    def logits(self, weights: Weights | None = None) -> Tensor:
        """Return f(x; θ) of all samples, float64 of shape (n, K)."""
        weights = weights or self.weights
        parts = [(rows, self.compute(weights, batch)) for rows, batch in self.groups]
        width = {part.shape[1] for _, part in parts}
        if len(width) > 1:
            raise NotApplicableError(
                f"The network returns {sorted(width)} numbers for samples of different lengths; "
                "it needs the same logits for every sample."
            )
        out = parts[0][1].new_empty(len(self.samples), *width)
        for rows, part in parts:
            out[rows] = part
        return out

    def check(self) -> Tensor:
        """Return the logits; refuse a network that has no double precision or no single samples."""
        shape = tuple(self.groups[0][1].main.shape)
        try:
            with torch.no_grad(), explain_errors("network in double precision", shape):
                first, again = self.logits(), self.logits()
                alone = self.compute(self.weights, self.samples[self.groups[0][0][0]])
        except NotApplicableError:
            raise
        except LawscopeError as error:
            raised = str(error).rpartition(";")[0]
            raise NotApplicableError(
                f"{raised}; it must run on a few of the samples, and on one alone, in float64."
            ) from error
        if not first.isfinite().all():
            raise LawscopeError(NOT_FINITE)
        if not torch.equal(first, again):
            raise NotApplicableError(
                "The network gives other logits each time it sees the same samples in eval mode "
                "(dropout that is always on?), so that the effect of a step cannot be seen."
            )
        among = first[self.groups[0][0][0]]
        if not torch.allclose(alone[0], among, rtol=ALONE, atol=ALONE * float(first.abs().max())):
            raise NotApplicableError(
                "The logits of a sample depend on the other samples of its batch, so that a step "
                "on one sample has no meaning; feed samples that stand for themselves."
            )
        return first

    def fit_labels(self, numbers: Sequence[int]) -> None:
        """Label samples by class numbers, if the loss refuses the labels as they came.

        Whole floats and one-hot integers are classes too, but cross-entropy takes neither.

        Raises:
            NotApplicableError: the loss takes neither, with what it says of the labels.
        """
        numbered = [
            replace(sample, labels=torch.tensor([number], device=self.device))
            for sample, number in zip(self.samples, numbers, strict=True)
        ]
        refused = self._refuse(self.samples[0])
        if refused and self._refuse(numbered[0]):
            raise NotApplicableError(str(refused)) from refused
        if refused:
            self._hold(numbered)

    def loss_gradients(self, rows: Sequence[int], names: Sequence[str] | None = None) -> Weights:
        """Return ∇_θ ℓ(x) of these samples, of shape (rows, …) by name of the weight."""
        return self._gradients(self.loss_of, rows, self._choose(names))

    def loss_gradients_of(self, batch: Batch, names: Sequence[str] | None = None) -> Weights:
        """Return ∇_θ ℓ(x) of every sample of another batch, as :meth:`as_double` gives it."""
        return self._each(self.loss_of, self._choose(names), batch)

    def loss_slopes(self, output: Tensor, batch: Batch) -> Tensor:
        """Return ∂ℓ/∂f of the loss of every sample alone, of the shape of the output."""

        def loss_at(moved: Weights, one: Batch) -> Tensor:
            assert self.loss is not None
            return compute_loss(self.loss, one.main + moved["f"], one).reshape(())

        given = Batch((output.detach(),), {}, batch.labels)
        still = {"f": torch.zeros_like(given.main[:1])}
        return _of_each(loss_at, still, given)[0]["f"].flatten(0, 1)

    def loss_of(self, weights: Weights, batch: Batch) -> Tensor:
        """Return the loss of a batch as one number, θ being the network's own but for these."""
        assert self.loss is not None
        output = self.run(weights, batch)
        try:
            return compute_loss(self.loss, output, batch).reshape(())
        except LawscopeError as error:
            if not self._takes_single(output, batch):
                raise
            raise LawscopeError(
                f"{error} It is computed in float64 here, and takes the output in float32 only: "
                "give tensors of its own, as class weights, the type of the output "
                "(weight.to(output))."
            ) from error

    def _takes_single(self, output: object, batch: Batch) -> bool:
        """Return whether the loss as it was given can be computed in single precision."""
        logits, labels = find_logits(output), batch.labels
        if self.given is None or logits is None:
            return False
        if labels is not None and labels.is_floating_point():
            labels = labels.float()
        try:
            compute_loss(self.given, logits.float(), replace(batch, labels=labels))
        except LawscopeError:
            return False
        return True

    def _refuse(self, sample: Batch) -> LawscopeError | None:
        """Return what the loss raises at a sample, if it does."""
        try:
            _one(self.loss_of, self.weights, sample)
        except LawscopeError as error:
            return error
        return None

    def _hold(self, samples: list[Batch]) -> None:
        self.samples = samples
        self.groups = [(rows, self._pick(rows)) for rows in self._alike()]

    def logit_gradients(
        self, column: int, rows: Sequence[int], names: Sequence[str] | None = None
    ) -> Weights:
        """Return ∇_θ f_c(x) of these samples; with respect to these weights, or to all."""
        return self._gradients(
            lambda w, one: self.compute(w, one)[0, column], rows, self._choose(names)
        )

    def _choose(self, names: Sequence[str] | None) -> Weights:
        return self.weights if names is None else {n: self.weights[n] for n in names}

    def run(self, weights: Weights, batch: Batch) -> object:
        """Return the logits for a batch, θ being the network's own but for these weights.

        They depend on these weights for autograd, with gradients of zero where nothing reads them.
        """
        tensors = {**self.fixed, **self.weights, **weights}
        output = functional_call(self.model, tensors, batch.args, batch.kwargs)
        logits = find_logits(output)
        if logits is None:
            return output
        return logits + next(iter(weights.values())).flatten()[:0].sum()

    def compute(self, weights: Weights, batch: Batch) -> Tensor:
        """Return f(x; θ) of a batch, θ being the network's own but for these weights."""
        found = find_logits(self.run(weights, batch))
        if found is None or not found.dim() or len(found) != batch.size:
            shape = None if found is None else tuple(found.shape)
            raise NotApplicableError(
                f"The network returns {shape} for {batch.size} samples; it needs one row of logits "
                "per sample."
            )
        return found.double().reshape(batch.size, -1)

    def _gradients(self, value: Value, rows: Sequence[int], weights: Weights) -> Weights:
        """Return the gradients of single samples: together where the network allows it."""
        wanted, parts = {row: i for i, row in enumerate(rows)}, list[tuple[list[int], Weights]]()
        for members, batch in self.groups:
            places = [i for i, row in enumerate(members) if row in wanted]
            if places:
                chosen = [members[i] for i in places]
                batch = batch if len(places) == len(members) else self._pick(chosen)
                parts.append(([wanted[row] for row in chosen], self._each(value, weights, batch)))
        if len(parts) == 1:
            return parts[0][1]
        order = torch.tensor([place for places, _ in parts for place in places]).argsort()
        return {n: torch.cat([part[n] for _, part in parts])[order] for n in weights}

    def _pick(self, rows: Sequence[int]) -> Batch:
        return join([self.samples[row] for row in rows])

    def _each(self, value: Value, weights: Weights, batch: Batch) -> Weights:
        found, why = _of_each(value, weights, batch, together=not self.one_by_one)
        self.one_by_one = self.one_by_one or why
        return found

    def _alike(self) -> list[list[int]]:
        """Return the samples in groups of equal shapes."""
        groups: dict[object, list[int]] = {}
        for row, sample in enumerate(self.samples):
            kind = tuple((tuple(t.shape), t.dtype) for t in sample.inputs)
            groups.setdefault((kind, tuple(sample.kwargs)), []).append(row)
        return list(groups.values())

    def _copy(self, tensor: Tensor) -> Tensor:
        return _double(tensor.detach().to(self.device, copy=True))

    def as_double(self, batch: Batch) -> Batch:
        """Return a batch in double precision, where the weights are."""
        labels = None if batch.labels is None else _double(batch.labels.to(self.device))
        return batch.map(lambda tensor: _double(tensor.to(self.device)), labels=labels)


def check_finite(gradients: Tensor) -> None:
    """Refuse a loss whose gradients, or numbers made of them, are NaN or infinite."""
    if not gradients.isfinite().all():
        raise LawscopeError(
            "The loss of a sample alone has a gradient of NaN or infinity; the loss must be one "
            "that can be computed of a single sample, as nn.CrossEntropyLoss() is."
        )


def blocks_of(count: int, weights: Weights, memory: int) -> list[range]:
    """Return samples in blocks whose gradients fit the memory, of one sample at least."""
    room = max(1, memory // (BYTES * sum(tensor.numel() for tensor in weights.values())))
    return [range(start, min(start + room, count)) for start in range(0, count, room)]


def _double(tensor: Tensor) -> Tensor:
    """Return a float or complex tensor in double precision, and any other as it is."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def take(batch: Batch, rows: slice) -> Batch:
    """Return some samples of a batch; inputs without a row for each stay."""
    size = batch.size
    labels = None if batch.labels is None else batch.labels[rows]
    return batch.map(
        lambda t: t[rows] if t.dim() and len(t) == size else t, labels=labels, tokens=None
    )


def cut(batch: Batch, row: int) -> Batch:
    """Return a copy of one sample of a batch as a batch of its own."""
    one = take(batch, slice(row, row + 1))
    return one.map(torch.clone, labels=None if one.labels is None else one.labels.clone())


def split(batch: Batch) -> list[Batch]:
    """Return the samples of a batch, each as a batch of its own."""
    return [cut(batch, row) for row in range(batch.size)]


def join(samples: Sequence[Batch]) -> Batch:
    """Return batches of one sample each, of equal shapes, as one batch."""
    columns = zip(*(sample.inputs for sample in samples), strict=True)
    joined = iter([torch.cat(c) if c[0].dim() and len(c[0]) == 1 else c[0] for c in columns])
    labels = [sample.labels for sample in samples if sample.labels is not None]
    return samples[0].map(lambda _: next(joined), labels=torch.cat(labels) if labels else None)


def _of_each(
    value: Value, weights: Weights, batch: Batch, together: bool = True
) -> tuple[Weights, str]:
    """Return gradients of single samples, and why vmap could not compute them if it could not."""
    why = ""
    if batch.size > 1 and together:
        try:
            return _vmapped(value, weights, batch), why
        except Exception as error:  # whatever vmap cannot run; a mistake is raised again below
            said = str(error).strip().partition("\n")[0]
            why = f"{type(error).__name__}: {textwrap.shorten(said, MOST_SAID, placeholder='…')}"
    found = [_one(value, weights, sample) for sample in split(batch)]
    return {name: torch.stack([each[name] for each in found]) for name in weights}, why


def _vmapped(value: Value, weights: Weights, batch: Batch) -> Weights:
    leaves, structure = pytree.tree_flatten((batch.args, batch.kwargs))
    size = batch.size
    own = [isinstance(t, Tensor) and bool(t.dim()) and len(t) == size for t in leaves]

    def of_one(weights: Weights, rows: list[Tensor], label: Tensor | None) -> Tensor:
        given, label = iter(rows), None if label is None else label[None]
        parts = [
            next(given)[None] if each else leaf for each, leaf in zip(own, leaves, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(parts, structure)
        return value(weights, Batch(args, kwargs, label))

    rows = [leaf for each, leaf in zip(own, leaves, strict=True) if each]
    dims = (None, 0, None if batch.labels is None else 0)
    with warnings.catch_warnings():
        # Torch asks to be told of operators it maps in a loop; its users cannot help that.
        warnings.filterwarnings("ignore", message="There is a performance drop")
        found: Weights = vmap(grad(of_one), in_dims=dims)(weights, rows, batch.labels)
    return found


def _one(value: Value, weights: Weights, sample: Batch) -> Weights:
    with torch.enable_grad():
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
        found = value(leaves, sample)
        try:
            gradients = torch.autograd.grad(
                found, list(leaves.values()), allow_unused=True, materialize_grads=True
            )
        except RuntimeError as error:
            said = str(error).strip().partition("\n")[0]
            raise NotApplicableError(
                f"The backward pass through the network fails ({said}); it must work, as "
                "in training."
            ) from error
    return dict(zip(weights, gradients, strict=True))
