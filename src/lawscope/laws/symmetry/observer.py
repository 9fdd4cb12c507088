"""Gather the moments of every hidden layer, before and after its activation; then judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd

from lawscope.arrays import BoolArray, FloatArray
from lawscope.capture.kinds import ACTIVATIONS, is_atomic, module_kind
from lawscope.capture.session import Session
from lawscope.capture.stations import Station, select
from lawscope.capture.taps import Tap
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError, NotApplicableError
from lawscope.formatting import name_station
from lawscope.laws.base import LawObserver
from lawscope.laws.symmetry.metrics import (
    ROUNDING_OF_ACTIVATIONS,
    ROUNDING_OF_WEIGHTS,
    UNKNOWN,
    Ranks,
    correlate_units,
    find_most_alike,
    group_alike,
    order_in_blocks,
    ranks_of_gram,
)
from lawscope.laws.symmetry.mirror import Mirror, measure_mirrors
from lawscope.laws.symmetry.result import BlockPicture, LayerUnits, Symmetry
from lawscope.laws.symmetry.verdict import advise, judge
from lawscope.statistics.distributed import gathered, merges_ranks
from lawscope.statistics.unit_moments import UnitMoments, UnitSpread

if TYPE_CHECKING:
    from lawscope.laws.symmetry.law import SymmetrySettings

MOST_SHOWN = 60  # units in the picture of correlations
MOST_DECOMPOSED = 4096  # rows or columns of a weight matrix whose spectrum is computed
LARGE_MAP = 16  # positions beyond which fewer are read before the activation
DECIMALS = 4  # of the correlations in a picture


class SymmetryObserver(LawObserver[Symmetry]):
    """Range and covariance of the units of every hidden layer, in one pass."""

    def __init__(self, session: Session, settings: SymmetrySettings) -> None:
        if session.source.kind == "tokens":
            raise NotApplicableError(
                "Beside laws of text symmetry is left out, since the layers of a language model "
                "are wide; measure it alone: lawscope.symmetry(model, batches), or "
                "laws=['symmetry']."
            )
        self.session, self.settings = session, settings
        self.distributed = merges_ranks(settings.distributed)
        self.stations = find_hidden_layers(session, settings.layers)
        self.most = fit_units(self.stations, settings.units, int(settings.memory))
        self.moments: dict[tuple[int, str], UnitMoments] = {}
        self.taps_of: dict[Tap, tuple[int, str]] = {}
        for i, station in enumerate(self.stations):
            self.taps_of[Tap(station, "output", "raw")] = i, "output"
            if is_activation(session.model, station):
                self.taps_of[Tap(station, "input", "raw")] = i, "input"
        # A parametrised weight may change its buffers when it is read.
        self.ranks = session.look(
            lambda model, _: [_weight_ranks(model, station.layer) for station in self.stations]
        )
        self.mask: Tensor | None = None
        self.held: list[Batch] = []  # to measure the loss across mirrors on
        self.done = False

    def taps(self) -> Sequence[Tap]:
        return [] if self.done else list(self.taps_of)

    def begin_batch(self, batch: Batch) -> None:
        self.mask = batch.mask
        left = self.settings.mirror_samples - sum(each.size for each in self.held)
        if self.session.loss is not None and not self.distributed and left > 0:
            self.held.append(batch.head(left))

    def see(self, tap: Tap, rows: Tensor) -> None:
        if tap.what == "input" and tap.station.channels_first and rows.dim() == 4:
            rows = thin_out(rows)
        key, x = self.taps_of[tap], self._rows_or_maps(tap.station, rows)
        moments = self.moments.setdefault(key, UnitMoments(x.shape[1], self.most))
        if x.shape[1] != moments.dim:
            raise LawscopeError(
                f"Station '{tap.station.name}' gives {x.shape[1]} units in this batch and gave "
                f"{moments.dim} before; feed inputs of one size, or leave it out with layers=."
            )
        moments.update(x)

    def _rows_or_maps(self, station: Station, x: Tensor) -> Tensor:
        """Return rows (n, d) without padding, or maps (n, d, positions)."""
        if station.batch_dim == 1 and x.dim() > 1:
            x = x.transpose(0, 1)
        if station.channels_first and x.dim() > 2:
            return x.flatten(2)
        mask, rows = self.mask, x.reshape(-1, x.shape[-1])
        if mask is not None and station.sequence and mask.shape == x.shape[:2]:
            rows = rows[mask.flatten().to(rows.device, torch.bool)]
        return rows

    def end_pass(self) -> None:
        self.done = True
        if self.distributed:
            first, *others = gathered(self.moments)
            for other in others:
                for key, moments in other.items():
                    if key in first:
                        first[key].merge(moments)
                    else:
                        first[key] = moments
            self.moments = first
        for (i, _), moments in self.moments.items():
            if not moments.finite:
                raise LawscopeError(
                    f"Station '{self.stations[i].name}' has NaN or infinite activations; look at "
                    "its weights and inputs before measuring."
                )

    def result(self, control: Symmetry | None = None) -> Symmetry:
        """Find dead units, groups and ranks, judge and advise."""
        measured = [self._measure(i) for i in range(len(self.stations))]
        mirrors, refused = self._measure_mirrors([alive for _, alive in measured])
        layers = tuple(
            dataclasses.replace(layer, mirror=mirrors.get(station.layer))
            for (layer, _), station in zip(measured, self.stations, strict=True)
        )
        verdict, reason = judge(layers)
        result = Symmetry(
            layers=layers,
            picture=self._picture(measured),
            verdict=verdict,
            reason=reason,
            unmirrored=refused,
            control=control,
            settings={
                "threshold": self.settings.threshold,
                "dead": self.settings.dead,
                "units": self.most,
                **({"mirror_samples": sum(b.size for b in self.held)} if self.held else {}),
                "distributed": self.distributed,
            },
        )
        return dataclasses.replace(result, advice=advise(result))

    def _measure(self, i: int) -> tuple[LayerUnits, BoolArray]:
        """Return what a layer shows, and which of the units measured are alive."""
        station, threshold = self.stations[i], self.settings.threshold
        found = self.moments[i, "output"].compute()
        deviation, chosen = found.variance.sqrt().numpy(), found.chosen.numpy()
        least = self.settings.dead * deviation.max()
        dead = deviation <= least
        alive = ~dead[chosen]
        groups = group_alike(correlate_units(found.covariance.numpy()), alive, threshold)
        before = self._before(i)
        merged = []
        if before is not None:
            varies = before.covariance.diagonal().numpy() > 0
            own = group_alike(correlate_units(before.covariance.numpy()), varies, threshold)
            merged = [before.chosen.numpy()[group] for group in own]
        layer = LayerUnits(
            name=name_station(station.name, station.layer),
            station=station.name,
            rows=found.n,
            units=len(dead),
            measured=len(chosen),
            dead=np.flatnonzero(dead),
            silent=int((dead & (found.mean.abs().numpy() <= least)).sum()),
            groups=tuple(chosen[group] for group in groups),
            groups_before=tuple(merged),
            weights=self.ranks[i],
            activations=ranks_of_gram(found.covariance.numpy(), ROUNDING_OF_ACTIVATIONS),
        )
        return layer, alive

    def _measure_mirrors(self, living: Sequence[BoolArray]) -> tuple[dict[str, Mirror], str]:
        """Return the mirror of the two most alike units of each layer, or why there is none."""
        loss = self.session.loss
        if loss is None or not self.held:
            return {}, ""
        pairs: dict[str, tuple[int, ...]] = {}
        for i, (station, alive) in enumerate(zip(self.stations, living, strict=True)):
            if station.layer and alive.sum() > 1:
                found = self.moments[i, "output"].compute()
                alike = find_most_alike(correlate_units(found.covariance.numpy()), alive)
                pairs.setdefault(station.layer, tuple(int(found.chosen[u]) for u in alike))
        try:
            decay = self.settings.decay
            return measure_mirrors(self.session, self.held, loss, pairs, decay), ""
        except LawscopeError as error:
            return {}, str(error)

    def _before(self, i: int) -> UnitSpread | None:
        moments = self.moments.get((i, "input"))
        return None if moments is None else moments.compute()

    def _picture(self, measured: Sequence[tuple[LayerUnits, BoolArray]]) -> BlockPicture | None:
        """Return the correlations in the layer with the most copies; of several, in the last."""
        copies = [layer.copies for layer, _ in measured]
        if not any(copies):
            return None
        i = max(range(len(copies)), key=lambda i: (copies[i], i))
        layer, alive = measured[i]
        spread, before = self.moments[i, "output"].compute(), self._before(i)
        place = {int(unit): at for at, unit in enumerate(spread.chosen)}
        groups = [np.array([place[int(u)] for u in group]) for group in layer.groups]
        order = order_in_blocks(groups, alive)[:MOST_SHOWN]

        def shown(found: UnitSpread) -> FloatArray:
            square = correlate_units(found.covariance.numpy())[np.ix_(order, order)]
            return np.asarray(np.round(square, DECIMALS) + 0.0)

        same = before is not None and len(before.chosen) == len(spread.chosen)
        return BlockPicture(
            layer=layer.name,
            units=spread.chosen.numpy()[order],
            after=shown(spread),
            before=shown(before) if before is not None and same else None,
        )


def thin_out(maps: Tensor) -> Tensor:
    """Return every other row and column of large maps (B, C, H, W), whose neighbours are alike."""
    return maps[:, :, ::2, ::2] if maps[0, 0].numel() > LARGE_MAP else maps


def find_hidden_layers(
    session: Session, layers: str | Sequence[str] | None = None
) -> tuple[Station, ...]:
    """Return hidden layers: those that end in an activation, all where none does, or the named."""
    if layers is not None:
        return select(session.stations, layers, session.module_names)
    every = [s for s in session.stations.granularity("layers") if s.layer]
    activated = [s for s in every if is_activation(session.model, s)]
    if not every:
        raise NotApplicableError(
            "The network shows no hidden layer (a linear or convolutional module with what follows "
            "it, before the last); symmetry is about the units of such layers."
        )
    return tuple(activated or every)


def is_activation(model: nn.Module, station: Station) -> bool:
    """Return whether what a station gives is the output of an activation."""
    if station.place == "function":
        return station.function in ACTIVATIONS
    if station.place != "output":
        return False
    module = model.get_submodule(station.path)
    return is_atomic(module) and module_kind(module, activations_seen=True) == "activation"


def fit_units(stations: Sequence[Station], units: int, memory: int) -> int:
    """Return how many units of a layer can be measured: two covariances (m, m) of float64 each."""
    widths = [
        station.shape[0 if station.channels_first and len(station.shape) > 1 else -1]
        for station in stations
    ]
    low, high = 1, min(units, max(widths))

    def fits(most: int) -> bool:
        return sum(16 * min(width, most) ** 2 for width in widths) <= memory

    if fits(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low < 2:
        raise LawscopeError(
            f"memory={memory} bytes do not hold the covariance of two units in each of "
            f"{len(stations)} layers; raise it."
        )
    return low


def weight_matrix(module: nn.Module) -> Tensor | None:
    """Return the weight of a module as a matrix, a row for each unit; None without one."""
    weight: Any = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2 or not weight.is_floating_point():
        return None
    weight = weight.detach()
    weight = weight.full_tensor() if hasattr(weight, "full_tensor") else weight  # of shards
    turned: Tensor = weight.transpose(0, 1) if isinstance(module, _ConvTransposeNd) else weight
    return turned.flatten(1)


def _weight_ranks(model: nn.Module, layer: str) -> Ranks:
    """Return the ranks of a layer's weight; unknown of a function's, and of one too large."""
    try:
        matrix = weight_matrix(model.get_submodule(layer)) if layer else None
    except AttributeError:  # the layer is a function
        matrix = None
    if matrix is None or matrix.is_meta or min(matrix.shape) > MOST_DECOMPOSED:
        return UNKNOWN
    matrix = matrix.to("cpu", torch.float64)
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    return ranks_of_gram((wide @ wide.T).numpy(), ROUNDING_OF_WEIGHTS)
