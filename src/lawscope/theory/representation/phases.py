"""The phases of a layer: which two alignments hold, and the power laws that follow.

In the singular basis of W, with z its squared singular values, H_a ~ z^p and G_b ~ z^q give
H_b ~ z^{p+1} and G_a ~ z^{q+1}, and each alignment is a line in the (p, q) plane::

    backward RGA  p = q + 1     backward RWA  p = 1     backward GWA  q = 0
    forward RGA   q = p + 1     forward RWA   p = 0     forward GWA   q = 1

One backward and one forward line meet in a point, a phase (Table 1 of Ziyin, Chuang et al. 2024).
Where they are parallel and do not meet (phases 1, 2, 3) both can hold only if all z are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space
from scipy.stats import ortho_group

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.lazy import pd
from lawscope.theory.arguments import read_array
from lawscope.theory.representation.alignments import RELATIONS
from lawscope.whole_number import whole_number

# a·p + b·q = c of every relation.
_LINES = {
    "backward RGA": (1, -1, 1),
    "backward RWA": (1, 0, 1),
    "backward GWA": (0, 1, 0),
    "forward RGA": (-1, 1, 1),
    "forward RWA": (1, 0, 0),
    "forward GWA": (0, 1, 1),
}
LEAST_R2 = 0.7
MOST_DISTANCE = 0.3
# An exponent of 0 has no R²; the moment must commute with Z instead.
MOST_COMMUTATOR = 0.2


@dataclass(frozen=True)
class Phase:
    """A row of Table 1 of Ziyin, Chuang et al. (2024).

    Attributes:
        name: as in the table.
        relations: alignments that define it; all that hold follow from ``point``.
        point: (p, q), or None where all z must be equal.
    """

    name: str
    relations: tuple[str, ...]
    point: tuple[int, int] | None

    @property
    def alpha(self) -> float | None:
        """The forward exponent of H_b ~ G_b^α; None if G_b is flat and H_b is not determined."""
        if self.point is None:
            return 1.0 if "forward RGA" in self.relations else None
        p, q = self.point
        return (p + 1) / q if q else None


@dataclass(frozen=True)
class Label:
    """What measured exponents say.

    Attributes:
        phase: name of the phase, or None.
        nearest: the closest phase, whether or not it is granted.
        distance: to it, in the (p, q) plane.
        reason: why there is no phase; empty if there is one.
    """

    phase: str | None
    nearest: str
    distance: float
    reason: str


class PhaseTable(dict[str, Phase]):
    """Table 1 of Ziyin, Chuang et al. (2024): phases by name, and what measured exponents say."""

    def table(self) -> pd.DataFrame:
        """Return one row per phase: the alignments that define it, exponents p, q and α."""
        rows = [
            (each.name, ", ".join(each.relations), *(each.point or (None, None)), each.alpha)
            for each in self.values()
        ]
        return pd.DataFrame(rows, columns=["phase", "alignments", "p", "q", "α"])

    def classify(
        self,
        p: float,
        q: float,
        r2_p: float,
        r2_q: float,
        *,
        commutator_h: float | None = None,
        commutator_g: float | None = None,
    ) -> Label:
        """Name the phase of measured exponents, or say why there is none.

        A phase needs a distance below 0.3 in the (p, q) plane and, for each exponent, R² above
        0.7. An exponent of the phase that is 0 has no R² to speak of: there the moment must commute
        with Z, a commutator below 0.2, which tells a flat spectrum from a moment that has nothing
        to do with W.

        Args:
            p: of H_a ~ z^p.
            q: of G_b ~ z^q.
            r2_p: R² of p.
            r2_q: R² of q.
            commutator_h: of H_a with WᵀW, as ``fit_exponents`` gives it.
            commutator_g: of G_b with WWᵀ.

        Returns:
            The phase, or None with the reason, and the nearest one with its distance.

        Raises:
            LawscopeError: not finite numbers, or an R² above 1.

        Example:
            >>> PHASES.classify(1.1, 0.9, 0.95, 0.9).phase
            '8'
            >>> PHASES.classify(1.1, 0.9, 0.95, 0.4).reason
            'G_b follows no power of z: R² = 0.4, not above 0.7'
        """
        point = read_array("(p, q)", [p, q], 1)
        for name, value in (("r2_p", r2_p), ("r2_q", r2_q)):
            if not read_array(name, value, 0) <= 1:
                raise LawscopeError(f"{name} is {value:g}; an R² is at most 1.")
        points = {each.name: each.point for each in self.values() if each.point is not None}
        distances = {name: math.dist(point, place) for name, place in points.items()}
        nearest = min(distances, key=lambda name: distances[name])
        distance = distances[nearest]
        reasons = [
            _find_fault(*each)
            for each in (
                ("H_a", points[nearest][0], r2_p, commutator_h),
                ("G_b", points[nearest][1], r2_q, commutator_g),
            )
        ]
        if distance >= MOST_DISTANCE:
            reasons.append(
                f"({p:.2g}, {q:.2g}) is {distance:.2g} from phase {nearest}, not below "
                f"{MOST_DISTANCE}"
            )
        reason = "; ".join(filter(None, reasons))
        return Label(None if reason else nearest, nearest, distance, reason)


_BACK, _FORWARD = RELATIONS[:3], RELATIONS[3:]

PHASES = PhaseTable(
    (phase.name, phase)
    for phase in (
        Phase("CRH", RELATIONS, None),
        Phase("backward CRH", _BACK, (1, 0)),
        Phase("forward CRH", _FORWARD, (0, 1)),
        Phase("1", ("backward RGA", "forward RGA"), None),
        Phase("2", ("backward RWA", "forward RWA"), None),
        Phase("3", ("backward GWA", "forward GWA"), None),
        Phase("4", ("backward RGA", "forward RWA"), (0, -1)),
        Phase("5", ("backward RWA", "forward RGA"), (1, 2)),
        Phase("6", ("backward RGA", "forward GWA"), (2, 1)),
        Phase("7", ("backward GWA", "forward RGA"), (-1, 0)),
        Phase("8", ("backward RWA", "forward GWA"), (1, 1)),
        Phase("9", ("backward GWA", "forward RWA"), (0, 0)),
    )
)


def find_relations(p: float, q: float, tolerance: float = 1e-9) -> tuple[str, ...]:
    """Return the alignments that exponents imply.

    Args:
        p: of H_a ~ z^p.
        q: of G_b ~ z^q.
        tolerance: distance of (p, q) from the line of a relation.

    Returns:
        Names of relations, in the order of ``RELATIONS``.

    Raises:
        LawscopeError: not finite numbers.

    Example:
        >>> find_relations(1, 2)
        ('backward RWA', 'forward RGA')
    """
    point = read_array("(p, q)", [p, q], 1)
    return tuple(
        name
        for name, (a, b, c) in _LINES.items()
        if abs(a * point[0] + b * point[1] - c) <= tolerance * math.hypot(a, b)
    )


def find_implied(relations: Iterable[str]) -> tuple[str, ...]:
    """Return all alignments that follow from some: master theorem, Ziyin, Chuang et al. (2024).

    Where the moments are diagonal in W's singular basis, a relation a·p + b·q = c of the exponents
    is a·ln h + b·ln g = c·ln z (up to a constant) of any spectra, so that relations follow
    from others iff they are in their linear span: two of a side give the third; one of each side
    and one more give all six. All six leave only constant spectra: H ∝ G ∝ Z ∝ a projection.

    Args:
        relations: names out of ``RELATIONS``.

    Returns:
        Names of all that hold, in the order of ``RELATIONS``.

    Raises:
        LawscopeError: an unknown name.

    Example:
        >>> find_implied(["forward RGA", "forward RWA"])
        ('forward RGA', 'forward RWA', 'forward GWA')
    """
    rows = _read_relations(relations)
    rank = _rank(rows)
    return tuple(name for name, line in _LINES.items() if _rank([*rows, line]) == rank)


def make_layer(
    phase: str, d: int, seed: int, *, condition: float = 100.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Make a layer that is exactly in a phase, in random bases.

    Args:
        phase: a name of ``PHASES``.
        d: units on both sides, at least 4.
        seed: of the bases.
        condition: largest over smallest z, where z is not flat.

    Returns:
        W, H_a and G_b, each of shape (d, d). Where z must be flat: for the CRH all are made of a
        projection of rank d//2; for phase 1, 2, 3 the moment that the phase leaves free is random.

    Raises:
        LawscopeError: an unknown phase, or fewer than 4 units.

    Example:
        >>> W, H_a, G_b = make_layer("8", 8, seed=0)
        >>> from lawscope.theory.representation import compute_alignments
        >>> found = compute_alignments(W, H_a, G_b)
        >>> round(found["backward RWA"], 6), round(found["forward GWA"], 6)
        (1.0, 1.0)
    """
    if phase not in PHASES:
        raise LawscopeError(f"phase={phase!r} is unknown; give one of {', '.join(PHASES)}.")
    size = whole_number("d", d, 4, "leaves no spectrum", 100_000)
    rng = np.random.default_rng(whole_number("seed", seed, 0, "is negative", 2**32 - 1))
    U, V = (np.asarray(ortho_group.rvs(size, random_state=rng)) for _ in range(2))
    point = PHASES[phase].point
    if point is not None:
        p, q = point
        z = np.geomspace(1, 1 / condition, size)
        return (U * np.sqrt(z)) @ V.T, (V * z**p) @ V.T, (U * z**q) @ U.T
    if phase == "CRH":
        half = size // 2
        return U[:, :half] @ V[:, :half].T, V[:, :half] @ V[:, :half].T, U[:, :half] @ U[:, :half].T
    W = U @ V.T
    factor = rng.normal(size=(size, size))
    free, flat = factor @ factor.T / size, np.eye(size)
    H_a, G_b = {"1": (free, W @ free @ W.T), "2": (flat, free), "3": (free, flat)}[phase]
    return W, H_a, G_b


