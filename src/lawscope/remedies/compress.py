"""A smaller network that computes the same: dead units go, copies become one.

Where a unit's output never changes it is a constant, which the next layer's bias can hold; where it
is a·x + b of another's output x, the next layer can read x alone (Ziyin 2024 on why networks come
to have such units).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from lawscope.arrays import FloatArray
from lawscope.capture.chains import Chain, find_chains
from lawscope.capture.outputs import main_tensor
from lawscope.capture.restore import turn, unwrap
from lawscope.capture.session import Session, run_together
from lawscope.capture.stations import Station
from lawscope.capture.taps import OnePass, Tap
from lawscope.capture.trace import join_name
from lawscope.checks import checked
from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.formatting import count, many, number, percent
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Bars, KeyNumber, Section, Table
from lawscope.statistics.unit_moments import UnitMoments

# How far from constant, or from a line, a unit may be, in units of the layer's largest standard
# deviation; the first of these whose network is near enough to the given one is taken.
SHARES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


@dataclass(frozen=True, eq=False, repr=False)
class CompressedLayer:
    """What became of the units of one layer."""

    name: str
    units: int
    dead: int  # removed since they never change
    merged: int  # removed since another does the same

    @property
    def left(self) -> int:
        """Units that are left."""
        return self.units - self.dead - self.merged


@dataclass(frozen=True, eq=False, repr=False)
class Compressed(Result):
    """A smaller network and what was left out of it.

    Attributes:
        layers: every layer that was looked at.
        refused: layers that could not be, each with the reason.
        before: parameters of the network as it was given.
        after: parameters now.
        error: largest change of an output over the data, as a share of the largest output.
        share: how far from constant, or from a copy, a removed unit may have been, in units of its
            layer's largest standard deviation.
        model: the smaller network; not saved with the result.
    """

    schema: ClassVar[str] = "lawscope.compressed/1"
    layers: tuple[CompressedLayer, ...]
    refused: dict[str, str]
    before: int
    after: int
    error: float
    share: float
    model: nn.Module | None = field(default=None, metadata={"saved": False})

    @property
    def saved(self) -> int:
        """Parameters that are no longer needed."""
        return self.before - self.after

    def table(self) -> pd.DataFrame:
        """Return one row per layer."""
        rows = [(one.name, one.units, one.dead, one.merged, one.left) for one in self.layers]
        return pd.DataFrame(rows, columns=["layer", "units", "dead", "merged", "left"])

    def section(self) -> Section:
        """Return parameters saved, and the units left of every layer."""
        shares = np.array([one.left / one.units for one in self.layers])
        return Section(
            title="Compression by symmetry",
            headline=str(self),
            numbers=[
                KeyNumber("saved", percent(self.saved / self.before), "of all parameters"),
                KeyNumber("change", number(self.error), "of an output, relative to the largest"),
            ],
            charts=[
                Bars(
                    title="Units left",
                    labels=[one.name for one in self.layers],
                    values=shares,
                    notes=[f"{count(one.left)} of {count(one.units)}" for one in self.layers],
                )
            ],
            tables=[
                Table(
                    "Layers",
                    ["layer", "units", "dead", "merged", "left"],
                    [[str(cell) for cell in row] for row in self.table().to_numpy().tolist()],
                    main=True,
                )
            ],
            findings=[f"'{name}' was left alone: {why}" for name, why in self.refused.items()],
            papers=("symmetry",),
        )

    def __str__(self) -> str:
        dead = sum(one.dead for one in self.layers)
        merged = sum(one.merged for one in self.layers)
        return (
            f"{count(self.before)} → {many(self.after, 'parameter')} "
            f"({percent(self.saved / self.before)} saved): {many(dead, 'dead unit')} and "
            f"{count(merged)} cop{'y' if merged == 1 else 'ies'} left out, outputs changed by "
            f"{number(self.error)} of the largest"
        )


@checked
def compress(model: nn.Module, loader: Any, *, tolerance: float = 1e-5) -> Compressed:
    """Remove hidden units that are dead and merge those that do the same; outputs stay as they are.

    A unit whose output over the data is constant goes into the next layer's bias; one whose output
    is a·x + b of another unit's output x goes into that unit's outgoing weights and the bias. Works
    on chains of linear and convolutional layers with BatchNorm, activations that act on each unit,
    pooling, dropout and flattening between; layers that end elsewhere, as in a residual addition,
    are left alone and named in ``refused``. What is dead or a copy is so on this data: bring all
    kinds of data that the network will meet.

    Args:
        model: the network; it is left as found, a copy is made smaller.
        loader: batches, with or without labels, that can be read several times.
        tolerance: largest change of an output that is allowed, as a share of the largest output.

    Returns:
        The smaller network, an ordinary module of the same class, in ``.model``; what was removed
        and saved beside it.

    Raises:
        LawscopeError: no layer can be made smaller, whatever its units do; the sentence says why.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> _ = net[0].bias.data[:5].fill_(-100)
        >>> found = compress(net, [torch.randn(50, 3)])
        >>> found.model[0].out_features, found.before, found.after
        (3, 50, 20)
    """
    if not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
        raise LawscopeError(f"tolerance={tolerance!r} is not a share between 0 and 1.")
    inner, source = unwrap(model), Source(loader).read_several_times()
    with turn:
        session = Session(inner, source)
        pairs, refused = find_chains(session)
        if not pairs:
            reasons = "; ".join(f"'{name}': {why}" for name, why in refused.items())
            raise LawscopeError(
                f"No layer can be made smaller. {reasons or 'There is none before the last.'}"
            )
        gathering = _Gathering(inner, pairs)
        session.run([gathering])
        spreads = [_Spread.of(moments) for moments in gathering.moments]
        for share in SHARES:
            plans = [
                _plan(pair, spread, share) for pair, spread in zip(pairs, spreads, strict=True)
            ]
            smaller = copy.deepcopy(inner)
            for pair, plan in zip(pairs, plans, strict=True):
                _apply(smaller, pair, plan)
            error = _compare(session, smaller, source)
            if error <= tolerance:
                break
        else:
            plans, smaller = [_Plan.nothing(pair) for pair in pairs], copy.deepcopy(inner)
            error = share = 0.0
    layers = tuple(
        CompressedLayer(join_name(pair.first), pair.units, len(plan.constant), len(plan.copies))
        for pair, plan in zip(pairs, plans, strict=True)
    )
    before, after = (sum(p.numel() for p in net.parameters()) for net in (inner, smaller))
    return Compressed(layers, refused, before, after, error, share, smaller)


class _Gathering(OnePass):
    """Moments in float64 of what enters the second layer of every pair, by unit."""

    def __init__(self, model: nn.Module, pairs: Sequence[Chain]) -> None:
        self.pairs = pairs
        self.moments = [UnitMoments(pair.units, pair.units) for pair in pairs]
        stations = [
            Station(join_name(pair.second), "output", (), torch.float64, pair.second)
            for pair in pairs
        ]
        self.indices = {Tap(s, "input", "raw"): i for i, s in enumerate(stations)}
        self.wanted = list(self.indices)
        self.convolved = [isinstance(model.get_submodule(pair.second), _ConvNd) for pair in pairs]

    def see(self, tap: Tap, rows: Tensor) -> None:
        i = self.indices[tap]
        pair = self.pairs[i]
        maps = (
            rows.flatten(2) if self.convolved[i] else rows.reshape(-1, pair.units, pair.positions)
        )
        self.moments[i].update(maps.double())


@dataclass(frozen=True, eq=False)
class _Spread:
    mean: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, moments: UnitMoments) -> _Spread:
        if not moments.finite:
            raise LawscopeError("The network has NaN or infinite activations; look at its weights.")
        found = moments.compute()
        return cls(found.mean.numpy(), found.covariance.numpy())


@dataclass(frozen=True, eq=False)
class _Plan:
    """What to do with the units of a pair."""

    keep: list[int]
    constant: dict[int, float]  # dead units and their values
    copies: dict[int, tuple[int, float, float]]  # unit: (of which, a, b)

    @classmethod
    def nothing(cls, pair: Chain) -> _Plan:
        return cls(list(range(pair.units)), {}, {})


def _plan(pair: Chain, spread: _Spread, share: float) -> _Plan:
    """Find constants and copies up to this share of the largest standard deviation."""
    mean, covariance = spread.mean, spread.covariance
    variance = covariance.diagonal()
    bound = share * math.sqrt(max(float(variance.max()), 0.0))
    keep, constant = list[int](), dict[int, float]()
    copies: dict[int, tuple[int, float, float]] = {}
    for j in range(pair.units):
        offset = abs(float(mean[j])) if pair.padded else 0.0
        if math.hypot(math.sqrt(max(variance[j], 0.0)), offset) <= bound:
            constant[j] = 0.0 if pair.padded else float(mean[j])
            continue
        # The line through each unit kept so far, and what it leaves of this one.
        a = covariance[keep, j] / np.where(variance[keep] > 0, variance[keep], np.inf)
        b = mean[j] - a * mean[keep]
        left = np.sqrt(np.maximum(variance[j] - a * covariance[keep, j], 0))
        alike = np.flatnonzero(np.hypot(left, b if pair.padded else 0.0) <= bound)
        if len(alike):
            which = int(alike[0])
            shift = 0.0 if pair.padded else float(b[which])
            copies[j] = keep[which], float(a[which]), shift
        else:
            keep.append(j)
    if not keep:
        keep = [next(iter(constant))]
        del constant[keep[0]]
    return _Plan(keep, constant, copies)


@torch.no_grad()
def _apply(model: nn.Module, pair: Chain, plan: _Plan) -> None:
    """Fold what goes into the second layer, then cut both."""
    first, second = model.get_submodule(pair.first), model.get_submodule(pair.second)
    if len(plan.keep) == pair.units:
        return
    weight: Any = second.weight
    # A column for every unit, with its positions or its kernel, shape (out, units, …).
    columns = weight.detach().double().reshape(weight.shape[0], pair.units, -1).clone()
    shift = torch.zeros(len(columns), dtype=torch.float64, device=columns.device)
    for j, value in plan.constant.items():
        shift += value * columns[:, j].sum(dim=1)
    for j, (i, a, b) in plan.copies.items():
        shift += b * columns[:, j].sum(dim=1)
        columns[:, i] += a * columns[:, j]
    left = columns[:, plan.keep]
    width = len(plan.keep) * pair.positions
    shape = (weight.shape[0], width, *weight.shape[2:])
    _replace(second, "weight", left.reshape(shape).to(weight.dtype))
    bias: Any = second.bias
    if bias is not None:
        _replace(second, "bias", (bias.double() + shift).to(bias.dtype))
    elif bool(shift.any()):
        second.bias = nn.Parameter(shift.to(weight.dtype), requires_grad=weight.requires_grad)
    for path in (pair.first, *pair.between):
        module = model.get_submodule(path)
        own = [*module._parameters.items(), *module._buffers.items()]
        for name, tensor in own:
            if tensor is not None and tensor.dim() and len(tensor) == pair.units:
                _replace(module, name, tensor[plan.keep])
    _note_width(first, "out", len(plan.keep))
    _note_width(second, "in", width)
    for path in pair.between:
        for name in ("num_features", "num_parameters"):
            module = model.get_submodule(path)
            if getattr(module, name, 1) == pair.units:
                setattr(module, name, len(plan.keep))


def _note_width(module: nn.Module, end: str, width: int) -> None:
    setattr(module, f"{end}_{'features' if isinstance(module, nn.Linear) else 'channels'}", width)


def _replace(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Put a tensor in the place of a parameter, learning as it did, or of a buffer."""
    old = module._parameters.get(name)
    if old is None:
        module._buffers[name] = tensor.clone()
    else:
        setattr(module, name, nn.Parameter(tensor.clone(), requires_grad=old.requires_grad))


