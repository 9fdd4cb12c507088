"""Move a network along its symmetries: another point of weight space with the same function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from lawscope.capture.restore import unwrap
from lawscope.checks import checked
from lawscope.data.batches import as_raw
from lawscope.data.source import Source, as_source
from lawscope.errors import LawscopeError
from lawscope.formatting import many, number
from lawscope.laws.conservation.find import find_symmetries
from lawscope.laws.conservation.noise import Loss, per_sample_gradients, rescalings_of
from lawscope.laws.conservation.result import Symmetries
from lawscope.laws.conservation.symmetry import Symmetry
from lawscope.result import Result
from lawscope.section import Section, Table

if TYPE_CHECKING:
    import pandas as pd

SWEEPS = 500
CONVERGED = 1e-13  # largest log-scale of a sweep
Target = Literal["balanced", "noise-equilibrium"]


@dataclass(frozen=True, eq=False, repr=False)
class Teleport(Result):
    """What moving a network along its rescalings changed.

    Attributes:
        target: where to.
        norm: Σθ² before and after.
        gradient: E|g|² of single samples before and after; NaN for "balanced".
        sweeps: how many it took.
        moved: largest log-scale of a unit.
        dead: units left alone, because one of their sides is zero.
    """

    schema: ClassVar[str] = "lawscope.teleport/1"
    target: str
    norm: tuple[float, float]
    gradient: tuple[float, float]
    sweeps: int
    moved: float
    dead: int

    def table(self) -> pd.DataFrame:
        """Return Σθ² and E|g|² before and after."""
        import pandas as pd

        rows = {"norm": self.norm, "gradient": self.gradient}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["before", "after"])

    def section(self) -> Section:
        rows = [
            [name, number(before), number(after)]
            for name, before, after in self.table().itertuples()
        ]
        table = Table("What changed", ["quantity", "before", "after"], rows, main=True)
        dead = [f"{many(self.dead, 'unit')} with a side of zeros left alone."] if self.dead else []
        return Section(title="Teleport", headline=str(self), tables=[table], findings=dead)

    def __str__(self) -> str:
        before, after = map(number, self.norm)
        return f"moved to {self.target} in {many(self.sweeps, 'sweep')}: Σθ² {before} → {after}"


@checked
def teleport(
    model: nn.Module,
    loader: Any,
    target: Target = "balanced",
    *,
    loss: Loss | None = None,
    symmetries: Symmetries | None = None,
) -> Teleport:
    """Move a network along its rescalings, in place; its function stays as it is.

    Scales minimise one convex function of their logarithms, Σ S e^{±2λ}: with S = θ² its minimum is
    the least norm ("balanced": all charges 0), with S = E g² the least gradient noise
    ("noise-equilibrium"). Units are set in turn to λ = ¼ ln(out/in), or its negative, until none
    moves.

    Args:
        model: changed in place; the momentum of an optimizer is not carried along.
        loader: data to find symmetries with, and labelled for "noise-equilibrium".
        target: where to.
        loss: of outputs and labels, for "noise-equilibrium".
        symmetries: of the network, found before.

    Raises:
        LawscopeError: an unknown target, no loss where one is needed, or no rescaling.
    """
    if target not in ("balanced", "noise-equilibrium"):
        raise LawscopeError(
            f"target={target!r} is not known; choose 'balanced' or 'noise-equilibrium'."
        )
    if target == "noise-equilibrium" and loss is None:
        raise LawscopeError("Noise equilibrium needs the gradients of a loss; pass loss=.")
    source = as_source(loader)
    found = find_symmetries(model, as_raw(source.peek())) if symmetries is None else symmetries
    known = rescalings_of(model, found)
    live = dict(unwrap(model).named_parameters())
    names = sorted({name for one in known for name in one.parameters})
    weights = {name: live[name].detach().double().clone() for name in names}
    before = sum(float(p.detach().double().square().sum()) for p in live.values())
    noise = (float("nan"), float("nan"))
    if target == "balanced":
        squares = {name: value.square() for name, value in weights.items()}
        sweeps, moved, dead = _sweep(known, weights, squares, +1)
    else:
        assert loss is not None
        squares, others = _moments(model, source, loss, names)
        start = others + sum(float(value.sum()) for value in squares.values())
        sweeps, moved, dead = _sweep(known, weights, squares, -1)
        noise = start, others + sum(float(value.sum()) for value in squares.values())
    with torch.no_grad():
        for name, value in weights.items():
            live[name].copy_(value)
    after = sum(float(p.detach().double().square().sum()) for p in live.values())
    return Teleport(target, (before, after), noise, sweeps, moved, dead)


def _moments(
    model: nn.Module, source: Source, loss: Loss, names: Sequence[str]
) -> tuple[dict[str, Tensor], float]:
    """Return E g² of every entry of some parameters, and of all others together."""
    sums: dict[str, Tensor] = {}
    samples = 0
    for gradients in per_sample_gradients(model, source, loss):
        samples += len(next(iter(gradients.values())))
        for name, value in gradients.items():
            sums[name] = sums.get(name, 0) + value.double().square().sum(0)
    means = {name: value / samples for name, value in sums.items()}
    others = sum(float(value.sum()) for name, value in means.items() if name not in names)
    return {name: means[name] for name in names}, others


def _sweep(
    known: Sequence[Symmetry], weights: dict[str, Tensor], squares: dict[str, Tensor], side: int
) -> tuple[int, float, int]:
    """Set units in turn until none moves; squares are θ² (side +1) or E g² (side −1)."""
    total = [torch.zeros(one.units, dtype=torch.float64) for one in known]
    sweeps, dead, largest = 0, 0, float("inf")
    while largest > CONVERGED and sweeps < SWEEPS:
        sweeps, dead, largest = sweeps + 1, 0, 0.0
        for one, moved in zip(known, total, strict=True):
            sums = [torch.zeros(one.units, dtype=torch.float64) for _ in range(2)]
            for leg in one.legs:
                sums[int(leg.sign < 0)] += leg.view(squares[leg.parameter], one.units).sum(1).cpu()
            step = side * 0.25 * (sums[1] / sums[0]).log()
            alive = torch.isfinite(step)
            dead += int((~alive).sum())
            step = torch.where(alive, step, 0.0)
            device = weights[one.legs[0].parameter].device
            one.act(weights, step.exp().to(device))
            one.act(squares, (2 * side * step).exp().to(device))
            moved += step
            largest = max(largest, float(step.abs().max()))
    return sweeps, max(float(moved.abs().max()) for moved in total), dead
