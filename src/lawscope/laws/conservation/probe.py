"""Is the output of a network the same after its parameters were changed? Computed in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lawscope.capture.outputs import main_tensor
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError
from lawscope.laws.conservation.symmetry import Symmetry
from lawscope.precision import without_autocast

CLOSE = 1e-6  # relative change of a sample's output that is rounding; some norms use float32
FAR = 6.0  # further inputs, so many times as large: ReLU6 is homogeneous near zero
SAMPLES = 4
SEED = 0
TINY = 1e-60
FAINT = 1e-3  # root mean square of parameters that are nearly zero
DRAWN = 0.3  # standard deviation of a row's sum in their place, for inputs of size 1


class Probe:
    """A network in float64 with a few samples; nothing of the network itself is changed.

    Parameters that are zero or nearly, as a layer scale of 1e-6 or the second matrix of LoRA at its
    start, are moved away from it: a branch behind them would be too faint to tell its symmetries.
    Every pass draws the same random numbers, so that dropout keeps its mask.
    """

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        self.model = model
        # Before the first run: functional_call hands a module that occurs twice back with copies.
        self.trainable = {name for name, p in model.named_parameters() if p.requires_grad}
        takes = {n: _as_double(p.detach()) for n, p in model.named_parameters()}
        self.parameters = _without_zeros(takes)
        self.buffers = {n: _as_double(b) for n, b in model.named_buffers()}
        few = batch.head(min(batch.size, SAMPLES)).map(_as_double)
        self.batch = few
        size = few.size

        def wider(tensor: Tensor) -> Tensor:
            rows = tensor.dim() > 0 and len(tensor) == size
            return (
                torch.cat([tensor, FAR * tensor if _is_real(tensor) else tensor])
                if rows
                else tensor
            )

        if any(_is_real(t) for t in few.inputs):
            with suppress(Exception):  # it may insist on its batch size
                wide = few.map(wider)
                self.run({}, wide)
                self.batch = wide
        self.before = self.run({})
        if not bool(torch.isfinite(self.before).all()):
            raise LawscopeError(
                "The network's output is not finite on the example, so that nothing can be "
                "compared with it; check its weights and the example."
            )
        if not torch.equal(self.before, self.run({})):
            raise LawscopeError(
                "Two passes over the same samples with the same random numbers differ, so that no "
                "symmetry can be verified; make the forward pass deterministic "
                "(torch.use_deterministic_algorithms(True) says what is not)."
            )

    def again(self) -> Probe:
        """Return a probe of the network as it is now, with the same weights and samples."""
        other = copy.copy(self)
        other.before = other.run({})
        return other

    def run(self, changed: Mapping[str, Tensor], batch: Batch | None = None) -> Tensor:
        """Return the main output with some parameters changed, shape (samples, …)."""
        state: dict[str, Any] = {**self.parameters, **self.buffers, **changed}
        state |= {name: state[name].clone() for name in self.buffers}
        batch = (batch or self.batch).map(torch.clone)
        torch.manual_seed(SEED)
        with without_autocast(), torch.no_grad():
            output = main_tensor(functional_call(self.model, state, batch.args, batch.kwargs))
        if output is None or not output.is_floating_point() or not output.dim():
            raise LawscopeError(
                "The network returns no tensor of real numbers with a row per sample, which a "
                "symmetry would leave as it is; wrap it in a module that does."
            )
        return output.double()

    def residual(self, symmetries: Sequence[Symmetry]) -> float:
        """Return the largest relative change of a sample's output under random elements of all.

        Infinite where one acts on a slice and takes it back: that proves nothing.
        """
        if any(one.cancels for one in symmetries):
            return math.inf
        generator = torch.Generator().manual_seed(SEED)
        parameters = {**self.parameters, **self.buffers}
        touched = {name for symmetry in symmetries for name in symmetry.parameters}
        parameters |= {name: parameters[name].clone() for name in touched}
        for symmetry in symmetries:
            leg = symmetry.legs[0]
            element = symmetry.draw(generator).to(parameters[leg.parameter].device)
            symmetry.act(parameters, element)
        before, after = self.before, self.run(parameters)
        if any("cross-entropy" in s.condition for s in symmetries):
            before, after = before.log_softmax(-1), after.log_softmax(-1)
        if before.shape != after.shape:
            return math.inf
        change, size = ((after - before).flatten(1).norm(dim=1), before.flatten(1).norm(dim=1))
        worst = float((change / size.clamp_min(1e-3 * float(size.max()) or 1.0)).max())
        return worst if worst == worst else math.inf

    def verify(self, symmetries: Sequence[Symmetry]) -> list[float]:
        """Return the residual of each; many are tried at once, and halved where one fails."""
        if not symmetries:
            return []
        together = self.residual(symmetries)
        if together <= CLOSE or len(symmetries) == 1:
            return [together] * len(symmetries)
        half = len(symmetries) // 2
        return self.verify(symmetries[:half]) + self.verify(symmetries[half:])


@contextmanager
def without_epsilon(model: nn.Module) -> Iterator[None]:
    """Take away what norms add to a variance."""
    names = ("eps", "epsilon", "variance_epsilon")
    kept = [
        (module, name, value)
        for module in model.modules()
        for name in names
        if isinstance(value := vars(module).get(name), float)
    ]
    try:
        for module, name, _ in kept:
            setattr(module, name, TINY)
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


def _without_zeros(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return parameters, those that are nearly zero drawn at random."""
    generator, found = torch.Generator().manual_seed(SEED), dict[str, Tensor]()
    for name, value in parameters.items():
        found[name] = value
        if _is_real(value) and value.dim() and float(value.square().mean().sqrt()) < FAINT:
            drawn = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            found[name] = DRAWN * (len(value) / value.numel()) ** 0.5 * drawn.to(value.device)
    return found


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def _as_double(tensor: Tensor) -> Tensor:
    return tensor.double() if _is_real(tensor) else tensor.clone()
