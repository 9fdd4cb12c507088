"""Gradient noise drives every rescaling to one place: how far from it is a network?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from lawscope.arrays import FloatArray
from lawscope.capture.outputs import main_tensor
from lawscope.capture.restore import unwrap
from lawscope.capture.session import Session
from lawscope.checks import checked
from lawscope.data.batches import Batch, as_raw
from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.formatting import many, number
from lawscope.laws.conservation.charges import check_fits
from lawscope.laws.conservation.find import find_symmetries
from lawscope.laws.conservation.result import Symmetries
from lawscope.laws.conservation.symmetry import Symmetry
from lawscope.result import Result
from lawscope.section import Bars, Section, Table

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 32  # samples whose gradients are held at a time
NORMAL = 1.959964  # of a 95 % interval
# Fewer samples, or energy that lies in fewer of them, and the interval is too narrow: few gradients
# of a trained network are most of its noise (docs/conservation.md).
MIN_SAMPLES, MIN_EFFECTIVE = 1000, 10
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Where gradient noise drives the units of one rescaling.

    Attributes:
        where: between which layers.
        scale: λ* per unit: its incoming weights would grow by e^λ*, shape (units,); NaN where a
            side has no gradient.
        interval: 95 % ends of it, shape (units, 2); NaN where the samples are too few for one.
    """

    where: str
    scale: FloatArray
    interval: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class NoiseEquilibrium(Result):
    """How far the rescalings of a network are from where single-sample SGD drives them.

    Attributes:
        places: one for each rescaling.
        samples: whose gradients were measured.
    """

    schema: ClassVar[str] = "lawscope.noise_equilibrium/1"
    places: tuple[Equilibrium, ...]
    samples: int

    def table(self) -> pd.DataFrame:
        """Return one row per rescaling."""
        import pandas as pd

        return pd.DataFrame(
            {
                "where": [one.where for one in self.places],
                "units": [len(one.scale) for one in self.places],
                "distance": [_distance(one) for one in self.places],
                "away": [_away(one) for one in self.places],
                "dead": [int(np.isnan(one.scale).sum()) for one in self.places],
            }
        )

    def section(self) -> Section:
        rows = [
            [where, str(units), number(distance), str(away), str(dead)]
            for where, units, distance, away, dead in self.table().itertuples(index=False)
        ]
        heights = np.array([_distance(one) for one in self.places])
        bars = Bars("Distance from noise equilibrium", [one.where for one in self.places], heights)
        columns = ["where", "units", "rms λ*", "surely away", "dead"]
        return Section(
            title="Noise equilibrium",
            headline=str(self),
            facts=[many(self.samples, "sample")],
            findings=self._find_facts(),
            charts=[bars] if rows else [],
            tables=[Table("Rescalings", columns, rows, main=True)] if rows else [],
            about=[
                "λ* = ¼ ln(E|g_in|²/E|g_out|²): incoming weights times e^λ*, outgoing ones over "
                "it, is where the noise of single-sample SGD leaves the charge alone (Ziyin et al. "
                "2024). Surely away: units whose 95 % interval leaves out 0."
            ],
        )

    def _find_facts(self) -> list[str]:
        known = [np.isfinite(one.scale) & np.isnan(one.interval[:, 0]) for one in self.places]
        without = int(sum(each.sum() for each in known))
        if not without:
            return []
        return [
            f"{many(without, 'unit')} without an interval: their gradients are of too few samples "
            f"(at least {MIN_SAMPLES} are needed, with {MIN_EFFECTIVE} effective ones)."
        ]

    def __str__(self) -> str:
        units = sum(len(one.scale) for one in self.places)
        away = sum(_away(one) for one in self.places)
        return f"{away} of {many(units, 'unit')} are surely away from noise equilibrium"


