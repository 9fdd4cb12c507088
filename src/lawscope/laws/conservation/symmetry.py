"""One symmetry: which slices of which parameters a group acts on, and the charge it conserves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Kind = Literal[
    "rescaling", "double rotation", "permutation", "sign flip", "scale invariance", "translation"
]
KINDS: tuple[Kind, ...] = (
    "rescaling",
    "double rotation",
    "scale invariance",
    "translation",
    "sign flip",
    "permutation",
)
CONTINUOUS: tuple[Kind, ...] = KINDS[:4]


@dataclass(frozen=True)
class Leg:
    """A slice of a parameter as a matrix M, one row for each of the ``units`` a group acts on.

    Row i holds the entries ``start + i·stride + s·step`` along ``axis``, for s below ``block``: a
    channel that was flattened has a block of columns, a rotary pair two entries half a head apart.

    Attributes:
        parameter: its name.
        axis: along which the units are counted.
        start: first entry along it.
        stride: from one unit to the next.
        block: entries of one unit.
        step: from one entry of a unit to the next.
        sign: +1 where M becomes T M, as in rows that write a unit; −1 where it becomes T⁻ᵀ M, as in
            columns that read it. The charge counts M with this sign. −k where M becomes T⁻ᵏ M, as
            behind a k-th power.
    """

    parameter: str
    axis: int
    start: int = 0
    stride: int = 1
    block: int = 1
    step: int = 1
    sign: int = 1

    def index(self, units: int) -> Tensor:
        """Return the entries along the axis, shape (units, block)."""
        first = self.start + self.stride * torch.arange(units)[:, None]
        return first + self.step * torch.arange(self.block)

    def view(self, tensor: Tensor, units: int) -> Tensor:
        """Return M, shape (units, entries), of this parameter or of its gradient."""
        length = units * self.block
        if self.step == 1 and self.stride == self.block:  # without copying
            return (
                tensor.narrow(self.axis, self.start, length)
                .movedim(self.axis, 0)
                .reshape(units, -1)
            )
        index = self.index(units).flatten().to(tensor.device)
        return tensor.index_select(self.axis, index).movedim(self.axis, 0).reshape(units, -1)

    def write(self, tensor: Tensor, units: int, rows: Tensor) -> None:
        """Overwrite this part of a parameter with other rows."""
        index = self.index(units).flatten().to(tensor.device)
        moved = tensor.movedim(self.axis, 0)
        moved[index] = rows.reshape(len(index), *moved.shape[1:])


@dataclass(frozen=True)
class Symmetry:
    """A group of changes of the parameters that leave the function of a network as it is.

    Attributes:
        kind: what the group does, see ``docs/conservation.md``.
        where: layers between which it acts, for people.
        legs: the slices of parameters it acts on.
        units: how many rows every leg has.
        residual: largest change of a sample's output under a random element, relative.
        condition: when it holds, beyond what was verified; empty where there is none.
        trainable: whether every parameter takes gradients; without that no charge is conserved.
    """

    kind: Kind
    where: str
    legs: tuple[Leg, ...]
    units: int
    residual: float = 0.0
    condition: str = ""
    trainable: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters it acts on."""
        return tuple(dict.fromkeys(leg.parameter for leg in self.legs))

    @property
    def cancels(self) -> bool:
        """Whether it multiplies and divides one slice, as of a matrix tied to its transpose."""
        return len({replace(leg, sign=1) for leg in self.legs}) < len(set(self.legs))

    @property
    def continuous(self) -> bool:
        """Whether it has a charge."""
        return self.kind in CONTINUOUS

    @property
    def name(self) -> str:
        """The kind and the place."""
        return f"{self.kind} {self.where}"

    @property
    def charges(self) -> int:
        """How many independent numbers its charge has, before dependencies among symmetries."""
        if self.kind == "double rotation":
            return self.units * (self.units + 1) // 2
        return self.units if self.continuous else 0

    def product(
        self, left: Mapping[str, Tensor], right: Mapping[str, Tensor], weights: Sequence[float]
    ) -> Tensor:
        """Return the form xᵀA y, with A the generator of the charge and a weight for every leg.

        Σ ±⟨M_i, N_i⟩ for every unit i; of a double rotation the symmetric part of Σ ±M Nᵀ; of a
        scale invariance the sum over all legs, one for each unit.
        """
        total: Tensor | None = None
        for leg, weight in zip(self.legs, weights, strict=True):
            m = leg.view(left[leg.parameter], self.units)
            n = m if right is left else leg.view(right[leg.parameter], self.units)
            if self.kind == "double rotation":
                part = m @ n.T
                part = part if right is left else (part + part.T) / 2
            else:
                part = (m * n) @ m.new_ones(m.shape[1])
            part = part.double() * (leg.sign * weight)
            total = part if total is None else total + part
        assert total is not None
        return total

    def charge(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Return the Noether charge, float64.

        Rescaling |w_in|² + b² − |w_out|² per unit; double rotation W Wᵀ − UᵀU; scale invariance
        |w|²; translation Σ w over what moves one way, less Σ w over what moves the other.
        """
        return self.form(parameters, [1.0] * len(self.legs))

    def form(self, values: Mapping[str, Tensor], weights: Sequence[float]) -> Tensor:
        """Return the charge with a weight for every leg: Σ ±w of a translation, else xᵀA x."""
        if self.kind != "translation":
            return self.product(values, values, weights)
        return torch.stack(
            [
                leg.sign * weight * leg.view(values[leg.parameter], self.units).double().sum(1)
                for leg, weight in zip(self.legs, weights, strict=True)
            ]
        ).sum(0)

    def act(self, parameters: Mapping[str, Tensor], element: Tensor) -> None:
        """Let a group element change the parameters.

        Args:
            parameters: by name; overwritten.
            element: T, of shape (units, units), or its diagonal; the order of a permutation; for a
                translation what is added to every unit, with the sign of each leg.
        """
        permutes, inverse = not element.is_floating_point(), element
        if self.kind != "translation" and not permutes:
            one = element.dim() == 1
            inverse = element.reciprocal() if one else torch.linalg.inv(element).T
        for leg in self.legs:
            value = parameters[leg.parameter]
            rows = leg.view(value, self.units)
            if self.kind == "translation":
                changed = rows + leg.sign * element[:, None]
            elif permutes:
                changed = rows[element]
            else:
                t = element if leg.sign > 0 else inverse
                t = t if leg.sign >= -1 else t**-leg.sign  # of a rescaling, a diagonal
                changed = t[:, None] * rows if t.dim() == 1 else t @ rows
            leg.write(value, self.units, changed)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Return a random element of the group, not far from one."""
        n = self.units
        noise = torch.randn(n, generator=generator, dtype=torch.float64)
        if self.kind in ("rescaling", "scale invariance"):
            return (0.5 * noise).exp()
        if self.kind == "translation":
            return noise
        if self.kind == "sign flip":
            signs = noise.sign()
            signs[0] = -1  # never the identity
            return signs
        if self.kind == "permutation":
            order = torch.randperm(n, generator=generator)
            return order.roll(1) if bool((order == torch.arange(n)).all()) else order
        one = torch.eye(n, dtype=torch.float64)
        return one + 0.3 * torch.randn(n, n, generator=generator, dtype=torch.float64) / math.sqrt(
            n
        )
