"""The numbers of one layer from its moments, with intervals over folds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.laws.population import jackknife
from lawscope.statistics.fold_moments import FoldedMoments
from lawscope.theory.representation import (
    PHASES,
    RELATIONS,
    Exponents,
    compute_excess,
    effective_rank99,
    fit_spectra,
    fit_stationary,
)
from lawscope.theory.representation.alignments import draw_null
from lawscope.theory.representation.exponents import fit_projected
from lawscope.theory.representation.layer import read_change, read_layer
from lawscope.theory.representation.singular import Measure, Projected, SingularLayer

SEED = 20241024
LEAST_DRAWS = 4
PLAIN_WIDTH = 128  # up to this width every null is drawn as often as asked for
LEAST_FOLDS = 3
TWO_SIDED = 1.96  # standard deviations on either side that hold 95 % of a normal distribution
Ends = tuple[float, float]


class Null(NamedTuple):
    """What random rotations leave of an alignment."""

    mean: float
    sd: float


class PowerLaw(NamedTuple):
    """An exponent and the R² of its line."""

    exponent: float
    r2: float


NO_LAW = PowerLaw(math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class Moments:
    """What was gathered of one layer, or of one head of it.

    ``outputs`` and ``sent_back`` are H_b and G_a where they were measured rather than derived;
    ``shared`` says that others read the input too, so that G_a is not of this layer alone.
    """

    weight: FloatArray
    change: FloatArray | None  # W − κW₀, of which Z is made if given
    centred: bool  # covariances instead of second moments
    jacobian: bool  # gradients are those of the outputs: E[JᵀJ], never centred, and no E[g hᵀ]
    inputs: FoldedMoments  # of h_a
    gradients: FoldedMoments  # of g_b
    cross: FoldedMoments  # of g_b beside h_a
    outputs: FoldedMoments | None = None
    sent_back: FoldedMoments | None = None
    shared: bool = False

    def read(self, name: str, without: int | None = None) -> FloatArray:
        """Return a moment of all folds, or of all but one."""
        centred = self.centred and not (self.jacobian and name in ("gradients", "sent_back"))
        return np.asarray(getattr(self, name).moment(centred, without).numpy())

    def read_measured(self, without: int | None = None) -> dict[str, FloatArray]:
        """Return H_b and G_a where they were measured."""
        names = {"H_b": "outputs", "G_a": "sent_back"}
        there = {k: name for k, name in names.items() if getattr(self, name) is not None}
        return {k: self.read(name, without) for k, name in there.items()}

    def select(self, rows: slice, columns: slice) -> Moments:
        """Return the moments of some rows and columns of W, as of a head."""

        def part(found: FoldedMoments, x: slice, y: slice) -> FoldedMoments:
            means = found.mean[:, x], found.other[:, y]
            return FoldedMoments(found.counts, *means, found.scatter[:, x, y])

        return Moments(
            self.weight[rows, columns],
            None if self.change is None else self.change[rows, columns],
            self.centred,
            self.jacobian,
            part(self.inputs, columns, columns),
            part(self.gradients, rows, rows),
            part(self.cross, rows, columns),
            None if self.outputs is None else part(self.outputs, rows, rows),
            None if self.sent_back is None else part(self.sent_back, columns, columns),
            self.shared,
        )


@dataclass(frozen=True, eq=False)
class Matrices:
    """The matrices of a layer."""

    weight: FloatArray
    change: FloatArray | None
    H_a: FloatArray
    G_b: FloatArray
    H_b: FloatArray
    G_a: FloatArray
    cross: FloatArray  # E[g_b h_bᵀ]


def join(moments: Moments) -> Matrices:
    """Return the matrices; H_b = W·H_a·Wᵀ and G_a = Wᵀ·G_b·W unless measured."""
    W = moments.weight
    H_a, G_b = moments.read("inputs"), moments.read("gradients")
    derived = {"H_b": W @ H_a @ W.T, "G_a": W.T @ G_b @ W}
    cross = np.zeros((len(W), len(W))) if moments.jacobian else moments.read("cross") @ W.T
    found = derived | moments.read_measured()
    return Matrices(W, moments.change, H_a, G_b, **found, cross=cross)


def measure_alignments(
    layer: SingularLayer, seen: Projected, measured: dict[str, FloatArray]
) -> dict[str, float]:
    """Return the six alignments, NaN where a side has a single unit."""
    found = layer.align(seen, **measured)
    return {name: found.get(name, math.nan) for name in RELATIONS}


def measure_null(
    layer: SingularLayer, parts: Matrices, draws: int, shared: bool = False
) -> dict[str, Null]:
    """Return what random rotations of H_a and G_b leave; of wide layers by fewer draws.

    Where others read the input too, what they add to G_a is rotated by itself.
    """
    width = max(parts.weight.shape)
    fewer = max(LEAST_DRAWS, round(draws * (PLAIN_WIDTH / width) ** 2))
    sent_back = parts.G_a if shared else None
    found = draw_null(layer, parts.H_a, parts.G_b, sent_back, draws=min(draws, fewer), seed=SEED)
    return {name: Null(*found.get(name, (math.nan, math.nan))) for name in RELATIONS}


def measure_excess(raw: dict[str, float], null: dict[str, Null]) -> dict[str, float]:
    """Return (raw − null)/(1 − null) of each; NaN where every rotation aligns."""
    found = {}
    for name, value in raw.items():
        try:
            found[name] = compute_excess(value, null[name].mean)
        except LawscopeError:
            found[name] = math.nan
    return found


class CrossMoment(NamedTuple):
    """−C = −E[g_b h_bᵀ] against Z_b = WWᵀ.

    Attributes:
        alignment: the cosine of −(C + Cᵀ)/2 and Z_b.
        null: the same for random rotations of C.
        asymmetry: ‖C − Cᵀ‖/‖C + Cᵀ‖, 0 at stationarity.
        decay: λ of −(C + Cᵀ)/2 ≈ λZ_b by least squares: the weight decay, if stationary.
    """

    alignment: float
    null: Null
    asymmetry: float
    decay: float


def measure_cross(C: FloatArray, Z: FloatArray) -> CrossMoment:
    """Compare E[g_b h_bᵀ] with WWᵀ.

    Of Q·S·Qᵀ with a random rotation Q and S = −(C + Cᵀ)/2 the cosine with Z has the mean
    Tr S Tr Z/(d‖S‖‖Z‖) and the variance 2‖S₀‖²‖Z₀‖²/((d − 1)(d + 2)‖S‖²‖Z‖²), the subscript
    marking the parts without trace.
    """
    d, S = len(Z), -(C + C.T) / 2
    size, of_Z = float(np.linalg.norm(S)), float(np.linalg.norm(Z))
    if not size * of_Z:
        return CrossMoment(math.nan, Null(math.nan, math.nan), math.nan, math.nan)
    traces = float(np.trace(S)), float(np.trace(Z))
    rests = [n**2 - t**2 / d for n, t in zip((size, of_Z), traces, strict=True)]
    spread = 2 * max(rests[0], 0) * max(rests[1], 0) / ((d - 1) * (d + 2)) if d > 1 else 0.0
    null = Null(traces[0] * traces[1] / (d * size * of_Z), math.sqrt(spread) / (size * of_Z))
    product = float(np.vdot(S, Z))
    asymmetry = float(np.linalg.norm(C - C.T)) / (2 * size)
    return CrossMoment(product / (size * of_Z), null, asymmetry, product / of_Z**2)


def align_cross(layer: SingularLayer, moment: FloatArray) -> float:
    """Return the alignment of :func:`measure_cross` from E[g_b h_aᵀ] = X: of C = X·Wᵀ = P·Uᵀ.

    ‖S‖² = (‖P‖² + Tr(UᵀP·UᵀP))/2 and ⟨C, Z⟩ = ⟨X, Z·W⟩, so that C is never made.
    """
    rank = len(layer.s)
    P = moment @ (layer.Vt[:rank].T * layer.s)
    turned = layer.U[:, :rank].T @ P
    square = (float(np.vdot(P, P)) + float(np.vdot(turned, turned.T))) / 2
    size = math.sqrt(max(square, 0.0) * layer.form_Z_b.size)
    return -float(np.vdot(moment, layer.z_b_weighted)) / size if size else math.nan


class Stationary(NamedTuple):
    """Z + c₁A = c₂B, the form of Theorem 1, by least squares with c ≥ 0.

    Forward Z_b + c₁G_b = c₂H_b, backward Z_a + c₁H_a = c₂G_a; ``residual`` is of the size of Z.
    """

    plus: float
    minus: float
    residual: float


class Spectra(NamedTuple):
    """λ_H ∝ λ_G^α on the output side, by three ways to pair eigenvalues."""

    sorted: PowerLaw
    in_g: PowerLaw
    in_h: PowerLaw


class PhaseOf(NamedTuple):
    """What the exponents say; ``name`` is empty where no phase is granted, and ``reason`` why."""

    name: str
    nearest: str
    distance: float
    reason: str


NO_PHASE = PhaseOf("", "", math.nan, "")


@dataclass(frozen=True, eq=False)
class Numbers:
    """Everything measured of one layer."""

    raw: dict[str, float]
    null: dict[str, Null]
    excess: dict[str, float]
    interval: dict[str, Ends]
    cross: CrossMoment
    exponents: Exponents | None
    spectra: Spectra | None
    phase: PhaseOf
    forward: Stationary
    backward: Stationary
    rank_in: int
    rank_out: int
    matrices: Matrices | None = field(default=None, metadata={"saved": False})


def measure_layer(moments: Moments, *, measure: Measure, draws: int, keep: bool = False) -> Numbers:
    """Measure one layer; intervals are those of a jackknife over its folds.

    Raises:
        LawscopeError: a moment is zero, or the layer has a single unit on both sides.
    """
    whole = join(moments)
    W = read_layer(whole.weight, whole.H_a, whole.G_b).weight
    if W.size == 1:
        raise LawscopeError("weight is 1×1; alignments need at least 2 units on one side.")
    layer = SingularLayer(
        W, None if whole.change is None else read_change(whole.change, W), measure
    )
    # The directions in which exponents are read.
    acting = layer if layer.change is None else SingularLayer(layer.change)
    seen = layer.project(whole.H_a, whole.G_b)
    raw = measure_alignments(layer, seen, moments.read_measured())
    null = measure_null(layer, whole, draws, moments.shared)
    if acting is not layer:
        seen = acting.project(whole.H_a, whole.G_b)
    exponents, phase = find_phase(acting, seen)
    return Numbers(
        raw=raw,
        null=null,
        excess=measure_excess(raw, null),
        interval=find_intervals(moments, layer, acting, null, exponents is not None),
        cross=measure_cross(whole.cross, layer.Z_b),
        exponents=exponents,
        spectra=find_spectra(whole),
        phase=phase,
        forward=_stationary(layer.Z_b, whole.G_b, whole.H_b),
        backward=_stationary(layer.Z_a, whole.H_a, whole.G_a),
        rank_in=effective_rank99(whole.H_a),
        rank_out=effective_rank99(whole.H_b),
        matrices=whole if keep else None,
    )


def find_intervals(
    moments: Moments,
    layer: SingularLayer,
    acting: SingularLayer,
    null: dict[str, Null],
    fitted: bool,
) -> dict[str, Ends]:
    """Return 95 % intervals by name: the excess of each relation, "cross", "p" and "q".

    Their width is that of the jackknife over folds (Busing et al. 1999), of an excess together
    with that of its null. They are about the value of these samples, since the bias of few samples
    is in the null as well. Empty with fewer than 3 folds that have rows.
    """
    counts = moments.inputs.counts.numpy()
    folds = [f for f in range(len(counts)) if counts[f]]
    if len(folds) < LEAST_FOLDS:
        return {}

    def values(without: int | None) -> list[float]:
        H_a, G_b = moments.read("inputs", without), moments.read("gradients", without)
        if not (H_a.any() and G_b.any()):  # all gradients lie in one fold
            return [math.nan] * len(names)
        seen = layer.project(H_a, G_b)
        raw = measure_alignments(layer, seen, moments.read_measured(without))
        cross = math.nan
        if not moments.jacobian:
            cross = align_cross(layer, moments.read("cross", without))
        found = None
        if fitted:
            found, _ = find_phase(acting, seen if acting is layer else acting.project(H_a, G_b))
        exponents = (found.p, found.q) if found else (math.nan, math.nan)
        return [*measure_excess(raw, null).values(), cross, *exponents]

    names = [*RELATIONS, "cross", "p", "q"]
    table = np.array([values(None), *(values(fold) for fold in folds)])
    ratios = counts.sum() / counts[folds]
    errors = jackknife(table, ratios, ratios / (ratios - 1)).error
    half = _quantile(len(folds)) * errors
    # A single rotation would be so far from the mean of all.
    spread = [TWO_SIDED * each.sd / max(1 - each.mean, 1e-300) for each in null.values()]
    half = np.hypot(half, [*spread, 0.0, 0.0, 0.0])
    return {
        name: (float(value - width), float(value + width))
        for name, value, width in zip(names, table[0], half, strict=True)
        if math.isfinite(value) and math.isfinite(width)
    }


def find_phase(layer: SingularLayer, seen: Projected) -> tuple[Exponents | None, PhaseOf]:
    """Fit (p, q) and name the phase, or say why there is none."""
    try:
        found = fit_projected(layer.s**2, seen.H, seen.G)
    except LawscopeError as error:
        return None, NO_PHASE._replace(reason=str(error))
    label = PHASES.classify(
        found.p,
        found.q,
        found.r2_p,
        found.r2_q,
        commutator_h=found.commutator_h,
        commutator_g=found.commutator_g,
    )
    return found, PhaseOf(label.phase or "", label.nearest, label.distance, label.reason)


def find_spectra(parts: Matrices) -> Spectra | None:
    """Fit the power law of the eigenvalues of H_b and G_b, or return None."""
    try:
        found = fit_spectra(parts.H_b, parts.G_b)
    except LawscopeError:
        return None
    return Spectra(*(PowerLaw(*line) for line in (found.sorted, found.in_g, found.in_h)))


def _stationary(Z: FloatArray, plus: FloatArray, minus: FloatArray) -> Stationary:
    found = fit_stationary(Z, plus, minus)
    return Stationary(found.plus, found.minus, found.residual)


def _quantile(folds: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, folds - 1))
