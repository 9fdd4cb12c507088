"""Move a network along its symmetries: another point of weight space with the same function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from lawscope.capture.functional import BYTES, Weights
from lawscope.capture.restore import unwrap
from lawscope.capture.session import Loss
from lawscope.checks import checked
from lawscope.data.batches import as_raw
from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.formatting import many, name_some, number
from lawscope.laws.conservation.charges import check_fits
from lawscope.laws.conservation.descent import Descent, Landscape
from lawscope.laws.conservation.find import find_symmetries
from lawscope.laws.conservation.found import Symmetries
from lawscope.laws.conservation.noise import per_sample_gradients
from lawscope.laws.conservation.steepest import climb
from lawscope.laws.conservation.symmetry import Symmetry
from lawscope.result import Result
from lawscope.section import Bars, Section, Table
from lawscope.theory.equilibrium import geometric_mean

if TYPE_CHECKING:
    import pandas as pd

SWEEPS = 500
CONVERGED = 1e-13  # largest log-scale of a sweep
ROUNDING = 1e-8  # log-scales of rotations below it may no longer fall
MEMORY = 2**30  # bytes of gradients that are held where rotations are moved by them
BUDGET = 1.5
NAN = float("nan")
UNKNOWN = Descent(NAN, NAN, NAN, NAN)
Target = Literal["balanced", "noise-equilibrium", "steepest"]


@dataclass(frozen=True, eq=False, repr=False)
class Teleport(Result):
    """What moving a network along its symmetries changed.

    Pairs are before and after; NaN where there was no loss to measure with.

    Attributes:
        target: where to.
        norm: Σθ².
        noise: E|g|² of single samples; NaN for targets that do not need it.
        gradient: |∇L| of the mean loss.
        sharpness: largest eigenvalue of its Hessian.
        loss: L, which stays.
        stepped: L after one step of gradient descent of length 1/sharpness, which is stable.
        sweeps: how many it took; of "steepest" to the point of least norm, where it begins.
        moved: largest log-scale of a unit.
        dead: units left alone, because one of their sides is zero.
        singular: rotations left alone, because one of their sides does not have full rank.
    """

    schema: ClassVar[str] = "lawscope.teleport/1"
    target: str
    norm: tuple[float, float]
    noise: tuple[float, float]
    gradient: tuple[float, float]
    sharpness: tuple[float, float]
    loss: float
    stepped: tuple[float, float]
    sweeps: int
    moved: float
    dead: int
    singular: tuple[str, ...] = ()

    @property
    def slower(self) -> bool:
        """Whether a stable step lowers the loss by less than before."""
        return self.stepped[1] > self.stepped[0]

    def table(self) -> pd.DataFrame:
        """Return what was measured before and after, a row for each quantity."""
        import pandas as pd

        rows = {
            "norm": self.norm,
            "noise": self.noise,
            "gradient": self.gradient,
            "sharpness": self.sharpness,
            "loss after a stable step": self.stepped,
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["before", "after"])

    def section(self) -> Section:
        rows = [
            [name, number(before), number(after)]
            for name, before, after in self.table().itertuples()
            if not (math.isnan(before) and math.isnan(after))
        ]
        table = Table("What changed", ["quantity", "before", "after"], rows, main=True)
        changed = self.table()
        bars = Bars(
            "After over before",
            list(changed.index),
            (changed["after"] / changed["before"]).to_numpy(),
            reference=1.0,
            reference_label="as before",
        )
        return Section(
            title="Teleport",
            headline=str(self),
            charts=[bars],
            tables=[table],
            findings=self._find_facts(),
            about=[
                "Norm: Σθ². Noise: E|g|² of single samples. Gradient: |∇L|. Sharpness: largest "
                "eigenvalue of the Hessian of L. A step of length 1/sharpness is stable."
            ],
        )

    def _find_facts(self) -> list[str]:
        facts = []
        if not math.isnan(sum(self.stepped)):
            loss, before, after = (number(value) for value in (self.loss, *self.stepped))
            step = f"one stable step takes the loss from {loss} to {after}; it was {before} before"
            worse = "Progress got worse: " if self.slower else ""
            facts.append(f"{worse}{step if worse else step.capitalize()}.")
        if self.dead:
            facts.append(f"{many(self.dead, 'unit')} with a side of zeros left alone.")
        if self.singular:
            facts.append(
                f"Left alone, because a side has less than full rank, so that no point of the "
                f"orbit is balanced: {name_some(list(self.singular), 4)}."
            )
        return facts

    def __str__(self) -> str:
        before, after = map(number, self.norm)
        moved = f"moved to {self.target} in {many(self.sweeps, 'sweep')}: Σθ² {before} → {after}"
        if self.target != "steepest":
            return moved
        steeper = f"moved to steeper ground: |∇L| {' → '.join(map(number, self.gradient))}"
        sharper = f"sharpness {' → '.join(map(number, self.sharpness))}"
        worse = "; progress at a stable step got worse" if self.slower else ""
        return f"{steeper}, {sharper}, Σθ² {before} → {after}{worse}"


@checked
def teleport(
    model: nn.Module,
    loader: Any,
    target: Target = "balanced",
    *,
    loss: Loss | None = None,
    budget: float | None = None,
    symmetries: Symmetries | None = None,
) -> Teleport:
    """Move a network along its symmetries, in place; its function stays as it is.

    Scales minimise one convex function of their logarithms, Σ S e^{±2λ}: with S = θ² its minimum is
    the least norm ("balanced": all charges 0), with S = E g² the least gradient noise
    ("noise-equilibrium"). Units are set in turn to λ = ¼ ln(out/in), or its negative, until none
    moves. Two linear maps in a row, and heads of attention, take the matrix M with MQM = P in the
    place of e^{2λ}: P and Q are UᵀU and WWᵀ, or E g_W g_Wᵀ and E g_Uᵀg_U, and W → √M W.

    "steepest" looks for the largest |∇L| that rescalings reach. It has no maximum, since one side
    of a unit may shrink for ever, so the norm is bounded: Σθ² ≤ ``budget`` times what it was. The
    best of several local maxima is taken. The sharpness grows along with it, as a rule faster than
    |∇L|²: ``.slower`` says whether a stable step has got worse.

    Args:
        model: changed in place; the momentum of an optimizer is not carried along.
        loader: data to find symmetries with, and with labels where the loss needs them.
        target: where to.
        loss: of outputs and labels, the mean over a batch; for "noise-equilibrium" and "steepest",
            and to have gradient, sharpness and a stable step measured before and after.
        budget: of "steepest", from 1; 1.5 by default.
        symmetries: of the network, found before.

    Raises:
        LawscopeError: an unknown target, no loss where one is needed, or nothing to move.
    """
    if target not in ("balanced", "noise-equilibrium", "steepest"):
        raise LawscopeError(
            f"target={target!r} is not known; choose 'balanced', 'noise-equilibrium' or 'steepest'."
        )
    if target != "balanced" and loss is None:
        raise LawscopeError(f"target={target!r} needs the gradients of a loss; pass loss=.")
    if target != "steepest" and budget is not None:
        raise LawscopeError(f"budget= bounds the norm of 'steepest'; leave it out of {target!r}.")
    budget = BUDGET if budget is None else budget
    if not 1 <= budget < math.inf:
        raise LawscopeError(f"budget={budget!r} is not a number from 1: the norm it may have.")
    source = Source([loader] if isinstance(loader, Tensor | dict) else loader)
    if loss is not None and source.read_once:
        raise LawscopeError(
            "The data is read several times; pass a list or a DataLoader instead of a generator."
        )
    found = find_symmetries(model, as_raw(source.peek())) if symmetries is None else symmetries
    known = _choose(model, found, target)
    landscape = None if loss is None else Landscape(model, source, loss)
    start = UNKNOWN if landscape is None else landscape.descend()
    live = dict(unwrap(model).named_parameters())
    names = sorted({name for one in known for name in one.parameters})
    norm = sum(float(p.detach().double().square().sum()) for p in live.values())
    noise = NAN, NAN
    weights = {name: live[name].detach().double().clone()[None] for name in names}
    walk = Walk(known, weights)
    if target == "noise-equilibrium":
        assert loss is not None
        walk.gradients, others = _collect(model, source, loss, names, known)
        first = others + _size(walk.gradients)
        walk.sweep(-1)
        noise = first, others + _size(walk.gradients)
    else:
        if landscape is not None:
            _, slopes = landscape.gradient(landscape.function.weights)
            walk.gradients = {name: slopes[name].clone()[None] for name in names}
        room = budget * norm - (norm - _size(weights))
        walk.sweep(+1)
        if target == "steepest":
            walk.scale(climb(walk.known, weights, walk.gradients, room, walk.scales))
    arrived = {name: value[0] for name, value in weights.items()}
    end = UNKNOWN
    if landscape is not None:
        end = landscape.descend({**landscape.function.weights, **arrived})
    with torch.no_grad():
        for name, value in arrived.items():
            live[name].copy_(value)
    return Teleport(
        target=target,
        norm=(norm, sum(float(p.detach().double().square().sum()) for p in live.values())),
        noise=noise,
        gradient=(start.gradient, end.gradient),
        sharpness=(start.sharpness, end.sharpness),
        loss=start.loss,
        stepped=(start.stepped, end.stepped),
        sweeps=walk.sweeps,
        moved=walk.moved,
        dead=walk.dead,
        singular=tuple(walk.singular),
    )


def _choose(model: nn.Module, found: Symmetries, target: Target) -> list[Symmetry]:
    """Return the symmetries to move along, all of whose parameters take gradients."""
    check_fits(found, dict(unwrap(model).named_parameters()))
    kinds = ("rescaling",) if target == "steepest" else ("rescaling", "double rotation")
    wanted = {*found.rescalings, *(one for one in found.of("double rotation") if one.trainable)}
    known = [one for one in found.found if one.kind in kinds and one in wanted]
    if not known:
        raise LawscopeError(
            f"The network has no {' and no '.join(kinds)} whose parameters take gradients, or only "
            f"behind powers ({found}); there is nowhere to move it."
        )
    return known


def _collect(
    model: nn.Module, source: Source, loss: Loss, names: Sequence[str], known: Sequence[Symmetry]
) -> tuple[Weights, float]:
    """Return rows whose squares sum to E g² of some parameters, and E|g|² of all others.

    Scales need one row, the root mean square. Rotations mix entries and need the gradients of all
    samples.
    """
    turned = {n for one in known if one.kind == "double rotation" for n in one.parameters}
    sums: Weights = {}
    rows: dict[str, list[Tensor]] = {name: [] for name in turned}
    samples = held = 0
    for gradients in per_sample_gradients(model, source, loss):
        samples += len(next(iter(gradients.values())))
        for name, value in gradients.items():
            if name in turned:
                rows[name].append(value)
                held += BYTES * value.numel()
            else:
                sums[name] = sums.get(name, 0) + value.square().sum(0)
        if held > MEMORY:
            raise LawscopeError(
                f"The gradients of {samples} samples take {held / 2**30:.1f} GB, and to turn "
                "layers against each other all are held at once; give fewer samples."
            )
    found = {name: torch.cat(parts) / math.sqrt(samples) for name, parts in rows.items()}
    found |= {name: (sums.pop(name) / samples).sqrt()[None] for name in names if name in sums}
    return found, sum(float(value.sum()) for value in sums.values()) / samples


def _size(tensors: Weights) -> float:
    return sum(float(value.square().sum()) for value in tensors.values())


class Walk:
    """A point on the orbit of a network, moved by one symmetry after the other.

    Args:
        known: the symmetries.
        weights: their parameters, with one axis in front; overwritten.

    Attributes:
        gradients: carried along, rows of them for each parameter.
        scales: log-scales of every rescaling so far, by symmetry.
    """

    def __init__(self, known: Sequence[Symmetry], weights: Weights) -> None:
        self.known = [_beside(one) for one in known]
        self.weights, self.gradients = weights, Weights()
        self.scales = [torch.zeros(one.units, dtype=torch.float64) for one in known]
        self.turned = 0.0
        self.sweeps = self.dead = 0
        self.singular: list[str] = []

    @property
    def moved(self) -> float:
        """The largest log-scale so far."""
        return max(self.turned, *(float(scale.abs().max()) for scale in self.scales))

    def sweep(self, side: int) -> None:
        """Set symmetries in turn until none moves: by weights (+1) or by gradients (−1)."""
        largest = math.inf
        while largest > CONVERGED and self.sweeps < SWEEPS:
            before, largest = largest, 0.0
            self.sweeps, self.dead, self.singular = self.sweeps + 1, 0, []
            for place, one in enumerate(self.known):
                rotates = one.kind == "double rotation"
                step = self._turn(one, side) if rotates else self._rescale(place, one, side)
                largest = max(largest, step)
            if before <= largest < ROUNDING:
                break

    def scale(self, scales: Sequence[Tensor]) -> None:
        """Let log-scales act, one for every unit of every rescaling."""
        for place, (one, scale) in enumerate(zip(self.known, scales, strict=True)):
            self._act(one, scale.exp(), (-scale).exp())
            self.scales[place] += scale

    def _rescale(self, place: int, one: Symmetry, side: int) -> float:
        """Scale the units of a rescaling to where their two sides are equal."""
        into, out = self._sides(one, side)
        step = side * 0.25 * (out / into).log()
        alive = torch.isfinite(step)
        self.dead += int((~alive).sum())
        step = torch.where(alive, step, 0.0)
        self._act(one, step.exp(), (-step).exp())
        self.scales[place] += step
        return float(step.abs().max())

    def _turn(self, one: Symmetry, side: int) -> float:
        """Turn the two layers of a rotation to where their two sides are equal."""
        into, out = (matrix.numpy() for matrix in self._sides(one, side))
        try:
            mean = geometric_mean(out, into) if side > 0 else geometric_mean(into, out)
        except LawscopeError:  # singular
            self.singular.append(one.where)
            return 0.0
        values, vectors = np.linalg.eigh(mean)
        root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
        self._act(one, torch.from_numpy(root), torch.from_numpy(inverse))
        step = float(np.abs(np.log(values)).max()) / 2
        self.turned = max(self.turned, step)
        return step

    def _sides(self, one: Symmetry, side: int) -> tuple[Tensor, Tensor]:
        """Return Σ M² of every unit, or Σ MMᵀ, over what is multiplied and what is divided."""
        held = self.weights if side > 0 else self.gradients
        shape = (one.units,) * (2 if one.kind == "double rotation" else 1)
        sums = [torch.zeros(shape, dtype=torch.float64) for _ in range(2)]
        for leg in one.legs:
            rows = leg.view(held[leg.parameter], one.units)
            square = rows @ rows.T if len(shape) == 2 else rows.square().sum(1)
            sums[int(leg.sign < 0)] += square.cpu()
        return sums[0], sums[1]

    def _act(self, one: Symmetry, element: Tensor, inverse: Tensor) -> None:
        """Change the weights by a symmetric element, and their gradients by its inverse."""
        device = self.weights[one.legs[0].parameter].device
        one.act(self.weights, element.to(device))
        if self.gradients:
            one.act(self.gradients, inverse.to(device))


def _beside(one: Symmetry) -> Symmetry:
    """Return the symmetry of parameters that have an axis of rows in front."""
    return replace(one, legs=tuple(replace(leg, axis=leg.axis + 1) for leg in one.legs))