def make_related_layer(
    relations: Iterable[str], d: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Make a layer of random spectra and bases that has the given alignments and asks nothing else.

    Args:
        relations: names out of ``RELATIONS``.
        d: units on both sides, at least 4.
        seed: of spectra and bases.

    Returns:
        W, H_a and G_b, each of shape (d, d).

    Raises:
        LawscopeError: an unknown name, or fewer than 4 units.

    Example:
        >>> from lawscope.theory.representation import compute_alignments
        >>> found = compute_alignments(*make_related_layer(["forward RGA"], 8, seed=0))
        >>> round(found["forward RGA"], 6), found["forward RWA"] < 0.99
        (1.0, True)
    """
    rows = _read_relations(relations)
    size = whole_number("d", d, 4, "leaves no spectrum", 100_000)
    rng = np.random.default_rng(whole_number("seed", seed, 0, "is negative", 2**32 - 1))
    U, V = (np.asarray(ortho_group.rvs(size, random_state=rng)) for _ in range(2))
    # a·ln h + b·ln g − c·ln z = 0 for each; the null space is free.
    equations = np.array([(a, b, -c) for a, b, c in rows] or [(0, 0, 0)], dtype=np.float64)
    free = null_space(equations)
    h, g, z = np.exp(free @ rng.normal(size=(free.shape[1], size)))
    return (U * np.sqrt(z)) @ V.T, (V * h) @ V.T, (U * g) @ U.T


def _read_relations(relations: Iterable[str]) -> list[tuple[int, int, int]]:
    """Return the lines of relations."""
    given = [relations] if isinstance(relations, str) else list(relations)
    for name in given:
        if name not in _LINES:
            raise LawscopeError(
                f"{name!r} is not an alignment; give names out of {', '.join(_LINES)}."
            )
    return [_LINES[name] for name in given]


def _rank(rows: list[tuple[int, int, int]]) -> int:
    """Return the number of independent relations."""
    return int(np.linalg.matrix_rank(np.array(rows))) if rows else 0


def _find_fault(name: str, exponent: int, r2: float, commutator: float | None) -> str:
    """Return why a moment does not follow its power, or nothing."""
    if exponent == 0 and commutator is not None:
        if commutator < MOST_COMMUTATOR:
            return ""
        return (
            f"{name} is flat along W but does not commute with Z: {commutator:.2g}, not below "
            f"{MOST_COMMUTATOR}"
        )
    if r2 > LEAST_R2:
        return ""
    return f"{name} follows no power of z: R² = {r2:.2g}, not above {LEAST_R2}"