class _Outputs(OnePass):
    """Outputs of one network held against those of another, batch by batch."""

    def __init__(self, session: Session, other: _Outputs | None = None) -> None:
        self.wanted, self.other = [Tap(session.stations.all[0], rows="raw")], other
        self.latest: Tensor | None = None
        self.largest = self.change = 0.0

    def see_output(self, output: Any) -> None:
        self.latest = main_tensor(output)
        if self.latest is None:
            raise LawscopeError("The network returns no tensor to hold against the smaller one's.")
        if self.other is None or self.other.latest is None or not self.latest.numel():
            return
        theirs = self.other.latest.detach().double()
        self.largest = max(self.largest, float(theirs.abs().max()))
        change = float((self.latest.detach().double() - theirs).abs().max())
        self.change = max(self.change, change if change == change else math.inf)


def _compare(session: Session, smaller: nn.Module, source: Source) -> float:
    """Return the largest change of an output, as a share of the largest output."""
    try:
        twin = Session(smaller, source)
    except LawscopeError as error:
        raise LawscopeError(
            f"The smaller network does not run: {error} A size may be written into its forward; "
            "compute it from the data there."
        ) from error
    given = _Outputs(session)
    found = _Outputs(twin, given)
    run_together([(session, [given]), (twin, [found])], source)
    return found.change / found.largest if found.largest else found.change
