"""Gradient noise drives every rescaling to one place: how far from it is a network?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lawscope.arrays import FloatArray
from lawscope.capture.functional import (
    WeightFunction,
    Weights,
    blocks_of,
    check_finite,
    split,
    take,
)
from lawscope.capture.restore import unwrap
from lawscope.capture.sample_gradients import compute_energies
from lawscope.capture.session import Loss, Session
from lawscope.checks import checked
from lawscope.data.batches import Batch, as_raw
from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.formatting import many, number
from lawscope.laws.conservation.charges import check_fits
from lawscope.laws.conservation.find import find_symmetries
from lawscope.laws.conservation.found import Symmetries
from lawscope.laws.conservation.symmetry import Symmetry
from lawscope.result import Result
from lawscope.section import Bars, Section, Table

if TYPE_CHECKING:
    import pandas as pd

MEMORY = 2**24  # bytes of gradients, and of unfolded images, that are held at a time
LOOKED_AT = 8  # samples on which the network is checked
NORMAL = 1.959964  # of a 95 % interval
# Fewer samples, or energy that lies in fewer of them, and the interval is too narrow: few gradients
# of a trained network are most of its noise (docs/conservation.md).
MIN_SAMPLES, MIN_EFFECTIVE = 1000, 10


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
        loader: data, with labels where the loss needs them.
        loss: of outputs and labels, such as ``torch.nn.functional.cross_entropy``; of data without
            labels it gets None for them.
        symmetries: of the network, found before.

    Raises:
        LawscopeError: the loss cannot be computed, or has gradients of NaN; the network has no
            rescaling.
    """
    source = Source(loader)
    found = find_symmetries(model, as_raw(source.peek())) if symmetries is None else symmetries
    known = rescalings_of(model, found)
    names = list(dict.fromkeys(name for one in known for name in one.parameters))
    sides: list[list[Tensor]] = [[] for _ in known]
    for function, batch in _few_samples(model, source, loss):
        squares = compute_energies(function, batch, names, MEMORY)
        check_finite(torch.stack([each[0].sum() for each in squares.values()]))
        for rows, one in zip(sides, known, strict=True):
            rows.append(_sides(one, squares))
    energies = [torch.cat(rows) for rows in sides]
    places = [_equilibrium(one.where, each) for one, each in zip(known, energies, strict=True)]
    return NoiseEquilibrium(tuple(places), len(energies[0]))


def rescalings_of(model: nn.Module, found: Symmetries) -> list[Symmetry]:
    """Return the rescalings that noise drives: of parameters that all take gradients."""
    check_fits(found, dict(unwrap(model).named_parameters()))
    known = list(found.rescalings)
    if not known:
        raise LawscopeError(
            f"The network has no rescaling whose parameters take gradients, or only behind powers "
            f"({found}); noise has nothing to drive."
        )
    return known


def per_sample_gradients(model: nn.Module, source: Source, loss: Loss) -> Iterator[Weights]:
    """Yield the gradients of single samples by parameter, shape (samples, …), a few at a time.

    In float64, with the network in eval mode.
    """
    for function, batch in _few_samples(model, source, loss):
        found = function.loss_gradients_of(batch)
        check_finite(torch.stack([each.sum() for each in found.values()]))
        yield found


def _few_samples(
    model: nn.Module, source: Source, loss: Loss
) -> Iterator[tuple[WeightFunction, Batch]]:
    """Yield the network, running, and as many samples as have gradients that fit the memory."""
    session = Session(model, source)
    function: WeightFunction | None = None
    for batch in source:
        fitted = session.fit(batch)
        if function is None:
            function = WeightFunction(session.model, split(take(fitted, slice(LOOKED_AT))), loss)
            with function.running():
                function.check()
        double = function.as_double(fitted)
        with function.running():
            for rows in blocks_of(batch.size, function.weights, MEMORY):
                yield function, take(double, slice(rows.start, rows.stop))


def _sides(one: Symmetry, squares: Mapping[str, Sequence[Tensor]]) -> Tensor:
    """Return |g|² of the weights a scale multiplies and of those it divides, (n, units, 2)."""
    samples = len(squares[one.parameters[0]][0])
    total = torch.zeros(samples, one.units, 2, dtype=torch.float64)
    for leg in one.legs:
        along = squares[leg.parameter][leg.axis]
        rows = along[:, leg.index(one.units).to(along.device)].sum(-1)
        total[..., int(leg.sign < 0)] += rows.cpu()
    return total


def _equilibrium(where: str, sides: Tensor) -> Equilibrium:
    mean = sides.mean(0)
    scale = 0.25 * (mean[:, 0] / mean[:, 1]).log()
    scale = torch.where(torch.isfinite(scale), scale, torch.nan)
    if len(sides) < MIN_SAMPLES:
        return Equilibrium(where, scale.numpy(), np.full((len(scale), 2), np.nan))
    shares = sides / mean
    error = 0.25 * (shares[..., 0] - shares[..., 1]).std(0) / len(sides) ** 0.5
    effective = sides.sum(0).square() / sides.square().sum(0)
    error = torch.where((effective < MIN_EFFECTIVE).any(1), torch.nan, error)
    ends = torch.stack([scale - NORMAL * error, scale + NORMAL * error], 1)
    return Equilibrium(where, scale.numpy(), ends.numpy())