def _distance(one: Equilibrium) -> float:
    known = one.scale[np.isfinite(one.scale)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")


def _away(one: Equilibrium) -> int:
    return int(((one.interval[:, 0] > 0) | (one.interval[:, 1] < 0)).sum())


@checked
def noise_equilibrium(
    model: nn.Module, loader: Any, loss: Loss, *, symmetries: Symmetries | None = None
) -> NoiseEquilibrium:
    """Measure how far each rescaling is from where gradient noise drives it.

    λ* = ¼ ln(Tr Σ₊/Tr Σ₋), Σ± being second moments of per-sample gradients of the weights that a
    scale multiplies and divides (Ziyin et al. 2024); its standard error is
    ¼ sd(s₊/S₊ − s₋/S₋)/√n with s± of single samples and S± their means. An interval takes a
    thousand samples, and on both sides ten effective ones, (Σs)²/Σs².

    Args:
        model: any module, run in eval mode; it is left exactly as it was.
        loader: labelled data.
        loss: of outputs and labels, such as ``torch.nn.functional.cross_entropy``.
        symmetries: of the network, found before.

    Raises:
        LawscopeError: the data has no labels, or the network has no rescaling.
    """
    source = Source(loader)
    found = find_symmetries(model, as_raw(source.peek())) if symmetries is None else symmetries
    known = rescalings_of(model, found)
    sides: list[list[Tensor]] = [[] for _ in known]
    for gradients in per_sample_gradients(model, source, loss):
        for rows, one in zip(sides, known, strict=True):
            rows.append(_sides(one, gradients))
    places = [
        _equilibrium(one.where, torch.cat(rows)) for one, rows in zip(known, sides, strict=True)
    ]
    return NoiseEquilibrium(tuple(places), sum(map(len, sides[0])))


def rescalings_of(model: nn.Module, found: Symmetries) -> list[Symmetry]:
    """Return the rescalings of a network whose parameters all take gradients."""
    check_fits(found, dict(unwrap(model).named_parameters()))
    known = [one for one in found.of("rescaling") if one.trainable]
    if not known:
        raise LawscopeError(
            f"The network has no rescaling whose parameters take gradients ({found}); noise has "
            "nothing to drive."
        )
    return known


def per_sample_gradients(
    model: nn.Module, source: Source, loss: Loss
) -> Iterator[dict[str, Tensor]]:
    """Yield the gradients of single samples by parameter, shape (samples, …), a few at a time."""
    session = Session(model, source)
    for batch in source:
        if batch.labels is None:
            raise LawscopeError("The data has no labels, which the loss needs; pass (x, y) pairs.")
        for start in range(0, batch.size, CHUNK):
            rows = slice(start, start + CHUNK)
            few = batch.map(lambda t, size=batch.size, rows=rows: _cut(t, size, rows))  # type: ignore[misc]
            labels = batch.labels[rows]
            yield session.look(
                lambda network, given, y=labels: _gradients(network, given, y, loss),  # type: ignore[misc]
                few,
            )


def _cut(tensor: Tensor, size: int, rows: slice) -> Tensor:
    return tensor[rows] if tensor.dim() and len(tensor) == size else tensor


def _gradients(network: nn.Module, batch: Batch, labels: Tensor, loss: Loss) -> dict[str, Tensor]:
    takes = {n: p.detach() for n, p in network.named_parameters() if p.requires_grad}
    rest = {n: p.detach() for n, p in network.named_parameters() if not p.requires_grad}
    state = {**rest, **dict(network.named_buffers())}

    def value(parameters: dict[str, Tensor], sample: tuple[Tensor, ...], label: Tensor) -> Tensor:
        given = [part[None] for part in sample]
        output = main_tensor(functional_call(network, {**parameters, **state}, tuple(given)))
        assert output is not None
        return loss(output, label[None])

    if batch.kwargs:
        raise LawscopeError("Named inputs have no per-sample gradients here; pass (x, y) pairs.")
    each = vmap(grad(value), in_dims=(None, 0, 0), randomness="different")
    made: dict[str, Tensor] = each(takes, batch.args, labels)
    return made


def _sides(one: Symmetry, gradients: dict[str, Tensor]) -> Tensor:
    """Return |g|² of the weights a scale multiplies and of those it divides, (n, units, 2)."""
    total = torch.zeros(len(gradients[one.parameters[0]]), one.units, 2, dtype=torch.float64)
    for leg in one.legs:
        rows = vmap(lambda g, leg=leg: leg.view(g, one.units))(gradients[leg.parameter])
        total[..., int(leg.sign < 0)] += rows.double().square().sum(-1).cpu()
    return total


def _equilibrium(where: str, sides: Tensor) -> Equilibrium:
    mean = sides.mean(0)
    scale = 0.25 * (mean[:, 0] / mean[:, 1]).log()
    shares = sides / mean
    error = 0.25 * (shares[..., 0] - shares[..., 1]).std(0) / len(sides) ** 0.5
    scale = torch.where(torch.isfinite(scale), scale, torch.nan)
    effective = sides.sum(0).square() / sides.square().sum(0)
    few = (effective < MIN_EFFECTIVE).any(1) | (len(sides) < MIN_SAMPLES)
    error = torch.where(few, torch.nan, error)
    ends = torch.stack([scale - NORMAL * error, scale + NORMAL * error], 1)
    return Equilibrium(where, scale.numpy(), ends.numpy())
