"""How a loss joins the terms of a batch, found by evaluating it, and undone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lawscope.capture.session import Loss, explain_errors
from lawscope.errors import NotApplicableError
from lawscope.precision import without_autocast

NEAR = 1e-3  # how far a row of the gradient may be from that of its sample alone, of its length
NEAR_HALF = 5e-2  # the same in half precision
SUM = 1e-5  # how far from 1 the weight of a sample beside another is in a sum, at most
CHECKED = 8  # every so many batches a weight that is known is looked at again
ROUNDING = 1e3  # times the precision: gradients that are so small may be rounding
SMALL = 1e-2  # of the largest gradient, below which another is not looked at
ALIKE = 1e-2  # how far two samples may be from being joined alike
JOINED = (
    "the loss is neither a mean nor a sum over samples, as a contrastive one, so that gradients of "
    "single samples are not known; pass a loss that is."
)


@dataclass(frozen=True, eq=False)
class Sample:
    """What a network gave for one sample, and its label."""

    output: Tensor  # shape (1, …)
    label: Tensor | None  # shape (1, …)


class Reduction:
    """Turns gradients of the loss of a batch into those of the sum of its terms.

    A loss is Σ mᵢℓᵢ/Σ mᵢ (a mean over samples, over tokens that are not ignored, with weights of
    classes) or Σ ℓᵢ, and a training loop may multiply it (gradient accumulation, GradScaler). Of
    one sample i of a batch, with uᵢ the gradient of its own loss at its output::

        of the batch       r·uᵢ             r = s·mᵢ/Σm   (sum: s)
        beside a reference mᵢ/(mᵢ + m₀)·uᵢ                 (sum: uᵢ)

    so that mᵢ/(m₀·r) times the gradient is that of Σ mᵢℓᵢ/m₀, whatever s. No name of a loss is
    looked at.

    Attributes:
        samples: N, of the batches with a gradient.
        weight: Σm of these in units of the reference; 0 of a sum.
        reference: the first sample with a gradient.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.samples, self.weight = 0, 0.0
        self.reference: Sample | None = None
        self.latest = 1.0
        self.batches = 0
        self.known: dict[int, float | None] = {}  # weights by label

    @property
    def unit(self) -> float:
        """What brings the mean weight of the samples to 1: N/Σm, and 1 of a sum."""
        return self.samples / self.weight if self.weight > 0 else 1.0

    def factor(
        self, output: Tensor, labels: Tensor | None, gradient: Tensor, scaled: bool = False
    ) -> float:
        """Return the factor for gradients of a batch.

        Args:
            output: of the network, shape (n, …).
            labels: shape (n, …).
            gradient: of the loss as it was, at the output; or of a multiple.
            scaled: it may be that of a multiple, so that the loss is evaluated on the whole batch.

        Raises:
            NotApplicableError: the loss joins its samples otherwise.
        """
        lengths = gradient.reshape(len(gradient), -1).to(torch.float64).norm(dim=1)
        place = int(lengths.argmax())
        if not lengths[place] > 0 or not bool(lengths[place].isfinite()):
            return 1.0  # nothing to scale; what is not finite is found elsewhere
        sample = take_sample(output, labels, place)
        alone = self._gradient([sample])
        ratio = project(gradient[place : place + 1], alone)
        half = torch.finfo(gradient.dtype).eps > torch.finfo(torch.float32).eps
        if ratio is None or ratio[1] > (NEAR_HALF if half else NEAR):
            precision = torch.finfo(torch.promote_types(output.dtype, torch.float32)).eps
            if self.reference is not None and float(alone.norm()) < ROUNDING * precision:
                return self.latest  # where the loss is almost zero nothing can be told, nor matters
            raise NotApplicableError(
                "The gradient of the loss at one sample is not that of its own loss, up to a "
                f"factor: {JOINED}"
            )
        first = self.reference is None
        if self.reference is None:
            self.reference = sample
        weight = self._look_up(sample, alone)
        if first and not half:
            self._check_another(output, labels, gradient, lengths, ratio[0], weight)
        self.samples += len(output)
        if weight is None:
            self.latest = 1 / ratio[0]
            return self.latest
        plain = ratio
        # A mean over as many equal samples as there are was not multiplied.
        if scaled and abs(weight / ratio[0] / len(output) - 1) > SUM:
            rows = self._gradient([Sample(output, labels)])[place : place + 1]
            plain = project(rows, alone) or ratio
        self.weight += weight / plain[0]
        self.latest = weight / ratio[0]
        return self.latest

    def _check_another(
        self,
        output: Tensor,
        labels: Tensor | None,
        gradient: Tensor,
        lengths: Tensor,
        ratio: float,
        weight: float | None,
    ) -> None:
        """Refuse a loss that treats a sample with a smaller gradient in another way."""
        smaller = (lengths < lengths.max() / 2) & (lengths > lengths.max() * SMALL)
        if not bool(smaller.any()):
            return
        place = int(torch.where(smaller, lengths, 0.0).argmax())
        sample = take_sample(output, labels, place)
        alone = self._gradient([sample])
        found, its_weight = project(gradient[place : place + 1], alone), self.weigh(sample, alone)
        if found is None or (weight is None) != (its_weight is None):
            alike = False
        else:
            share = 1.0 if weight is None or its_weight is None else its_weight / weight
            alike = abs(found[0] / (ratio * share) - 1) < ALIKE
        if not alike:
            raise NotApplicableError(
                "The loss joins its samples in another way for each, as the root of a mean does: "
                f"{JOINED}"
            )

    def _look_up(self, sample: Sample, alone: Tensor) -> float | None:
        """Return mᵢ/m₀, in most batches that of an earlier sample with the same label."""
        self.batches += 1
        label = sample.label
        if label is None or label.numel() != 1 or label.is_floating_point():
            return self.weigh(sample, alone)
        key = int(label)
        if key not in self.known or self.batches % CHECKED == 0:
            self.known[key] = self.weigh(sample, alone)
        return self.known[key]

    def weigh(self, sample: Sample, alone: Tensor | None = None) -> float | None:
        """Return mᵢ/m₀ of a sample; None where the loss is a sum."""
        assert self.reference is not None
        alone = self._gradient([sample]) if alone is None else alone
        beside = project(self._gradient([sample, self.reference]), alone)
        if beside is None or abs(beside[0] - 1) < SUM:
            return None
        return beside[0] / (1 - beside[0])

    def _gradient(self, samples: list[Sample]) -> Tensor:
        """Return the gradient of the loss of these samples at the output of the first."""
        # In the precision of the network, since it rounds a loss that is almost zero alike.
        dtype = torch.promote_types(samples[0].output.dtype, torch.float32)
        first, *others = (each.output.detach().to(dtype, copy=True) for each in samples)
        labels = [each.label for each in samples if each.label is not None]
        shape = tuple(first.shape)
        with torch.enable_grad(), without_autocast(), explain_errors("loss", shape):
            first.requires_grad_()
            value = self.loss(torch.cat([first, *others]), torch.cat(labels) if labels else None)
            (gradient,) = torch.autograd.grad(value, first)
        return gradient


def take_sample(output: Tensor, labels: Tensor | None, place: int) -> Sample:
    """Copy one sample out of a batch."""
    rows = slice(place, place + 1)
    label = None if labels is None else labels[rows].to(output.device).clone()
    return Sample(output[rows].detach().clone(), label)


def project(whole: Tensor, part: Tensor) -> tuple[float, float] | None:
    """Return how many times one gradient is in another, and what share of that is beside it."""
    a, u = whole.flatten().to(torch.float64), part.flatten().to(torch.float64)
    size = float(u @ u)
    if not size > 0:
        return None
    ratio = float(a @ u) / size
    rest = float((a - ratio * u).norm() / a.norm())
    return (ratio, rest) if ratio else None
